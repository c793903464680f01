// WorkerOptions from the environment of each launcher.
#include "gradwire/rpc/worker_options.h"

#include <unistd.h>

#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "gradwire/base/error.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using Variables = std::map<std::string, std::string>;
using ::testing::HasSubstr;

// While it lives, the environment holds these variables and nothing else.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      before_[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
    }
    hold(variables);
  }
  ~Environment() { hold(before_); }

 private:
  static void hold(const Variables& variables) {
    ::clearenv();
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Variables before_;
};

WorkerOptions options_of(const Variables& variables) {
  const Environment environment(variables);
  return WorkerOptions::from_environment();
}

std::string error_of(const Variables& variables) {
  try {
    options_of(variables);
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "no error";
}

TEST(WorkerOptions, TakeRankAndWorldSizeFromEveryLauncher) {
  const std::vector<Variables> environments = {
      {{"RANK", "3"}, {"WORLD_SIZE", "5"}},
      {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "5"}},
      {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "5"}},
  };
  for (const Variables& variables : environments) {
    const WorkerOptions options = options_of(variables);
    EXPECT_EQ(options.rank, 3) << variables.begin()->first;
    EXPECT_EQ(options.world_size, 5) << variables.begin()->first;
    EXPECT_EQ(options.name, "");
    EXPECT_EQ(options.store_file, "");
    EXPECT_EQ(options.store_prefix, "");
    EXPECT_EQ(options.holds_store, std::nullopt);
    EXPECT_EQ(options.master_address, "127.0.0.1");
    EXPECT_EQ(options.master_port, 29500);
  }
}

TEST(WorkerOptions, FollowTheInnerLauncherWhenOneRunsInsideAnother) {
  // mpirun in a Slurm job: all it starts on a host have the SLURM_PROCID of its daemon.
  EXPECT_EQ(
      options_of(
          {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}})
          .rank,
      2);
  EXPECT_EQ(options_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"RANK", "7"}, {"WORLD_SIZE", "16"}}).world_size,
            16);
}

TEST(WorkerOptions, TakeNameAndMeetingPointFromTheEnvironment) {
  const WorkerOptions options = options_of({{"RANK", "0"},
                                            {"WORLD_SIZE", "1"},
                                            {"GRADWIRE_NAME", "trainer-0"},
                                            {"GRADWIRE_STORE", "/some/where/store"},
                                            {"MASTER_ADDR", "host.example"},
                                            {"MASTER_PORT", "65535"}});
  EXPECT_EQ(options.name, "trainer-0");
  EXPECT_EQ(options.store_file, "/some/where/store");
  EXPECT_EQ(options.master_address, "host.example");
  EXPECT_EQ(options.master_port, 65535);
}

