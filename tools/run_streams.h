// The two output streams of every worker, read as they come and written on to this process's stdout and stderr. Workers
// whose output is not read wait in their writes; when nobody will ever read it, their writes fail, as if they wrote
// there themselves. One thread.
#pragma once

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "gradwire/net/descriptor.h"

#include "tools/run_events.h"
#include "tools/run_output.h"

namespace gradwire::tools {

class Streams {
 public:
  Streams(Events& events, const std::vector<std::string>& names);

  // A worker's output from now on; the last one's was closed.
  void open(size_t rank, net::Descriptor output, net::Descriptor errors);
  // Whether nobody can write to a worker's output any more.
  bool ended(size_t rank) const { return !streams_[rank][0].pipe && !streams_[rank][1].pipe; }
  // Reads what is there already.
  void read_rest(size_t rank);
  // Whoever still writes there is not heard any more.
  void close(size_t rank);

  // Why the worker ended, as far as it said so on stderr; empty if it did not.
  std::string last_error(size_t rank) const { return last_words_[rank].error(); }

  // A line of the launcher's own, on stderr.
  void say(const std::string& text) { errors_->sink.add("gradwire: " + text + "\n"); }
  // Writes what can be written now; the rest follows when it can, in Events::wait.
  void write();
  bool all_written() const;
  void drop();

 private:
  struct Outlet {
    explicit Outlet(int file) : sink(file) {}
    Sink sink;
    Events::Watch watch = 0;  // while it has more than could be written
  };
  struct Stream {
    Outlet& outlet;
    Lines lines;
    net::Descriptor pipe;
    Events::Watch watch = 0;
  };

  bool read_once(Stream& stream);
  void close(Stream& stream);
  void watch(Stream& stream);
  void write(Outlet& outlet);
  template <class Action>
  void for_streams_of(const Outlet& outlet, Action action);

  Events& events_;
  std::deque<Outlet> outlets_;  // one if stdout and stderr are the same file: their lines must not cross either
  Outlet* output_;
  Outlet* errors_;
  std::deque<LastWords> last_words_;           // by rank
  std::deque<std::array<Stream, 2>> streams_;  // by rank
};

}  // namespace gradwire::tools
