// What sanitizers make impossible.
#pragma once

namespace gradwire::testing {

// Whether clang's UndefinedBehaviorSanitizer watches. It opens a pipe to look at an object's type, and reports an
// object as broken where the process has no descriptor left for that.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define GRADWIRE_TEST_UNDEFINED_SANITIZER true
#endif
#endif
#if !defined(GRADWIRE_TEST_UNDEFINED_SANITIZER)
#define GRADWIRE_TEST_UNDEFINED_SANITIZER false
#endif
inline constexpr bool undefined_sanitizer = GRADWIRE_TEST_UNDEFINED_SANITIZER;
// Whether an allocator of a sanitizer's own takes terabytes of addresses, so that RLIMIT_AS cannot be tried.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADWIRE_TEST_SHADOW_MEMORY true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define GRADWIRE_TEST_SHADOW_MEMORY true
#endif
#endif
#if !defined(GRADWIRE_TEST_SHADOW_MEMORY)
#define GRADWIRE_TEST_SHADOW_MEMORY false
#endif
inline constexpr bool shadow_memory = GRADWIRE_TEST_SHADOW_MEMORY;
inline constexpr const char* without_address_space = "a sanitizer needs more addresses than RLIMIT_AS would leave";
inline constexpr const char* without_descriptors = "UndefinedBehaviorSanitizer needs descriptors of its own";

}  // namespace gradwire::testing
