// The text of what is thrown.
#pragma once

#include <exception>
#include <string>

namespace gradwire::testing {

template <class ErrorType, class Act>
std::string thrown(Act act) {
  try {
    act();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "(nothing)";
}

}  // namespace gradwire::testing
