// What a context keeps of gradients whose pass is not under way.
#include "tests/autograd/support.h"

namespace gradwire::autograd {
namespace {

struct State {
  RecordPointer creator = std::make_shared<net::Record>(net::Record{.name = "a", .incarnation = make_incarnation()});
  RecordPointer receiver = std::make_shared<net::Record>(net::Record{.name = "b", .incarnation = make_incarnation()});
  Incarnation self = make_incarnation();
  ContextState context{{}, {creator->incarnation, 1}, creator, self};
  // Null: it was kept, or dropped.
  std::shared_ptr<Pass> arrives(Id pass, uint64_t hop) {
    ArrivedGradient gradient{.hop = hop, .tensors = {threes(1)}, .message = nullptr};
    return context.pass_for(pass, receiver->incarnation, gradient);
  }
};

TEST(ContextState, A3_AGradientThatComesAfterTheEndOfItsPassIsDropped) {
  State state;
  const Id ended{state.creator->incarnation, 5}, not_begun{state.creator->incarnation, 6};
  ASSERT_TRUE(state.context.add_send(7, {.node = nullptr, .receiver = state.receiver, .reached = {}}));
  state.context.end_pass(ended);
  EXPECT_EQ(state.arrives(ended, 7), nullptr);
  EXPECT_EQ(state.context.counts().early_gradients, 0U) << "nobody takes it any more";
  EXPECT_EQ(state.arrives(not_begun, 7), nullptr);
  EXPECT_EQ(state.context.counts().early_gradients, 1U) << "its pass may still begin";
}

TEST(ContextState, AGradientOfAHopThatWasNotSentToItsSenderIsDropped) {
  State state;
  const Id pass{state.creator->incarnation, 5};
  ASSERT_TRUE(state.context.add_send(7, {.node = nullptr, .receiver = state.creator, .reached = {}}));
  EXPECT_EQ(state.arrives(pass, 7), nullptr) << "of a hop to another worker";
  EXPECT_EQ(state.arrives(pass, 8), nullptr) << "of no hop";
  EXPECT_EQ(state.context.counts().early_gradients, 0U);
}

}  // namespace
}  // namespace gradwire::autograd
