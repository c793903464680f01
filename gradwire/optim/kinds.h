// The optimizers of torch that can step at other workers: what each is set by, and what it keeps for a parameter, as
// values that travel. LBFGS is not among them: it needs a closure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "gradwire/wire/codec.h"

namespace gradwire::optim {

template <class Optimizer>
struct Kind {
  static_assert(
      sizeof(Optimizer) == 0,
      "a DistributedOptimizer is of torch::optim's SGD, Adam, AdamW, Adagrad or RMSprop (LBFGS needs a closure)");
};

// `settings` and `kept` give references to the members, constant ones of a constant object.
template <>
struct Kind<torch::optim::SGD> {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr const char* name = "SGD";
  static constexpr std::array setting_names{"lr", "momentum", "dampening", "weight_decay", "nesterov"};
  static constexpr std::array kept_names{"momentum_buffer"};
  static auto settings(auto& options) {
    return std::tie(options.lr(), options.momentum(), options.dampening(), options.weight_decay(), options.nesterov());
  }
  static auto kept(auto& state) { return std::tie(state.momentum_buffer()); }
};

// Adam and AdamW differ in their rule only.
template <class Options_, class State_>
struct AdamKind {
  using Options = Options_;
  using State = State_;
  static constexpr std::array setting_names{"lr", "betas", "eps", "weight_decay", "amsgrad"};
  static constexpr std::array kept_names{"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  static auto settings(auto& options) {
    return std::tie(options.lr(), options.betas(), options.eps(), options.weight_decay(), options.amsgrad());
  }
  static auto kept(auto& state) {
    return std::tie(state.step(), state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq());
  }
};
template <>
struct Kind<torch::optim::Adam> : AdamKind<torch::optim::AdamOptions, torch::optim::AdamParamState> {
  static constexpr const char* name = "Adam";
};
template <>
struct Kind<torch::optim::AdamW> : AdamKind<torch::optim::AdamWOptions, torch::optim::AdamWParamState> {
  static constexpr const char* name = "AdamW";
};

template <>
struct Kind<torch::optim::Adagrad> {
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr const char* name = "Adagrad";
  static constexpr std::array setting_names{"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"};
  static constexpr std::array kept_names{"step", "sum"};
  static auto settings(auto& options) {
    return std::tie(options.lr(), options.lr_decay(), options.weight_decay(), options.initial_accumulator_value(),
                    options.eps());
  }
  static auto kept(auto& state) { return std::tie(state.step(), state.sum()); }
};

template <>
struct Kind<torch::optim::RMSprop> {
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;
  static constexpr const char* name = "RMSprop";
  static constexpr std::array setting_names{"lr", "alpha", "eps", "weight_decay", "momentum", "centered"};
  static constexpr std::array kept_names{"step", "square_avg", "momentum_buffer", "grad_avg"};
  static auto settings(auto& options) {
    return std::tie(options.lr(), options.alpha(), options.eps(), options.weight_decay(), options.momentum(),
                    options.centered());
  }
  static auto kept(auto& state) {
    return std::tie(state.step(), state.square_avg(), state.momentum_buffer(), state.grad_avg());
  }
};

template <template <class> class Member>
using OfEachKind = std::variant<Member<torch::optim::SGD>, Member<torch::optim::Adam>, Member<torch::optim::AdamW>,
                                Member<torch::optim::Adagrad>, Member<torch::optim::RMSprop>>;
template <class Optimizer>
using OptionsOf = typename Kind<Optimizer>::Options;
template <class Optimizer>
using StateOf = typename Kind<Optimizer>::State;

// The alternative says which optimizer it is.
using AnyOptions = OfEachKind<OptionsOf>;
using AnyState = OfEachKind<StateOf>;

// The optimizer whose options these are.
template <class Options>
struct KindOf;
template <>
struct KindOf<torch::optim::SGDOptions> : std::type_identity<torch::optim::SGD> {};
template <>
struct KindOf<torch::optim::AdamOptions> : std::type_identity<torch::optim::Adam> {};
template <>
struct KindOf<torch::optim::AdamWOptions> : std::type_identity<torch::optim::AdamW> {};
template <>
struct KindOf<torch::optim::AdagradOptions> : std::type_identity<torch::optim::Adagrad> {};
template <>
struct KindOf<torch::optim::RMSpropOptions> : std::type_identity<torch::optim::RMSprop> {};

// Members one after the other, given as a tuple of references.
template <class Members>
void put_members(wire::Encoder& encoder, const Members& members) {
  std::apply([&](const auto&... member) { (encoder.put(member), ...); }, members);
}
template <class Members>
void take_members(wire::Decoder& decoder, const Members& members) {
  std::apply([&](auto&... member) { ((member = decoder.take<std::decay_t<decltype(member)>>()), ...); }, members);
}

template <class Optimizer>
struct OptionsCodec {
  using Options = OptionsOf<Optimizer>;
  static void encode(wire::Encoder& encoder, const Options& options) {
    put_members(encoder, Kind<Optimizer>::settings(options));
  }
  static Options decode(wire::Decoder& decoder) {
    Options options(0.0);
    take_members(decoder, Kind<Optimizer>::settings(options));
    return options;
  }
  static std::string signature() { return std::string(Kind<Optimizer>::name) + "Options"; }
};
template <class Optimizer>
struct StateCodec {
  using State = StateOf<Optimizer>;
  static void encode(wire::Encoder& encoder, const State& state) { put_members(encoder, Kind<Optimizer>::kept(state)); }
  static State decode(wire::Decoder& decoder) {
    State state;
    take_members(decoder, Kind<Optimizer>::kept(state));
    return state;
  }
  static std::string signature() { return std::string(Kind<Optimizer>::name) + "State"; }
};

}  // namespace gradwire::optim

namespace gradwire {

template <>
struct Codec<torch::optim::SGDOptions> : optim::OptionsCodec<torch::optim::SGD> {};
template <>
struct Codec<torch::optim::AdamOptions> : optim::OptionsCodec<torch::optim::Adam> {};
template <>
struct Codec<torch::optim::AdamWOptions> : optim::OptionsCodec<torch::optim::AdamW> {};
template <>
struct Codec<torch::optim::AdagradOptions> : optim::OptionsCodec<torch::optim::Adagrad> {};
template <>
struct Codec<torch::optim::RMSpropOptions> : optim::OptionsCodec<torch::optim::RMSprop> {};
template <>
struct Codec<torch::optim::SGDParamState> : optim::StateCodec<torch::optim::SGD> {};
template <>
struct Codec<torch::optim::AdamParamState> : optim::StateCodec<torch::optim::Adam> {};
template <>
struct Codec<torch::optim::AdamWParamState> : optim::StateCodec<torch::optim::AdamW> {};
template <>
struct Codec<torch::optim::AdagradParamState> : optim::StateCodec<torch::optim::Adagrad> {};
template <>
struct Codec<torch::optim::RMSpropParamState> : optim::StateCodec<torch::optim::RMSprop> {};

}  // namespace gradwire
