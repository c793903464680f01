// The hint for who forgot the Context (N12).
#include "tests/autograd/support.h"

namespace gradwire::autograd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Function<at::Tensor(at::Tensor)> without_grad{"without_grad"};

class ForgottenContext : public ::testing::Test {
 protected:
  static Registry registry() {
    Registry registry = common_functions();
    registry.add(without_grad, [](const at::Tensor& x) {
      const at::NoGradGuard guard;
      return x.mul(weight());
    });
    return registry;
  }
  void SetUp() override { FLAGS_caffe2_log_level = 1; }  // warnings
  template <class Act>
  static std::string logged(const Act& act) {
    ::testing::internal::CaptureStderr();
    act();
    return ::testing::internal::GetCapturedStderr();
  }
  testing::Cluster cluster{2, registry()};
  Peer peer = cluster[0].peer(1);
};

size_t lines(const std::string& text) {
  size_t found = 0;
  for (size_t at = text.find("Context"); at != std::string::npos;
       at = text.find('\n', at), at = text.find("Context", at))
    ++found;
  return found;
}

TEST_F(ForgottenContext, N12_ADifferentiableResultOrArgumentWithoutAContextIsHintedAtOnce) {
  const std::string results = logged([&] {
    for (int i = 0; i < 5; ++i) peer.call(times_weight, threes(1)).get();
  });
  EXPECT_EQ(lines(results), 1U) << results;
  EXPECT_THAT(results, AllOf(HasSubstr("times_weight"), HasSubstr("worker0"), HasSubstr("autograd::Context")));
  const std::string arguments = logged([&] {
    for (int i = 0; i < 5; ++i) peer.call(without_grad, leaf(2).mul(2)).get();
  });
  EXPECT_EQ(lines(arguments), 1U) << arguments;
  EXPECT_THAT(arguments, AllOf(HasSubstr("without_grad"), HasSubstr("worker1")));
}

TEST_F(ForgottenContext, N12_NothingIsHintedWhereNoGradientIsLost) {
  EXPECT_EQ(logged([&] {
              peer.call(get_weight).get();      // a parameter, for its value
              peer.call(twice, leaf(2)).get();  // the same
              peer.call(without_grad, threes(1)).get();
              const at::NoGradGuard guard;
              peer.call(twice, leaf(2).mul(2)).get();
            }),
            "");
  EXPECT_EQ(logged([&] {
              const Context context(cluster[0]);
              const at::Tensor y = peer.call(times_weight, leaf(2).mul(2)).get();
              context.backward(y.sum());
            }),
            "");
}

TEST_F(ForgottenContext, N12_BackwardOfARootThatDoesNotRequireGradSaysWhyAndWhatToDo) {
  const at::Tensor detached = peer.call(times_weight, threes(1)).get().sum();
  const Context context(cluster[0]);
  const std::string text = thrown<InvalidArgumentError>([&] { context.backward(detached); });
  EXPECT_THAT(text, AllOf(HasSubstr("Context"), Not(HasSubstr("frame #"))));
}

}  // namespace
}  // namespace gradwire::autograd
