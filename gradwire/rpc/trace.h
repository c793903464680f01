// What a worker does, and when, in a file that a viewer shows (Perfetto, chrome://tracing): with GRADWIRE_TRACE=folder
// each worker writes one file there, and `gradwire trace folder` makes one of them all, with arrows from caller to
// callee.
//
// A line is an event in the viewers' JSON format; a killed worker's file ends with the last second or so missing. The
// first and the last event say when the worker was there: workers whose times overlap belong to one run.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "gradwire/base/id.h"
#include "gradwire/base/mutex.h"

namespace gradwire {

// Any thread.
class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Null if GRADWIRE_TRACE is not set. Throws InvalidArgumentError if the file cannot be made.
  static std::shared_ptr<Trace> of(const std::string& worker, int rank, Incarnation incarnation);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // What connects events of several workers: a call, by its caller and number.
  enum class Flow : char { none = 0, begins = 's', ends = 'f' };
  // Something this thread did; such spans lie inside each other or apart.
  void span(const char* category, std::string_view name, Time from, Time to, Flow flow = Flow::none, Id id = {});
  // Something that began and ended at any threads, and may overlap with others.
  void stretch(const char* category, std::string_view name, Time from, Time to, Id id);

  // A span from here to the end of the block; costs nothing without a trace.
  class Span {
   public:
    Span(Trace* trace, const char* category, std::string_view name, Flow flow = Flow::none, Id id = {})
        : trace_(trace), category_(category), name_(name), flow_(flow), id_(id) {
      if (trace_ != nullptr) from_ = std::chrono::steady_clock::now();
    }
    ~Span() {
      if (trace_ != nullptr) trace_->span(category_, name_, from_, std::chrono::steady_clock::now(), flow_, id_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace* const trace_;
    const char* const category_;
    const std::string_view name_;
    const Flow flow_;
    const Id id_;
    Time from_;
  };

 private:
  explicit Trace(std::FILE* file, int rank);
  double microseconds(Time time) const;
  void mark(const char* name);
  void write(std::string_view lines) GRADWIRE_EXCLUDES(mutex_);

  const int rank_;
  // Clocks of several hosts agree in this one only.
  const Time began_;
  const double began_in_microseconds_;

  Mutex mutex_;
  std::FILE* const file_;
  Time flushed_ GRADWIRE_GUARDED_BY(mutex_);
};

}  // namespace gradwire
