#include "gradwire/base/torch_compatibility.h"

#include <gtest/gtest.h>

#include "gradwire/base/error.h"

namespace gradwire {
namespace {

TEST(TorchVersion, IsTheSameAtBuildAndAtLoadHere) {
  EXPECT_EQ(torch_version_at_build(), torch_version_loaded());
  EXPECT_NO_THROW(require_same_torch(torch_version_at_build(), torch_version_loaded()));
}

TEST(TorchVersion, AnotherOneIsRefusedInWords) {
  try {
    require_same_torch("2.13", "2.11");
    FAIL() << "accepted";
  } catch (const InvalidArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "Gradwire was built with torch 2.13 and torch 2.11 is loaded: build it again with that one, or load "
                 "torch 2.13");
  }
}

}  // namespace
}  // namespace gradwire
