// Random programs that run on several workers or in one process, alike: the strongest test of gradients.
//
// A program is what a random generator, started with its seed, decides to do next. A function of it is such a program
// too, with a seed of its own, so that the worker that runs it needs to be told no more than that.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace gradwire::autograd {

// What can be called: a function of the program. Travels.
struct Body {
  uint64_t seed = 0;
  int64_t budget = 0;  // of calls that it may make itself
  bool smooth = false;
};

// The leaves of one worker.
struct Parameters {
  std::vector<at::Tensor> dense;
  at::Tensor table;  // of an embedding: its gradient is sparse
  std::vector<at::Tensor> all() const;
};
Parameters make_parameters(uint64_t seed, int worker);

// Where it runs.
class Machine {
 public:
  virtual ~Machine() = default;
  struct Handle {
    virtual ~Handle() = default;
  };
  using HandlePointer = std::shared_ptr<Handle>;

  virtual int workers() const = 0;
  virtual int here() const = 0;
  virtual Parameters& parameters() = 0;
  virtual std::vector<at::Tensor> call(int worker, const Body& body, const std::vector<at::Tensor>& inputs) = 0;
  // Several, begun before the first has ended.
  virtual std::vector<std::vector<at::Tensor>> call_all(const std::vector<int>& workers,
                                                        const std::vector<Body>& bodies,
                                                        const std::vector<at::Tensor>& inputs) = 0;
  // The first of the results, kept there.
  virtual HandlePointer remote(int worker, const Body& body, const std::vector<at::Tensor>& inputs) = 0;
  virtual at::Tensor fetch(const HandlePointer& handle) = 0;
  // That worker fetches it, and uses it.
  virtual at::Tensor use(int worker, const HandlePointer& handle) = 0;
  // What was done, for whoever has to find out why it went wrong.
  virtual void note(const std::string&) {}
};

// Runs one; what `use` does with what it fetched.
std::vector<at::Tensor> run(Machine& machine, const Body& body, const std::vector<at::Tensor>& inputs);
at::Tensor used(Machine& machine, const at::Tensor& fetched);

}  // namespace gradwire::autograd
