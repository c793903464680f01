// The text of the error that is thrown. One of another type goes through, and fails the test.
#pragma once

#include <string>

namespace gradwire::testing {

template <class ErrorType, class Act>
std::string thrown(Act act) {
  try {
    act();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "(nothing)";
}

}  // namespace gradwire::testing
