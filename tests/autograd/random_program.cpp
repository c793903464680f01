#include "tests/autograd/random_program.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

namespace gradwire::autograd {
namespace {

constexpr int64_t side = 3;

}  // namespace

std::vector<at::Tensor> Parameters::all() const {
  std::vector<at::Tensor> all = dense;
  all.push_back(table);
  return all;
}

Parameters make_parameters(uint64_t seed, int worker) {
  std::mt19937_64 random(seed * 1000 + static_cast<uint64_t>(worker));
  std::uniform_real_distribution<double> number(-1, 1);
  const auto tensor = [&](int64_t rows) {
    at::Tensor made = at::empty({rows, side}, at::kDouble);
    for (int64_t i = 0; i < made.numel(); ++i) made.mutable_data_ptr<double>()[i] = number(random);
    return made.set_requires_grad(true);
  };
  return {.dense = {tensor(side), tensor(side)}, .table = tensor(5)};
}

at::Tensor used(Machine& machine, const at::Tensor& fetched) { return fetched.mul(machine.parameters().dense[0]); }

std::vector<at::Tensor> run(Machine& machine, const Body& body, const std::vector<at::Tensor>& inputs) {
  std::mt19937_64 random(body.seed);
  const auto below = [&](size_t count) { return static_cast<size_t>(random() % count); };
  std::vector<at::Tensor> values;
  for (const at::Tensor& input : inputs) {
    if (input.is_complex())
      values.push_back(at::real(input).add(at::imag(input)));
    else if (input.is_floating_point())
      values.push_back(input.to(at::kDouble));
  }
  values.push_back(machine.parameters().dense[0]);
  values.push_back(machine.parameters().dense[1]);
  std::vector<Machine::HandlePointer> handles;
  int64_t budget = body.budget;
  const auto any = [&]() -> const at::Tensor& { return values[below(values.size())]; };
  const auto add = [&](const std::string& what, at::Tensor value) {
    machine.note(fmt::format("worker{}: v{} = {}", machine.here(), values.size(), what));
    values.push_back(std::move(value));
  };
  const auto some_inputs = [&] {
    std::vector<at::Tensor> some;
    for (size_t count = 1 + below(3); count > 0; --count) {
      at::Tensor value = any();
      switch (below(8)) {
        case 0:
          value = value.detach();
          break;
        case 1:
          value = at::complex(value, value.mul(0.5));
          break;
        case 2:
          value = value.t();
          break;
        case 3:
          value = body.smooth ? value : value.to(at::kFloat);
          break;
        default:
          break;
      }
      some.push_back(value);
    }
    if (below(4) == 0) some.push_back(at::arange(4));
    return some;
  };
  const auto function = [&] {
    const int64_t share = budget > 0 ? static_cast<int64_t>(below(static_cast<size_t>(budget) + 1)) : 0;
    budget -= share;
    return Body{.seed = random(), .budget = share, .smooth = body.smooth};
  };
  const auto worker = [&] { return static_cast<int>(below(static_cast<size_t>(machine.workers()))); };

  for (size_t steps = 3 + below(8); steps > 0; --steps) {
    const size_t kind = below(budget > 0 ? 21 : 12);
    switch (kind) {
      case 0:
        add("a + b", any().add(any()));
        break;
      case 1:
      case 2:
        add("a * b", any().mul(any()));
        break;
      case 3:
        add("sin(a)", any().sin());
        break;
      case 4:
        add("tanh(a)", any().tanh());
        break;
      case 5:
        add("a @ b / 2", any().mm(any()).mul(0.5).tanh());
        break;
      case 6:
        add("a.t()", any().t());
        break;
      case 7:
        add("cat", at::cat({any().slice(0, 0, 1), any().slice(0, 1, side)}));
        break;
      case 8:
        add("a.detach()", any().detach());
        break;
      case 9: {
        const at::NoGradGuard guard;
        add("no_grad: 2 * a", any().mul(2));
        break;
      }
      case 10: {
        at::Tensor changed = any().clone();
        changed.mul_(any());
        add("in place", changed);
        break;
      }
      case 11: {
        const at::Tensor rows =
            at::tensor({static_cast<int64_t>(below(5)), static_cast<int64_t>(below(5)), int64_t{1}});
        add("embedding",
            at::embedding(machine.parameters().table, rows, -1, /*scale_grad_by_freq=*/false, /*sparse=*/!body.smooth));
        break;
      }
      case 12:
      case 13:
      case 14:
      case 19:
      case 20: {
        --budget;
        const int to = worker();
        const Body called = function();
        const std::vector<at::Tensor> given = some_inputs();
        machine.note(fmt::format("worker{}: calls function {} at worker{}", machine.here(), called.seed, to));
        for (at::Tensor& result : machine.call(to, called, given)) add("result", std::move(result));
        break;
      }
      case 15: {
        --budget;
        std::vector<int> to{worker(), worker()};
        std::vector<Body> called{function(), function()};
        const std::vector<at::Tensor> given = some_inputs();
        machine.note(fmt::format("worker{}: calls functions {} at worker{} and {} at worker{} at once", machine.here(),
                                 called[0].seed, to[0], called[1].seed, to[1]));
        for (std::vector<at::Tensor>& results : machine.call_all(to, called, given))
          for (at::Tensor& result : results) add("result", std::move(result));
        break;
      }
      case 16: {
        --budget;
        const int to = worker();
        const Body called = function();
        const std::vector<at::Tensor> given = some_inputs();
        machine.note(fmt::format("worker{}: r{} = remote function {} at worker{}", machine.here(), handles.size(),
                                 called.seed, to));
        handles.push_back(machine.remote(to, called, given));
        break;
      }
      case 17:
        if (handles.empty()) break;
        add("fetch", machine.fetch(handles[below(handles.size())]));
        break;
      default: {
        if (handles.empty()) break;
        const Machine::HandlePointer& handle = handles[below(handles.size())];
        const int to = worker();
        add(fmt::format("a reference, used at worker{}", to), machine.use(to, handle));
        break;
      }
    }
  }
  std::vector<at::Tensor> results;
  for (size_t count = 1 + below(3); count > 0; --count)
    results.push_back(values[values.size() - 1 - below(std::min<size_t>(values.size(), 4))]);
  return results;
}

}  // namespace gradwire::autograd
