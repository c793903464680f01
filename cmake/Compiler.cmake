# Flags for everything built here: warnings, sanitizers, ccache.
option(GRADWIRE_WARNINGS_AS_ERRORS "A warning fails the build: for those who work on Gradwire, never for its users" OFF)
add_library(gradwire_compiler INTERFACE)
target_compile_definitions(gradwire_compiler INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
target_compile_options(gradwire_compiler INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic
  $<$<BOOL:${GRADWIRE_WARNINGS_AS_ERRORS}>:-Werror>
  -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
  # g++ 12 sees uninitialised members in c10::SmallVector, and overflows in std::string, where there are none.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict -Wno-array-bounds>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wno-gnu-zero-variadic-macro-arguments -Wno-missing-designated-field-initializers>)

if(GRADWIRE_SANITIZE)
  add_compile_options(-fsanitize=${GRADWIRE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GRADWIRE_SANITIZE})
  if(GRADWIRE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio has a fence for platforms without atomics; g++ warns that ThreadSanitizer would not see it.
    add_compile_options(-Wno-tsan)
  endif()
  if(GRADWIRE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

# One setting for libraries and programs, so that all can use the one precompiled header.
add_compile_options(-fPIC)

# A precompiled header is cached only with these; time macros are not used in this project.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fpch-preprocess)
endif()
