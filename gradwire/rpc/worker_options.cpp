#include "gradwire/rpc/worker_options.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "gradwire/base/error.h"

namespace gradwire {
namespace {

// Who says which of how many this process is. An inner launcher's word comes before that of the one around it: torchrun
// and mpirun run inside of Slurm's jobs, where SLURM_PROCID is theirs and not that of what they start.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world_size;
};
constexpr std::array launchers = {
    Launcher{"gradwire run or torchrun", "RANK", "WORLD_SIZE"},
    Launcher{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"Slurm's srun", "SLURM_PROCID", "SLURM_NTASKS"},
};

// Set to nothing is not set: that is how shells and job files take a variable back.
std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& why) {
  throw InvalidArgumentError(fmt::format("{}=\"{}\" in the environment {}", name, value, why));
}

int number(const char* name, const std::string& text, int least, int most, const std::string& cure) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument || stopped != end)
    refuse(name, text, fmt::format("is not a whole number: {}", cure));
  if (error == std::errc::result_out_of_range || value < least || value > most)
    refuse(name, text, fmt::format("is not between {} and {}: {}", least, most, cure));
  return static_cast<int>(value);
}

void take_rank(WorkerOptions& options) {
  constexpr int most = std::numeric_limits<int>::max();
  for (const Launcher& launcher : launchers) {
    const auto rank = variable(launcher.rank);
    const auto world_size = variable(launcher.world_size);
    if (!rank && !world_size) continue;
    if (!rank || !world_size) {
      const char* missing = rank ? launcher.world_size : launcher.rank;
      refuse(
          rank ? launcher.rank : launcher.world_size, rank ? *rank : *world_size,
          fmt::format("needs {} beside it, which is not set: set both ({} is this worker's number from 0, {} how many "
                      "there are) or neither; {} sets both",
                      missing, launcher.rank, launcher.world_size, launcher.name));
    }
    options.world_size = number(launcher.world_size, *world_size, 1, most, "it is how many workers there are");
    options.rank = number(launcher.rank, *rank, 0, most, "it is this worker's number, counted from 0");
    if (*options.rank >= *options.world_size)
      refuse(launcher.rank, *rank,
             fmt::format("is not below {}={}: ranks are counted from 0, so the last one is {}", launcher.world_size,
                         *options.world_size, *options.world_size - 1));
    return;
  }
  throw InvalidArgumentError(
      "which worker of how many this process is, is not said in the environment: start it with `gradwire run -n 4 "
      "./program`, `torchrun --no-python --nproc-per-node 4 ./program`, mpirun or srun, or set RANK and WORLD_SIZE by "
      "hand (RANK=0 WORLD_SIZE=1 for a worker alone); a growing group is joined with WorkerOptions that leave rank and "
      "world_size empty");
}

// torchrun's agent holds the store, and it lives through restarts of the workers. Agents on several hosts count
// restarts apart: only the one whose worker failed counts it.
void take_torchrun(WorkerOptions& options) {
  if (variable("TORCHELASTIC_USE_AGENT_STORE") == "True") options.holds_store = false;
  const char* restarts = "TORCHELASTIC_RESTART_COUNT";
  if (const auto text = variable(restarts))
    options.store_prefix = fmt::format(
        "restart{}", number(restarts, *text, 0, std::numeric_limits<int>::max(), "torchrun counts restarts in it"));
}

// How workers of other hosts reach this one; what it says is resolved when the worker joins (tcp_options.h).
void take_tcp(WorkerOptions& options) {
  options.tcp_host = variable("GRADWIRE_TCP_HOST").value_or("");
  options.tcp_advertise = variable("GRADWIRE_TCP_ADVERTISE").value_or("");
  if (const auto ports = variable("GRADWIRE_TCP_PORT")) {
    const auto range = net::parse_port_range(*ports);
    if (!range)
      refuse("GRADWIRE_TCP_PORT", *ports,
             "is no port and no range of ports: write 29600, or 29600-29699 for the first of these that is free");
    options.tcp_port = *range;
  }
  if (const auto insecure = variable("GRADWIRE_INSECURE")) {
    if (*insecure != "1" && *insecure != "0")
      refuse("GRADWIRE_INSECURE", *insecure, "is neither 1 (plain TCP may be used) nor 0");
    options.insecure = *insecure == "1";
  }
}

net::StoreAddress address_of_store(const WorkerOptions& options) {
  if (options.holds_store == false) return net::address_of_foreign_store(options.master_address);
  return net::address_of_own_store(options.master_address, !options.tcp_host.empty());
}

}  // namespace

WorkerOptions WorkerOptions::from_environment() {
  WorkerOptions options;
  take_rank(options);
  take_torchrun(options);
  if (const auto name = variable("GRADWIRE_NAME")) {
    try {
      check_worker_name(*name);
    } catch (const InvalidArgumentError& error) {
      throw InvalidArgumentError(fmt::format("GRADWIRE_NAME in the environment: {}", error.what()));
    }
    options.name = *name;
  }
  take_tcp(options);
  options.store_file = variable("GRADWIRE_STORE").value_or("");
  options.master_address = variable("MASTER_ADDR").value_or(options.master_address);
  if (const auto port = variable("MASTER_PORT"))
    options.master_port =
        static_cast<uint16_t>(number("MASTER_PORT", *port, 1, std::numeric_limits<uint16_t>::max(),
                                     "it is the port of the store at MASTER_ADDR; without it, 29500 is used"));
  return options;
}

std::string place_of_store(const WorkerOptions& options) {
  if (options.store) return "the store that the program gave";
  if (!options.store_file.empty()) return fmt::format("the store file {}", options.store_file);
  return fmt::format("the store at {}:{}", address_of_store(options).dialled, options.master_port);
}

net::StorePointer open_store(const WorkerOptions& options) {
  net::StorePointer store = options.store;
  if (!store && !options.store_file.empty()) store = net::open_file_store(options.store_file);
  if (!store)
    store = net::open_tcp_store(address_of_store(options), options.master_port,
                                options.holds_store.value_or(options.rank == 0), options.join_timeout);
  if (!options.store_prefix.empty()) store = c10::make_intrusive<c10d::PrefixStore>(options.store_prefix, store);
  return store;
}

}  // namespace gradwire
