// What becomes of a process that is forked while Gradwire runs in its parent: the child runs on without it. It has none
// of the threads; and what it inherited of the parent's sockets is closed, for the others would take the child's open
// copy for a living parent. Its limit on descriptors is the one from before the parent's runtime raised it.
#pragma once

namespace gradwire::net {

// Whether this process was forked from one in which a runtime lived.
bool forked_child();

// For the runtime: counts it as living, until the object is gone.
class LivesHere {
 public:
  LivesHere();
  ~LivesHere();
  LivesHere(const LivesHere&) = delete;
  LivesHere& operator=(const LivesHere&) = delete;
};

// Any thread. A socket so marked is closed in a forked child; it is unmarked before it is closed here.
void close_when_forked(int descriptor);
void forget_when_forked(int descriptor);

}  // namespace gradwire::net
