// A worker's life:
//   running    until its process ends. A bad end is judged at once: a restart, or the end of all.
//   lingering  what it left behind in its process group, and still holds its output, is asked to end.
//   gone       the group was killed and the process reaped: only now is its number free for others.
#include "tools/run.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "gradwire/net/descriptor.h"

#include "tools/run_events.h"
#include "tools/run_folder.h"
#include "tools/run_process.h"
#include "tools/run_streams.h"

namespace gradwire::tools {
namespace {

using Clock = Events::Clock;

constexpr std::array heard_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};

std::string name_of_signal(int number) { return std::string("SIG") + ::sigabbrev_np(number); }

std::string counted(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string in_seconds(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000 << " s";
  return text.str();
}

// From here on these signals are read from a file, but for those that whoever started this program has it ignore, as
// nohup does.
net::Descriptor open_signals() {
  // Ignored, it would let the ends of workers go unseen.
  ::signal(SIGCHLD, SIG_DFL);
  // Nobody reads the output any more: writing says so.
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : heard_signals) {
    struct sigaction action{};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  net::Descriptor file(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!file) throw std::runtime_error(std::string("signals cannot be read: ") + ::strerror(errno));
  return file;
}

// As other programs that a signal ends, so that a shell does not go on with the next line of a script.
int end_by(int signal) {
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  return 128 + signal;
}

enum class State { running, lingering, gone };

struct Worker {
  std::string in_words() const {
    return name + " (rank " + std::to_string(rank) + ", pid " + std::to_string(process.id()) + ")";
  }
  const size_t rank;
  const std::string name;
  State state = State::gone;
  Process process;
  Events::Watch watch = 0;       // for its end
  Clock::time_point patience;    // while lingering
  bool to_be_restarted = false;  // once it is gone
  int restarts = 0;
};

class Run {
 public:
  explicit Run(const RunOptions& options);
  struct Result {
    int code = 0;
    int signal = 0;  // that ended it all, if one did
  };
  Result to_the_end();

 private:
  void start(Worker& worker);
  std::vector<std::string> environment_of(const Worker& worker) const;
  void on_end(Worker& worker);
  void judge(Worker& worker, const End& end);
  // Says why the run failed: last, behind the output of all that ended with it.
  void say_error(const Worker& worker);
  void bury(Worker& worker);
  void on_signal();
  void on_time();
  std::optional<Clock::time_point> next_time() const;

  void end_all(int signal);
  void kill_all();
  void stand_still();
  void signal_running(int number);

  size_t count(State state) const;

  const RunOptions& options_;
  const Inheritance inheritance_;
  const net::Descriptor signals_ = open_signals();  // before the folder, which must not be left behind
  const std::string program_;
  const RunFolder folder_;
  const net::Descriptor nothing_;
  Events events_;
  Streams streams_;
  std::deque<Worker> workers_;

  int restarts_ = 0;
  const Worker* failed_ = nullptr;  // the first that did
  bool ending_ = false;
  bool killing_ = false;
  std::optional<Clock::time_point> patience_;  // while ending: those that still run then are killed
  Result result_;
};

Run::Run(const RunOptions& options)
    : options_(options),
      program_(find_program(options.command.front())),
      nothing_(::open("/dev/null", O_RDWR | O_CLOEXEC)),
      streams_(events_, options.names) {
  for (size_t rank = 0; rank < options.names.size(); ++rank) workers_.push_back({rank, options.names[rank]});
  // Three descriptors for each worker, and some.
  rlimit files = inheritance_.files;
  files.rlim_cur = std::min(files.rlim_max, std::max<rlim_t>(files.rlim_cur, 3 * workers_.size() + 64));
  ::setrlimit(RLIMIT_NOFILE, &files);
  events_.watch(signals_.get(), EPOLLIN, [this] { on_signal(); });
}

Run::Result Run::to_the_end() {
  for (Worker& worker : workers_)
    if (!ending_) start(worker);
  for (;;) {
    streams_.write();
    if (count(State::gone) == workers_.size()) {
      if (const Worker* failed = std::exchange(failed_, nullptr)) {
        say_error(*failed);
        continue;
      }
      if (streams_.all_written()) return result_;
    }
    events_.wait(next_time());
    on_time();
  }
}

void Run::start(Worker& worker) {
  try {
    // Only one can have what is typed or piped in. A terminal gives nothing to a process group in the background, and
    // stops who asks.
    const bool reads = worker.rank == 0 && ::isatty(STDIN_FILENO) == 0;
    worker.process = Process({.program = program_,
                              .arguments = options_.command,
                              .environment = environment_of(worker),
                              .input = reads ? STDIN_FILENO : nothing_.get()},
                             inheritance_);
  } catch (const std::runtime_error& error) {
    streams_.say(error.what());
    result_ = {.code = 2};
    end_all(SIGTERM);
    return;
  }
  worker.state = State::running;
  streams_.open(worker.rank, std::move(worker.process.output()), std::move(worker.process.errors()));
  worker.watch = events_.watch(worker.process.ended(), EPOLLIN, [this, &worker] { on_end(worker); });
}

std::vector<std::string> Run::environment_of(const Worker& worker) const {
  const std::vector<std::pair<std::string, std::string>> ours = {
      {"RANK", std::to_string(worker.rank)},
      {"WORLD_SIZE", std::to_string(workers_.size())},
      {"LOCAL_RANK", std::to_string(worker.rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(workers_.size())},
      {"GRADWIRE_NAME", worker.name},
      {"GRADWIRE_STORE", options_.store.empty() ? folder_.store() : options_.store},
      {"GRADWIRE_SECRET_FILE", folder_.secret()},
      {"GRADWIRE_RESTART", std::to_string(worker.restarts)},
      // A pipe would be buffered by blocks, and the last of them lost when the worker is killed. C++ programs buffer by
      // line from Worker::join on.
      {"PYTHONUNBUFFERED", "1"},
  };
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::none_of(ours.begin(), ours.end(), [&](const auto& pair) { return pair.first == name; }))
      result.emplace_back(text);
  }
  for (const auto& [name, value] : ours) result.push_back(std::string(name).append("=").append(value));
  return result;
}

void Run::on_end(Worker& worker) {
  events_.unwatch(worker.watch);
  streams_.read_rest(worker.rank);  // its last words come before what is said of its end
  worker.state = State::lingering;
  judge(worker, worker.process.end());
  if (streams_.ended(worker.rank) || killing_) {
    bury(worker);
  } else {
    worker.process.signal(SIGTERM);
    worker.patience = Clock::now() + options_.grace;
  }
}

void Run::judge(Worker& worker, const End& end) {
  if (ending_ || !end.failed()) return;
  const std::string what = worker.in_words() + " " + end.in_words();
  if (restarts_ < options_.restarts) {
    ++restarts_;
    ++worker.restarts;
    worker.to_be_restarted = true;
    streams_.say(what + "; it is started again (restart " + std::to_string(restarts_) + " of " +
                 std::to_string(options_.restarts) + ")");
    return;
  }
  if (result_.code == 0) {
    result_ = {.code = end.code()};
    failed_ = &worker;
  }
  const size_t others = count(State::running);
  if (options_.keep_going) {
    streams_.say(what + (others > 0 ? "; " + counted(others, "other") + " still running" : ""));
    return;
  }
  streams_.say(what +
               (others > 0 ? "; ending the other " + (others > 1 ? std::to_string(others) : std::string("one")) : ""));
  end_all(SIGTERM);
}

void Run::say_error(const Worker& worker) {
  if (const std::string error = streams_.last_error(worker.rank); !error.empty())
    streams_.say(worker.name + " ended with: " + error);
}

void Run::bury(Worker& worker) {
  worker.process.signal(SIGKILL);
  streams_.read_rest(worker.rank);
  streams_.close(worker.rank);
  worker.process.reap();
  worker.state = State::gone;
  const bool again = std::exchange(worker.to_be_restarted, false);
  if (again && !ending_) start(worker);
}

void Run::on_signal() {
  signalfd_siginfo about{};
  while (::read(signals_.get(), &about, sizeof about) == sizeof about) {
    const int number = static_cast<int>(about.ssi_signo);
    const size_t running = count(State::running);
    if (number == SIGTSTP) {
      stand_still();
    } else if (count(State::gone) == workers_.size()) {
      // What waits for its reader is lost.
      streams_.drop();
      if (result_.code == 0) result_ = {.code = 128 + number, .signal = number};
    } else if (!ending_) {
      result_ = {.code = 128 + number, .signal = number};
      streams_.say(name_of_signal(number) + " passed on to " + counted(running, "worker") + "; who still runs after " +
                   in_seconds(options_.grace) + " is killed (SIGINT: at once)");
      end_all(number);
    } else if (number == SIGINT) {
      streams_.say("SIGINT: " + counted(running, "worker") + " killed");
      kill_all();
    } else {
      signal_running(number);
    }
  }
}

void Run::on_time() {
  const auto now = Clock::now();
  if (patience_ && now >= *patience_) {
    for (const Worker& worker : workers_)
      if (worker.state == State::running)
        streams_.say(worker.in_words() + " did not end within " + in_seconds(options_.grace) + ": killed");
    kill_all();
  }
  for (Worker& worker : workers_)
    if (worker.state == State::lingering && (streams_.ended(worker.rank) || now >= worker.patience)) bury(worker);
}

std::optional<Clock::time_point> Run::next_time() const {
  std::optional<Clock::time_point> next = patience_;
  for (const Worker& worker : workers_)
    if (worker.state == State::lingering && (!next || worker.patience < *next)) next = worker.patience;
  return next;
}

void Run::end_all(int signal) {
  ending_ = true;
  patience_ = Clock::now() + options_.grace;
  signal_running(signal);
}

void Run::kill_all() {
  killing_ = true;
  patience_.reset();
  signal_running(SIGKILL);
  for (Worker& worker : workers_)
    if (worker.state == State::lingering) bury(worker);
}

// Ctrl-Z reaches only this process: the workers are in groups of their own.
void Run::stand_still() {
  signal_running(SIGSTOP);
  ::raise(SIGSTOP);
  signal_running(SIGCONT);
}

void Run::signal_running(int number) {
  for (const Worker& worker : workers_)
    if (worker.state == State::running) worker.process.signal(number);
}

size_t Run::count(State state) const {
  return static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(), [state](const Worker& worker) { return worker.state == state; }));
}

}  // namespace

int run(const RunOptions& options) {
  const Run::Result result = Run(options).to_the_end();
  return result.signal != 0 ? end_by(result.signal) : result.code;
}

}  // namespace gradwire::tools
