// Whether clang's UndefinedBehaviorSanitizer watches. It opens a pipe to look at an object's type, and reports an
// object as broken where the process has no descriptor left for that.
#pragma once

namespace gradwire::testing {

#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
#define GRADWIRE_TEST_UNDEFINED_SANITIZER true
#endif
#endif
#if !defined(GRADWIRE_TEST_UNDEFINED_SANITIZER)
#define GRADWIRE_TEST_UNDEFINED_SANITIZER false
#endif
inline constexpr bool undefined_sanitizer = GRADWIRE_TEST_UNDEFINED_SANITIZER;
inline constexpr const char* without_descriptors = "UndefinedBehaviorSanitizer needs descriptors of its own";

}  // namespace gradwire::testing
