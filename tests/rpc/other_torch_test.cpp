// Workers whose torch is of another version: what one of them does not know is refused, and nothing else suffers.
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "gradwire/gradwire.h"
#include "gradwire/testing/cluster.h"
#include "gradwire/wire/dtype.h"
#include "gradwire/wire/tensor.h"

namespace gradwire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Function<at::Tensor(at::Tensor)> echo{"echo"};

Registry make_registry() {
  Registry registry;
  registry.add(echo, [](at::Tensor x) { return x; });
  return registry;
}

std::string described(const at::Tensor& tensor) {
  wire::ByteWriter writer;
  wire::encode(writer, wire::flatten(tensor).description);
  return writer.take();
}

// From `from` to `to`, the tensor's next description will be that of one whose dtype no torch has.
void make_foreign(testing::Cluster& cluster, const std::string& from, const std::string& to, const at::Tensor& tensor) {
  std::string foreign = described(tensor);
  foreign[1] = static_cast<char>(wire::dtype_of_no_torch.number);
  cluster.network().replace(from, to, described(tensor), foreign);
}

InvalidArgumentError refusal(const Peer& peer, const at::Tensor& tensor) {
  try {
    (void)peer.call(echo, tensor).get();
  } catch (const InvalidArgumentError& error) {
    return error;
  }
  ADD_FAILURE() << "it was not refused";
  return InvalidArgumentError("");
}

TEST(OtherTorch, RefusesATensorOfADtypeThatItDoesNotHaveByItsName) {
  testing::Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  const at::Tensor tensor = at::ones({3, 5, 7}, at::kByte);
  EXPECT_TRUE(peer.call(echo, tensor).get().equal(tensor));

  make_foreign(cluster, "worker0", "worker1", tensor);
  const InvalidArgumentError as_argument = refusal(peer, tensor);
  EXPECT_EQ(as_argument.worker(), "worker1");
  EXPECT_THAT(as_argument.what(), AllOf(HasSubstr("NoTorchHasThis"), HasSubstr("\"echo\""), HasSubstr("worker1")));

  make_foreign(cluster, "worker1", "worker0", tensor);
  const InvalidArgumentError as_result = refusal(peer, tensor);
  EXPECT_EQ(as_result.worker(), "worker1");
  EXPECT_THAT(as_result.what(), AllOf(HasSubstr("NoTorchHasThis"), HasSubstr("worker1")));

  // The link and the session are as they were.
  EXPECT_TRUE(peer.call(echo, tensor).get().equal(tensor));
}

// One that is too large for its frame comes in chunks, and all of them are taken.
TEST(OtherTorch, RefusesALargeTensorAndKeepsItsPlaceInTheStream) {
  testing::Cluster cluster(2, make_registry());
  Peer peer = cluster[0].peer(1);
  const at::Tensor large = at::ones({3, 1 << 20}, at::kByte);
  EXPECT_TRUE(peer.call(echo, at::ones({2})).get().equal(at::ones({2})));
  make_foreign(cluster, "worker0", "worker1", large);
  EXPECT_THAT(refusal(peer, large).what(), HasSubstr("NoTorchHasThis"));
  EXPECT_TRUE(peer.call(echo, large).get().equal(large));
}

}  // namespace
}  // namespace gradwire
