#include "gradwire/net/unix_listener.h"

#include <unistd.h>

#include <system_error>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/base/error.h"
#include "gradwire/net/fork.h"
#include "gradwire/net/unix_socket.h"

namespace gradwire::net {
namespace {

constexpr const char* socket_name = "s";
// Cleaners of /tmp that go by age count days.
constexpr Duration between_touches = std::chrono::hours(1);

HeldFolder make_folder() {
  std::vector<std::string> failures;
  for (const std::string& place : folder_places()) {
    try {
      HeldFolder folder(worker_folders(), place);
      if (folder.path().size() + 1 + std::string_view(socket_name).size() <= longest_unix_path) return folder;
      folder.remove(worker_folders());
      failures.push_back(place + ": the path of a socket in it would be too long");
    } catch (const std::system_error& error) {
      failures.emplace_back(error.what());
    }
  }
  throw InvalidArgumentError(
      fmt::format("no folder can be made for the worker's socket ({}): set TMPDIR to a folder with a short path that "
                  "this user can write to",
                  fmt::join(failures, "; ")));
}

}  // namespace

std::shared_ptr<UnixListener> UnixListener::make(std::shared_ptr<Runtime> runtime, Duration check_every,
                                                 Acceptor::Accepted accepted) {
  std::shared_ptr<UnixListener> listener(new UnixListener(std::move(runtime), check_every, std::move(accepted)));
  listener->check_later();
  return listener;
}

UnixListener::UnixListener(std::shared_ptr<Runtime> runtime, Duration check_every, Acceptor::Accepted accepted)
    : runtime_(std::move(runtime)),
      check_every_(check_every),
      accepted_([accepted = std::move(accepted)](Descriptor socket) {
        if (is_same_user(socket.get()))
          accepted(std::move(socket));
        else
          LOG(WARNING) << "gradwire: a process of another user tried to connect, and was turned away";
      }) {
  MutexLock lock(mutex_);
  folder_ = make_folder();
  close_when_forked(folder_.descriptor());
  path_ = folder_.path() + "/" + socket_name;
  next_touch_ = runtime_->now() + between_touches;
  try {
    listen();
  } catch (const std::system_error& error) {
    forget_when_forked(folder_.descriptor());
    folder_.remove(worker_folders());
    throw InvalidArgumentError(fmt::format("the worker's socket cannot be made: {}", error.what()));
  }
}

void UnixListener::listen() {
  Descriptor socket = listen_on_unix_socket(path_);
  try {
    acceptor_ = Acceptor::make(runtime_, std::move(socket), accepted_);
  } catch (...) {
    ::unlink(path_.c_str());  // nobody would listen there
    throw;
  }
}

void UnixListener::close() {
  MutexLock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  if (acceptor_) acceptor_->close();
  forget_when_forked(folder_.descriptor());
  folder_.remove(worker_folders());
}

void UnixListener::check_later() {
  runtime_->after(check_every_, [weak = weak_from_this()] {
    if (const std::shared_ptr<UnixListener> self = weak.lock()) self->check();
  });
}

void UnixListener::check() {
  {
    MutexLock lock(mutex_);
    if (closed_) return;
    // First: whatever happens below, the path is looked at again.
    check_later();
    if (!folder_.is_there() || ::access(path_.c_str(), F_OK) != 0) {
      make_anew();
    } else if (runtime_->now() >= next_touch_) {
      folder_.touch(socket_name);
      next_touch_ = runtime_->now() + between_touches;
    }
  }
}

void UnixListener::make_anew() {
  std::string why;
  try {
    if (folder_.is_there()) {
      listen();
    } else {
      forget_when_forked(folder_.descriptor());
      const bool made = folder_.make_anew();
      const int error = errno;
      close_when_forked(folder_.descriptor());
      if (!made) throw std::system_error(error, std::generic_category(), folder_.path());
      listen();
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  const std::string removed = "gradwire: someone removed the worker's socket " + path_ + " while the worker runs";
  if (why.empty()) {
    LOG(WARNING) << removed << "; it was made anew. Exclude gradwire-worker-* from what cleans that folder";
  } else if (!failure_logged_) {
    LOG(WARNING) << removed << ", and it cannot be made anew (" << why
                 << "): workers that have no connection to this one cannot make any";
  }
  failure_logged_ = !why.empty();
}

}  // namespace gradwire::net
