// The end of the process, seen from the library: its workers and threads end first. A thread that still ran a function,
// or the backward pass of a worker that was destroyed meanwhile, would run into libraries that are being taken down.
#pragma once

#include <functional>
#include <memory>

namespace gradwire::net {

// When the process exits while the owner lives, the action is run, the newest first. Then what the library's threads
// are doing is waited for; not without limit: a function that does not return ends with the process, whose exit status
// stays what it was. Any thread.
void before_exit(const std::weak_ptr<void>& owner, std::function<void()> action);

// The calling thread is one of those to wait for, until it has ended. First thing in it: what it makes later for itself
// is gone by then.
void wait_for_this_thread_at_exit();

}  // namespace gradwire::net
