// Where a store over TCP listens, and where it is dialled: one rule, which every worker applies to the same variables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradwire::net {

struct StoreAddress {
  std::string dialled;  // a name or an address
  std::string listens;  // a numeric address of this host; empty: all interfaces
  std::string name;     // as the job was told: MASTER_ADDR
};

// Of a store that a worker of the job serves. Without TCP all workers are on one host: it listens at 127.0.0.1, and is
// dialled there, whatever MASTER_ADDR is. With TCP it listens at the address that MASTER_ADDR resolves to, if this host
// has it and it is not loopback, else on all interfaces; it is dialled at MASTER_ADDR. No other address is ever
// dialled, because another user of the host could hold the port there. May wait for DNS.
StoreAddress address_of_own_store(const std::string& master_address, bool has_tcp);

// Of a store that somebody else serves.
StoreAddress address_of_foreign_store(const std::string& master_address);

// Whether torch's own process groups, which dial MASTER_ADDR, reach a store that listens where `address` says.
bool reached_at_its_name(const StoreAddress& address);

}  // namespace gradwire::net
