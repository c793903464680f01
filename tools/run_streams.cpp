#include "tools/run_streams.h"

#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gradwire::tools {
namespace {

bool are_the_same(int file, int other) {
  struct stat first{};
  struct stat second{};
  return ::fstat(file, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Streams::Streams(Events& events, const std::vector<std::string>& names) : events_(events) {
  output_ = errors_ = &outlets_.emplace_back(STDOUT_FILENO);
  if (!are_the_same(STDOUT_FILENO, STDERR_FILENO)) errors_ = &outlets_.emplace_back(STDERR_FILENO);
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, name.size());
  for (size_t rank = 0; rank < names.size(); ++rank)
    streams_.push_back(
        {Stream{*output_, Lines(output_->sink, names[rank], rank, longest)},
         Stream{*errors_, Lines(errors_->sink, names[rank], rank, longest, &last_words_.emplace_back())}});
}

void Streams::open(size_t rank, net::Descriptor output, net::Descriptor errors) {
  last_words_[rank].clear();
  streams_[rank][0].pipe = std::move(output);
  streams_[rank][1].pipe = std::move(errors);
  for (Stream& stream : streams_[rank]) watch(stream);
}

void Streams::read_rest(size_t rank) {
  // No pipe holds more than a mebibyte, but who has left the worker's group may write to it for ever.
  constexpr int most = 16;
  for (Stream& stream : streams_[rank])
    for (int i = 0; i < most && read_once(stream); ++i) {
    }
}

void Streams::close(size_t rank) {
  for (Stream& stream : streams_[rank]) close(stream);
}

void Streams::write() {
  for (Outlet& outlet : outlets_) write(outlet);
}

bool Streams::all_written() const {
  return std::all_of(outlets_.begin(), outlets_.end(), [](const Outlet& outlet) { return outlet.sink.empty(); });
}

void Streams::drop() {
  for (Outlet& outlet : outlets_) outlet.sink.drop();
}

// False when there is nothing to read for now.
bool Streams::read_once(Stream& stream) {
  std::array<char, 65536> buffer;
  const ssize_t count = stream.pipe ? ::read(stream.pipe.get(), buffer.data(), buffer.size()) : -1;
  if (count > 0) stream.lines.add({buffer.data(), static_cast<size_t>(count)});
  if (count == 0) close(stream);
  return count > 0;
}

void Streams::close(Stream& stream) {
  events_.unwatch(stream.watch);
  stream.pipe = net::Descriptor();
  stream.lines.finish();
}

void Streams::watch(Stream& stream) {
  if (!stream.pipe || stream.watch != 0 || stream.outlet.sink.full()) return;
  stream.watch = events_.watch(stream.pipe.get(), EPOLLIN, [this, &stream] {
    read_once(stream);
    if (stream.outlet.sink.full()) write(stream.outlet);
  });
}

void Streams::write(Outlet& outlet) {
  Sink& sink = outlet.sink;
  sink.write();
  if (sink.broken())
    for_streams_of(outlet, [this](Stream& stream) { close(stream); });
  else if (sink.full())
    for_streams_of(outlet, [this](Stream& stream) { events_.unwatch(stream.watch); });
  else if (outlet.watch != 0)
    for_streams_of(outlet, [this](Stream& stream) { watch(stream); });
  if (sink.empty())
    events_.unwatch(outlet.watch);
  else if (outlet.watch == 0)
    outlet.watch = events_.watch(sink.file(), EPOLLOUT, [this, &outlet] { write(outlet); });
}

template <class Action>
void Streams::for_streams_of(const Outlet& outlet, Action action) {
  for (auto& both : streams_)
    for (Stream& stream : both)
      if (&stream.outlet == &outlet) action(stream);
}

}  // namespace gradwire::tools
