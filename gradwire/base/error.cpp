#include "gradwire/base/error.h"

namespace gradwire {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::remote:
      return "remote";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::gone:
      return "gone";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::overloaded:
      return "overloaded";
    case ErrorCode::authentication:
      return "authentication";
    case ErrorCode::injected:
      return "injected";
  }
  return "unknown";
}

std::string_view name_of(GoneReason reason) {
  switch (reason) {
    case GoneReason::died:
      return "died";
    case GoneReason::left:
      return "left";
    case GoneReason::fenced:
      return "fenced";
  }
  return "unknown";
}

}  // namespace gradwire
