// What a type is called in signatures, without scopes and template arguments: "Batch" for data::Batch<float>.
#pragma once

#include <initializer_list>
#include <string>
#include <typeinfo>

namespace gradwire::wire {

std::string short_name(const std::type_info& type);

// "vector<int64>"
std::string template_name(const std::string& name, std::initializer_list<std::string> arguments);

// "{Tensor,int64}"
std::string braced(std::initializer_list<std::string> fields);

}  // namespace gradwire::wire
