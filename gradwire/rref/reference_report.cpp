#include "gradwire/rref/reference_report.h"

#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradwire {
namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::ostream& operator<<(std::ostream& out, const ReferenceReport& report) {
  for (const OwnedReference& owned : report.owned)
    out << fmt::format("owned {}: {}, made by {} {:.1f} s ago, {} here, held by {}\n", owned.id, owned.type,
                       owned.creator, seconds(owned.age), owned.handles,
                       owned.holders.empty() ? "no other" : fmt::format("{}", fmt::join(owned.holders, ", ")));
  for (const HeldReference& held : report.held)
    out << fmt::format("held {}: of {}, made by {}, here for {:.1f} s, {} handles, {} forks, {} pins{}\n", held.id,
                       held.owner, held.creator, seconds(held.age), held.handles, held.forks, held.pins,
                       held.confirmed ? "" : ", not confirmed yet");
  if (report.adoptions > 0)
    out << fmt::format("{} forks given to this worker wait for their owners\n", report.adoptions);
  return out;
}

}  // namespace gradwire
