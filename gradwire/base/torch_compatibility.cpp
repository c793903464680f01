#include "gradwire/base/torch_compatibility.h"

#include <fmt/format.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/version.h>

#include "gradwire/base/error.h"

namespace gradwire {

std::string torch_version_at_build() { return fmt::format("{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR); }

std::string torch_version_loaded() {
  // Major, minor and patch in the three highest bytes.
  const uint64_t version = aoti_torch_abi_version();
  return fmt::format("{}.{}", version >> 56U, (version >> 48U) & 0xFFU);
}

void require_same_torch(const std::string& built, const std::string& loaded) {
  if (built == loaded) return;
  throw InvalidArgumentError(fmt::format(
      "Gradwire was built with torch {} and torch {} is loaded: build it again with that one, or load torch {}", built,
      loaded, built));
}

}  // namespace gradwire
