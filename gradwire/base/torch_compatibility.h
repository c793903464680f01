// The one place that knows how torch's versions differ.
//
// Nodes of the autograd graph are held by std::shared_ptr up to 2.11 and by c10::intrusive_ptr from 2.13 on, and
// Engine's virtual functions change between minor versions: a library built with one version must not run with another.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <torch/csrc/autograd/function.h>

namespace gradwire {

using NodePointer = decltype(torch::autograd::Edge::function);

namespace detail {
template <class Pointer, class T>
struct NodePointerOf;
template <class T>
struct NodePointerOf<std::shared_ptr<torch::autograd::Node>, T> {
  using type = std::shared_ptr<T>;
};
template <class T>
struct NodePointerOf<c10::intrusive_ptr<torch::autograd::Node>, T> {
  using type = c10::intrusive_ptr<T>;
};
}  // namespace detail

// What holds a node of one's own class, and how one is made.
template <class T>
using NodePointerTo = typename detail::NodePointerOf<NodePointer, T>::type;
template <class T, class... Arguments>
NodePointerTo<T> make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointerTo<T>, std::shared_ptr<T>>)
    return std::make_shared<T>(std::forward<Arguments>(arguments)...);
  else
    return c10::make_intrusive<T>(std::forward<Arguments>(arguments)...);
}

// "2.13": what this library was built with, and what is loaded.
std::string torch_version_at_build();
std::string torch_version_loaded();
// Throws InvalidArgumentError, with the cure, if they differ.
void require_same_torch(const std::string& built, const std::string& loaded);

}  // namespace gradwire
