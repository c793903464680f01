// The one rule for the names of workers.
#include "gradwire/base/worker_name.h"

#include <gmock/gmock.h>

#include "gradwire/base/error.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string error_of(const std::string& name) {
  try {
    check_worker_name(name);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "no error";
}

TEST(WorkerName, C24NamesFollowOneRuleThatAllowsDashesAndTheErrorSaysIt) {
  for (const char* name : {"worker-0", "a", "-", "trainer_1.host:29500/gpu-0", "0"})
    EXPECT_NO_THROW(check_worker_name(name));
  EXPECT_NO_THROW(check_worker_name(std::string(128, 'n')));

  const char* rule = "1 to 128 characters, each a letter (a-z, A-Z), a digit, or one of - _ . : /";
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("is empty"), HasSubstr(rule)));
  EXPECT_THAT(error_of("worker 0"), AllOf(HasSubstr("\"worker 0\" is wrong at character 7, \" \""), HasSubstr(rule)));
  EXPECT_THAT(error_of("worker\n"), AllOf(HasSubstr("wrong at character 7, \"\\x0a\""), Not(HasSubstr("\n"))));
  EXPECT_THAT(error_of(std::string("a\0b", 3)), HasSubstr("wrong at character 2, \"\\x00\""));
  EXPECT_THAT(error_of("w\xc3\xb6rker"), HasSubstr("wrong at character 2, \"\\xc3\""));
  EXPECT_THAT(error_of(std::string(129, 'n')), AllOf(HasSubstr("has 129 characters"), HasSubstr(rule)));
}

}  // namespace
}  // namespace gradwire