TEST(WorkerOptions, LeaveTheStoreToTorchrunsAgentAndKeepTheKeysOfEachRestartApart) {
  const Variables life = {{"RANK", "0"},
                          {"WORLD_SIZE", "2"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_RESTART_COUNT", "0"}};
  EXPECT_EQ(options_of(life).holds_store, false);
  Variables next_life = life;
  next_life["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(options_of(life).store_prefix, options_of(next_life).store_prefix);
  Variables without_agent_store = life;
  without_agent_store["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(options_of(without_agent_store).holds_store, std::nullopt);
}

TEST(WorkerOptions, WithoutALauncherSayHowToStart) {
  EXPECT_THAT(error_of({}), AllOf(HasSubstr("gradwire run -n 4 ./program"), HasSubstr("torchrun"), HasSubstr("mpirun"),
                                  HasSubstr("srun"), HasSubstr("RANK=0 WORLD_SIZE=1"), HasSubstr("growing group")));
  // Set to nothing is not set.
  EXPECT_EQ(error_of({{"RANK", ""}, {"WORLD_SIZE", ""}}), error_of({}));
  EXPECT_EQ(options_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(WorkerOptions, RefuseHalfOfAPairAndNameBoth) {
  EXPECT_THAT(error_of({{"RANK", "1"}}), AllOf(HasSubstr("RANK=\"1\""), HasSubstr("needs WORLD_SIZE beside it")));
  EXPECT_THAT(error_of({{"WORLD_SIZE", "2"}}), AllOf(HasSubstr("WORLD_SIZE=\"2\""), HasSubstr("needs RANK beside it")));
  EXPECT_THAT(error_of({{"SLURM_PROCID", "1"}}), AllOf(HasSubstr("SLURM_PROCID"), HasSubstr("needs SLURM_NTASKS")));
  EXPECT_THAT(error_of({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("needs OMPI_COMM_WORLD_RANK"));
  // It does not look further: ranks of another launcher could be those of another group.
  EXPECT_THAT(error_of({{"RANK", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}), HasSubstr("needs WORLD_SIZE"));
}

TEST(WorkerOptions, RefuseWhatIsNoNumberOrOutOfRangeAndSayTheVariableItsValueAndTheCure) {
  const auto of_rank = [](const std::string& rank) { return error_of({{"RANK", rank}, {"WORLD_SIZE", "2"}}); };
  for (const char* rank : {"one", "1x", "1.0", " 1", "0x1"})
    EXPECT_THAT(of_rank(rank), AllOf(HasSubstr(std::string("RANK=\"") + rank + "\""), HasSubstr("not a whole number"),
                                     HasSubstr("counted from 0")));
  for (const char* rank : {"-1", "2147483648", "99999999999999999999"})
    EXPECT_THAT(of_rank(rank), AllOf(HasSubstr(std::string("RANK=\"") + rank + "\""), HasSubstr("not between 0 and")));
  for (const char* rank : {"2", "7"})
    EXPECT_THAT(of_rank(rank), AllOf(HasSubstr("is not below WORLD_SIZE=2"), HasSubstr("the last one is 1")));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("WORLD_SIZE=\"0\""));
  EXPECT_THAT(error_of({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}),
              HasSubstr("OMPI_COMM_WORLD_RANK=\"4\""));
  for (const char* port : {"0", "-1", "65536", "http", "29500 "})
    EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", port}}),
                AllOf(HasSubstr(std::string("MASTER_PORT=\"") + port + "\""), HasSubstr("port of the store")));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"TORCHELASTIC_RESTART_COUNT", "x"}}),
              HasSubstr("TORCHELASTIC_RESTART_COUNT=\"x\""));
  EXPECT_THAT(error_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"GRADWIRE_NAME", "a b"}}),
              AllOf(HasSubstr("GRADWIRE_NAME"), HasSubstr("\"a b\" is wrong at character 2")));
}

TEST(WorkerOptions, TakeWhatAJobOverSeveralHostsNeedsFromTheEnvironment) {
  const auto of = [](Variables more) {
    more.insert({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
    return more;
  };
  const WorkerOptions none = options_of(of({}));
  EXPECT_TRUE(none.tcp_host.empty() && none.tcp_advertise.empty() && none.tcp_port == net::PortRange{});
  EXPECT_FALSE(none.insecure);
  const WorkerOptions all = options_of(of({{"GRADWIRE_TCP_HOST", "eth0"},
                                           {"GRADWIRE_TCP_PORT", "29600-29699"},
                                           {"GRADWIRE_TCP_ADVERTISE", "node7:30000"},
                                           {"GRADWIRE_INSECURE", "1"}}));
  EXPECT_EQ(all.tcp_host, "eth0");
  EXPECT_EQ(all.tcp_port, (net::PortRange{29600, 29699}));
  EXPECT_EQ(all.tcp_advertise, "node7:30000");
  EXPECT_TRUE(all.insecure);
  EXPECT_EQ(options_of(of({{"GRADWIRE_TCP_PORT", "29600"}})).tcp_port, (net::PortRange{29600, 29600}));
  EXPECT_FALSE(options_of(of({{"GRADWIRE_INSECURE", "0"}})).insecure);
  EXPECT_FALSE(options_of(of({{"GRADWIRE_INSECURE", ""}})).insecure);
  for (const char* ports : {"0", "http", "29600-", "29699-29600", "65536"})
    EXPECT_THAT(error_of(of({{"GRADWIRE_TCP_PORT", ports}})),
                HasSubstr(std::string("GRADWIRE_TCP_PORT=\"") + ports + "\""));
  for (const char* insecure : {"yes", "true", "2"})
    EXPECT_THAT(error_of(of({{"GRADWIRE_INSECURE", insecure}})),
                HasSubstr(std::string("GRADWIRE_INSECURE=\"") + insecure + "\""));
}

TEST(WorkerOptions, PutTheirPrefixBeforeTheKeysOfTheStoreThatTheProgramGave) {
  WorkerOptions options;
  options.store = c10::make_intrusive<c10d::HashStore>();
  options.store_file = "/not/used";
  open_store(options)->set("key", std::string("first"));
  options.store_prefix = "restart1";
  net::StorePointer second = open_store(options);
  EXPECT_FALSE(second->check({"key"}));
  second->set("key", std::string("second"));
  EXPECT_EQ(options.store->get_to_str("key"), "first");
  EXPECT_EQ(second->get_to_str("key"), "second");
}

}  // namespace
}  // namespace gradwire
