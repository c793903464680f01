// The end of the process, seen from the library: its threads end first. One that still ran a function, or the backward
// pass of a worker that was destroyed meanwhile, would run into libraries that are being taken down.
#pragma once

#include <memory>

namespace gradwire::net {

class Threads;

// When the process exits, these are stopped if they are still there, and what their threads are doing is waited for;
// not without limit: a function that does not return ends with the process, whose exit status stays what it was. Any
// thread.
void stop_at_exit(const std::shared_ptr<Threads>& threads);

// The calling thread is one of those to wait for, until it has ended. First thing in it: what it makes later for itself
// is gone by then.
void wait_for_this_thread_at_exit();

// Whether all that has begun: then nothing arrives any more, and what would wait must not. Any thread.
bool process_exits();

}  // namespace gradwire::net
