// Fast passes, which have no plan: what each participant hears from whoever gives it a gradient.
#include <semaphore>
#include <thread>

#include "tests/autograd/backward_support.h"

namespace gradwire::autograd {
namespace {

using testing::eventually;
using ::testing::HasSubstr;

using FastPass = Backward;

TEST_F(FastPass, KeepsTheGraphOfEveryParticipantForASecondPass) {
  {
    Context context(worker);
    const at::Tensor y = peer(1).call(through, x, "worker2").get();
    const BackwardOptions again{.retain_graph = true, .mode = Mode::fast};
    context.backward(y.sum(), again);
    context.backward(y.sum(), again);
    EXPECT_TRUE(same(context.gradient(x), threes(2 * 18)));
    EXPECT_TRUE(same(weight_gradient_at(worker, "worker1"), threes(2 * 30)));
    EXPECT_TRUE(same(weight_gradient_at(worker, "worker2"), threes(2 * 30)));
  }
  EXPECT_TRUE(nothing_left(cluster, {0, 1, 2}));
}

std::binary_semaphore& late() {
  static std::binary_semaphore semaphore{0};
  return semaphore;
}
struct BreaksLate : torch::autograd::Function<BreaksLate> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors&) {
    late().acquire();
    throw std::runtime_error("broken late");
  }
};

// The gradient goes from worker0 to worker1 and on to worker2, of which the root knows nothing.
TEST_F(FastPass, B5_AFailureReachesParticipantsThatWereDoneThroughThoseThatGaveToThem) {
  constexpr Function<at::Tensor()> of_the_second{"of_the_second"};
  constexpr Function<at::Tensor(at::Tensor)> breaks_late{"breaks_late"};
  Registry registry = functions_of_passes();
  registry.add(of_the_second, [] { return Worker::current().peer("worker2").call(get_weight).get().mul(weight()); });
  registry.add(breaks_late, [](const at::Tensor& given) { return BreaksLate::apply(given); });
  testing::Cluster four(4, registry);
  {
    Context context(four[0]);
    const at::Tensor y = four[0].peer(1).call(of_the_second).get();
    const at::Tensor z = four[0].peer(3).call(breaks_late, x).get();
    std::thread pass([&] {
      EXPECT_THAT(thrown<RemoteError>([&] { context.backward(y.sum().add(z.sum()), {.mode = Mode::fast}); }),
                  HasSubstr("broken late"));
    });
    const auto is_done = [&](int rank) { return counts(four[rank]).gradients == 1 && counts(four[rank]).passes == 0; };
    EXPECT_TRUE(eventually([&] { return is_done(1) && is_done(2); }));
    late().release();
    pass.join();
    for (const int rank : {1, 2})
      EXPECT_TRUE(eventually([&] {
        return four[0].peer(rank).call(read_gradient).get().find("broken late") != std::string::npos;
      })) << "worker"
          << rank << " has partial gradients and reads them as complete";
  }
  EXPECT_TRUE(nothing_left(four, {0, 1, 2, 3}));
}

}  // namespace
}  // namespace gradwire::autograd
