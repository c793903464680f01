// How a worker joins: who it is, where the group meets, and its limits. Usually all of it comes from the environment
// that a launcher made (`gradwire run`, torchrun, mpirun, srun), and a program changes what it wants:
//
//   auto options = gradwire::WorkerOptions::from_environment();
//   options.call_timeout = 5s;
//   auto worker = gradwire::Worker::join(registry, options);
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gradwire/base/worker_name.h"
#include "gradwire/net/meeting_point.h"
#include "gradwire/net/tcp_address.h"
#include "gradwire/net/transport.h"

namespace gradwire {

struct WorkerOptions {
  std::string name;               // empty: worker<rank>; check_worker_name has the rule
  std::optional<int> rank;        // none: the store hands it out (a growing group)
  std::optional<int> world_size;  // none: a growing group

  // Where the group meets.
  net::StorePointer store;  // given by the program; wins over the two below
  std::string store_file;   // a file on this host; empty: master_address and master_port
  std::string master_address = "127.0.0.1";
  uint16_t master_port = 29500;
  // Whether this worker serves the store at master_address. None: rank 0 does, and the store's address follows the rule
  // in net/store_address.h. False for all: somebody else does, as torchrun's agent, at master_address. In a growing
  // group without ranks, true for exactly one, and none for the others.
  std::optional<bool> holds_store;
  // All keys begin with it. A store that outlives a group (torchrun's does, over a restart) needs another one each
  // time.
  std::string store_prefix;

  // Other hosts reach it by TCP at this address of its host: a numeric address, an interface's name, or `auto` (the
  // address that routes to master_address, or that of the default route if master_address is loopback). Empty: only
  // this host reaches it, by Unix sockets.
  std::string tcp_host;
  // The ports to listen on: the first that is free is taken. {0, 0}: any free port.
  net::PortRange tcp_port;
  // HOST:PORT, where others reach it instead of where it listens (mapped ports, NAT); IPv6 in brackets. A name is
  // resolved here, when the worker joins.
  std::string tcp_advertise;
  // TCP is plain so far and needs this, on loopback too: anyone who can reach the worker may call it. A worker without
  // it neither listens on TCP nor dials it.
  bool insecure = false;
  // How it is reached, instead of sockets: a memory network, in tests.
  std::shared_ptr<net::Transport> transport;

  std::chrono::milliseconds call_timeout = std::chrono::seconds(60);
  std::chrono::milliseconds peer_timeout = std::chrono::seconds(30);  // after so much silence a peer is dead
  std::chrono::milliseconds join_timeout = std::chrono::seconds(60);
  int max_threads = 512;
  size_t max_outgoing_bytes = size_t{256} << 20U;

  // A member of a fixed group, as its launcher says:
  //   RANK and WORLD_SIZE (`gradwire run`, torchrun, by hand), else OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE
  //   (mpirun), else SLURM_PROCID and SLURM_NTASKS (srun);
  //   GRADWIRE_NAME; GRADWIRE_STORE (a file), else MASTER_ADDR and MASTER_PORT;
  //   GRADWIRE_TCP_HOST, GRADWIRE_TCP_PORT (a port or a range, 29600-29699), GRADWIRE_TCP_ADVERTISE;
  //   GRADWIRE_INSECURE (1 or 0);
  //   TORCHELASTIC_USE_AGENT_STORE and TORCHELASTIC_RESTART_COUNT (torchrun).
  // Throws InvalidArgumentError, which names the variable, its value and the cure. No launcher is an error too: a
  // worker alone is RANK=0 WORLD_SIZE=1; a growing group is asked for by the program, not by the environment.
  static WorkerOptions from_environment();
};

// The store that the options name, all keys with their prefix. May wait join_timeout for whoever serves it.
net::StorePointer open_store(const WorkerOptions& options);
// Where that is, for people: "the store file /tmp/meeting".
std::string place_of_store(const WorkerOptions& options);

}  // namespace gradwire
