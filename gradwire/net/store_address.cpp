#include "gradwire/net/store_address.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gradwire/net/host_addresses.h"

namespace gradwire::net {
namespace {

constexpr const char* loopback = "127.0.0.1";

}  // namespace

StoreAddress address_of_own_store(const std::string& master_address, bool has_tcp) {
  if (!has_tcp) return {.dialled = loopback, .listens = loopback, .name = master_address};
  // A name may stand for several addresses, in an order that changes: every worker of this host chooses the same one.
  // IPv4 is preferred, because workers elsewhere may have no route for IPv6.
  const auto order = [](const std::string& address) {
    return std::pair(address.find(':') != std::string::npos, address);
  };
  std::optional<std::string> own;
  for (const std::string& address : resolve(master_address)) {
    if (is_loopback(address) || is_unspecified(address) || !belongs_to_this_host(address)) continue;
    if (!own || order(address) < order(*own)) own = address;
  }
  if (!own) return {.dialled = master_address, .listens = "", .name = master_address};
  return {.dialled = *own, .listens = *own, .name = master_address};
}

StoreAddress address_of_foreign_store(const std::string& master_address) {
  return {.dialled = master_address, .listens = "", .name = master_address};
}

bool reached_at_its_name(const StoreAddress& address) {
  if (address.listens.empty()) return true;
  const std::vector<std::string> addresses = resolve(address.name);
  return std::ranges::find(addresses, address.listens) != addresses.end();
}

}  // namespace gradwire::net
