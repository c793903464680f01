// What ThreadSanitizer is to know; linked into every test program.
#if defined(__SANITIZE_THREAD__)

// libtorch is not instrumented: what it does to memory is invisible, so reports from inside it mean nothing.
extern "C" const char* __tsan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "ignore_noninstrumented_modules=1:halt_on_error=1:second_deadlock_stack=1";
}

// An exception that one thread has read and another lets go last: the count of references is kept by the C++ runtime,
// which is not instrumented either, so that the one is not seen to happen before the other.
extern "C" const char* __tsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "race:std::__exception_ptr::__dest_thunk\n"
         "race:std::__exception_ptr::exception_ptr::_M_release\n"
         // A flag of a node of torch's graph, which every thread that builds upon the node sets to true.
         "race:torch::autograd::Node::topological_nr\n";
}

#endif
