#include "gradwire/rpc/operator_names.h"

#include <algorithm>

#include <torch/csrc/jit/frontend/edit_distance.h>

namespace gradwire {
namespace {

// Torch reserves this word: no overload can have it as its name.
constexpr std::string_view unnamed = "default";

// "aten::add.Tensor" is "aten::add" and "Tensor".
c10::OperatorName split(const std::string& name) {
  size_t dot = name.find('.');
  if (dot == std::string::npos) {
    return {name, ""};
  }
  std::string overload = name.substr(dot + 1);
  return {name.substr(0, dot), overload == unnamed ? "" : overload};
}

}  // namespace

std::string full_name(const c10::OperatorName& name) {
  std::string full = name.name + ".";
  return full.append(name.overload_name.empty() ? unnamed : name.overload_name);
}

std::vector<c10::OperatorHandle> OperatorNames::find(const std::string& name) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorHandle> found;
  if (name.find('.') != std::string::npos) {
    if (auto one = dispatcher.findSchema(split(name))) {
      found.push_back(*one);
    }
    return found;
  }
  auto all = current();
  if (!all->contains(name)) {
    all = list_again();
  }
  if (auto overloads = all->find(name); overloads != all->end()) {
    for (const std::string& overload : overloads->second) {
      if (auto one = dispatcher.findSchema({name, overload})) {
        found.push_back(*one);
      }
    }
  }
  return found;
}

std::vector<std::string> OperatorNames::similar_to(const std::string& name) {
  constexpr size_t max_listed = 8;
  std::string base = split(name).name;
  std::vector<std::string> similar;
  auto all = current();
  if (auto overloads = all->find(base); overloads != all->end()) {
    for (const std::string& overload : overloads->second) {
      similar.push_back(full_name({base, overload}));
    }
    return similar;
  }
  const size_t max_distance = base.size() < 12 ? 1 : 2;  // its namespace included
  for (const auto& [other, overloads] : *all) {
    if (torch::jit::ComputeEditDistance(base.c_str(), other.c_str(), max_distance) <= max_distance) {
      similar.push_back(other);
    }
  }
  std::ranges::sort(similar);
  similar.resize(std::min(similar.size(), max_listed));
  return similar;
}

std::shared_ptr<const OperatorNames::Overloads> OperatorNames::current() {
  {
    MutexLock lock(mutex_);
    if (overloads_) {
      return overloads_;
    }
  }
  return list_again();
}

std::shared_ptr<const OperatorNames::Overloads> OperatorNames::list_again() {
  auto overloads = std::make_shared<Overloads>();
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    (*overloads)[name.name].push_back(name.overload_name);
  }
  for (auto& [name, list] : *overloads) {
    std::ranges::sort(list);
  }
  MutexLock lock(mutex_);
  overloads_ = overloads;
  return overloads;
}

}  // namespace gradwire
