#include "gradwire/nn/checkpoint.h"

#include <fmt/format.h>

#include "gradwire/base/torch_file.h"

namespace gradwire::nn {
namespace {

std::string joined(const std::string& part, const std::string& name) { return part.empty() ? name : part + "." + name; }

// All parts at once.
std::vector<std::vector<NamedValue>> states(const Parts& parts) {
  std::vector<Future<std::vector<NamedValue>>> futures;
  for (const auto& [name, module] : parts) futures.push_back(state(module));
  return when_all(std::move(futures)).get();
}

// A module that is only its names and tensors.
struct Plain : torch::nn::Module {
  // The submodule of this name, made if need be; the empty name is this.
  Plain& at(const std::string& path) {
    if (path.empty()) return *this;
    const size_t dot = path.find('.');
    const std::string child = path.substr(0, dot);
    std::shared_ptr<Plain>& below = children[child];
    if (!below) below = register_module(child, std::make_shared<Plain>());
    return below->at(dot == std::string::npos ? "" : path.substr(dot + 1));
  }
  void put(const std::string& path, const NamedValue& one) {
    const size_t dot = path.rfind('.');
    Plain& owner = at(dot == std::string::npos ? "" : path.substr(0, dot));
    const std::string name = path.substr(dot + 1);
    if (one.buffer)
      owner.register_buffer(name, one.value);
    else
      owner.register_parameter(name, one.value, one.value.is_floating_point() || one.value.is_complex());
  }
  std::map<std::string, std::shared_ptr<Plain>> children;
};

}  // namespace

void save(const Parts& parts, const std::string& path) {
  c10::Dict<std::string, at::Tensor> all;
  const auto values = states(parts);
  for (size_t i = 0; i < parts.size(); ++i)
    for (const NamedValue& one : values[i])
      // With a storage of its own: the whole storage is written.
      if (!all.insert(joined(parts[i].first, one.name), one.value.clone()).second)
        throw InvalidArgumentError(fmt::format("two parts of the model have a \"{}\": give them names of their own",
                                               joined(parts[i].first, one.name)));
  write_torch_file(path, all);
}

void load(const Parts& parts, const std::string& path) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  const c10::IValue values_read = read_torch_file(path);
  try {
    const c10::impl::GenericDict read = values_read.toGenericDict();
    for (const auto& item : read) all.emplace_back(item.key().toStringRef(), item.value().toTensor());
  } catch (const std::exception& error) {
    throw InvalidArgumentError(fmt::format("{} is no dictionary of tensors: {}", path, error.what()));
  }
  std::vector<Future<void>> futures;
  for (const auto& [part, module] : parts) {
    const std::string prefix = joined(part, "");
    std::vector<NamedValue> values;
    for (const auto& [name, value] : all)
      if (name.starts_with(prefix)) values.push_back({name.substr(prefix.size()), value, false});
    futures.push_back(load_state(module, values));
  }
  for (const Future<void>& future : futures) future.wait();
  when_all(std::move(futures)).get();
}

std::shared_ptr<torch::nn::Module> gather(const Parts& parts) {
  auto whole = std::make_shared<Plain>();
  const auto values = states(parts);
  // Those without a tensor of their own too: torch::load asks for them.
  for (const auto& [part, module] : parts)
    for (const std::string& name : submodules(module).get()) whole->at(joined(part, name));
  for (size_t i = 0; i < parts.size(); ++i)
    for (const NamedValue& one : values[i]) whole->put(joined(parts[i].first, one.name), one);
  return whole;
}

}  // namespace gradwire::nn
