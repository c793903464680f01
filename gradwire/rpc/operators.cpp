#include "gradwire/rpc/operators.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <tuple>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gradwire/base/error.h"
#include "gradwire/rpc/operator_names.h"
#include "gradwire/rpc/operator_reach.h"
#include "gradwire/rpc/schema_arguments.h"

namespace gradwire {
namespace {

// Whether the pattern, in which * stands for any characters, is the text. Takes time linear in either for each *.
bool matches(std::string_view pattern, std::string_view text) {
  size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    return pattern == text;
  }
  if (!text.starts_with(pattern.substr(0, star))) {
    return false;
  }
  text.remove_prefix(star);
  pattern.remove_prefix(star + 1);
  // Between two stars, the first place where the words stand is as good as any other.
  while ((star = pattern.find('*')) != std::string_view::npos) {
    size_t place = text.find(pattern.substr(0, star));
    if (place == std::string_view::npos) {
      return false;
    }
    text.remove_prefix(place + star);
    pattern.remove_prefix(star + 1);
  }
  return text.ends_with(pattern);
}

// The name with its overload or without.
bool names(std::string_view pattern, const c10::OperatorName& name) {
  return matches(pattern, name.name) || matches(pattern, full_name(name));
}

std::string_view namespace_of(std::string_view name) { return name.substr(0, name.find("::")); }

void check_spelling(const std::string& pattern) {
  auto fits = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
           std::string_view("_:.*").find(letter) != std::string_view::npos;
  };
  if (pattern != "*" && (pattern.find("::") == std::string::npos || !std::ranges::all_of(pattern, fits))) {
    throw InvalidArgumentError(fmt::format(
        "\"{}\" does not name operators: they are written \"namespace::name\" or \"namespace::name.overload\", "
        "with * for any characters, or \"*\" for all",
        pattern));
  }
}

// Whether a pattern allows it, apart from its name.
bool is_within_reach(std::string_view pattern, const c10::OperatorHandle& operation) {
  const Reach reach = reach_of(operation.schema()).reach;
  return reach == Reach::by_pattern ||
         (reach == Reach::by_own_pattern && namespace_of(pattern) == namespace_of(operation.operator_name().name));
}

// A pattern that reaches no operator is a mistake. Where the library that it names may still be loaded, nothing is
// said; where more of it may be, a warning is.
void check_reach(const std::string& pattern) {
  const std::string_view space = namespace_of(pattern);
  const bool more_may_come = space != "aten" && space.find('*') == std::string_view::npos;
  bool is_there = false;
  std::optional<c10::OperatorHandle> beyond_reach;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    is_there |= namespace_of(name.name) == space;
    const auto operation = names(pattern, name) ? dispatcher.findSchema(name) : std::nullopt;
    if (!operation) {
      continue;
    }
    if (is_within_reach(pattern, *operation)) {
      return;
    }
    if (!beyond_reach || full_name(name) < full_name(beyond_reach->operator_name())) {
      beyond_reach = operation;
    }
  }
  if (more_may_come && !is_there) {
    return;
  }
  std::string text = fmt::format("\"{}\" reaches no operator", pattern);
  if (beyond_reach) {
    text += fmt::format(": {}, which it matches, {}", full_name(beyond_reach->operator_name()),
                        reach_of(beyond_reach->schema()).reason);
  }
  if (more_may_come) {
    LOG(WARNING) << "gradwire: allow_operators: " << text;
    return;
  }
  throw InvalidArgumentError(
      text +
      ". A pattern reaches operators of aten, and those of another library if it spells out their namespace, "
      "such as \"torchvision::*\"");
}

struct Choice {
  c10::OperatorHandle operation;
  FittedArguments arguments;

  // The lower the better. Ties are left to the caller rather than to the order in which torch's libraries were loaded.
  auto rank() const {
    return std::tuple(arguments.converted, arguments.keywords_by_place,
                      !operation.operator_name().overload_name.empty(), arguments.values.size());
  }
};

[[noreturn]] void refuse_arguments(const std::string& name, const std::vector<c10::OperatorHandle>& operations,
                                   const std::vector<c10::IValue>& arguments) {
  std::vector<std::string> misfits;
  for (const c10::OperatorHandle& operation : operations) {
    const c10::FunctionSchema& schema = operation.schema();
    misfits.push_back(fmt::format("{}, by {}", fit_arguments(schema, arguments).misfit, text_of(schema)));
  }
  throw InvalidArgumentError(
      fmt::format("operator \"{}\" does not take these arguments: {}", name, fmt::join(misfits, "; ")));
}

// The one to run, with its arguments.
Choice choose(const std::string& name, const std::vector<c10::OperatorHandle>& operations,
              const std::vector<c10::IValue>& arguments) {
  std::vector<Choice> choices;
  for (const c10::OperatorHandle& operation : operations) {
    FittedArguments fitted = fit_arguments(operation.schema(), arguments);
    if (fitted.misfit.empty()) {
      choices.push_back({operation, std::move(fitted)});
    }
  }
  if (choices.empty()) {
    refuse_arguments(name, operations, arguments);
  }
  std::ranges::stable_sort(choices, {}, &Choice::rank);
  if (choices.size() > 1 && choices[0].rank() == choices[1].rank()) {
    throw InvalidArgumentError(fmt::format(
        "operator \"{}\" has overloads that take these arguments equally well, {} and {}: name one of them", name,
        full_name(choices[0].operation.operator_name()), full_name(choices[1].operation.operator_name())));
  }
  return std::move(choices.front());
}

c10::IValue run(const c10::OperatorHandle& operation, std::vector<c10::IValue> stack) {
  operation.callBoxed(stack);
  if (stack.empty()) {
    return {};
  }
  return stack.size() == 1 ? std::move(stack.front()) : c10::ivalue::Tuple::create(std::move(stack));
}

}  // namespace

Operators::Operators() : names_(std::make_shared<OperatorNames>()) {}

void Operators::allow(const std::string& pattern) {
  check_spelling(pattern);
  const bool is_pattern = pattern.find('*') != std::string::npos;
  OperatorReach reach = reach_of_namespace(namespace_of(pattern));
  if (!is_pattern && reach.reach != Reach::never) {
    std::vector<c10::OperatorHandle> found = names_->find(pattern);
    // Overloads that cannot be called stay out of reach beside others that can.
    if (!found.empty()) {
      reach = reach_of(
          std::ranges::min_element(found, {}, [](const auto& one) { return reach_of(one.schema()).reach; })->schema());
    }
  }
  if (reach.reach == Reach::never || (is_pattern && reach.reach == Reach::by_name)) {
    throw InvalidArgumentError(fmt::format("\"{}\" cannot be allowed{}: it {}", pattern,
                                           reach.reach == Reach::never ? "" : " by a pattern, only name by name",
                                           reach.reason));
  }
  if (is_pattern) {
    check_reach(pattern);
  }
  (is_pattern ? patterns_ : exact_names_).push_back(pattern);
}

bool Operators::allows(const c10::OperatorHandle& operation) const {
  auto names_it = [&](const std::string& pattern) { return names(pattern, operation.operator_name()); };
  auto reaches_it = [&](const std::string& pattern) {
    return is_within_reach(pattern, operation) && names_it(pattern);
  };
  return std::ranges::any_of(patterns_, reaches_it) ||
         (reach_of(operation.schema()).reach != Reach::never && std::ranges::any_of(exact_names_, names_it));
}

void Operators::refuse(const std::string& name, const std::vector<c10::OperatorHandle>& found) const {
  if (found.empty()) {
    std::vector<std::string> similar = names_->similar_to(name);
    throw NotFoundError(similar.empty() ? fmt::format("there is no operator \"{}\" at the callee", name)
                                        : fmt::format("there is no operator \"{}\" at the callee; there are: {}", name,
                                                      fmt::join(similar, ", ")));
  }
  std::vector<std::string> allowed = patterns_;
  allowed.insert(allowed.end(), exact_names_.begin(), exact_names_.end());
  std::string text =
      fmt::format("operator \"{}\" is not allowed: operators must be allowed by the callee's registry, which allows {}",
                  name, allowed.empty() ? "none" : fmt::format("{}", fmt::join(allowed, ", ")));
  OperatorReach reach = reach_of(found.front().schema());
  if (reach.reach == Reach::by_own_pattern) {
    text += fmt::format("; this one {}: it can be allowed by \"{}::*\" or by its name", reach.reason,
                        namespace_of(found.front().operator_name().name));
  } else if (reach.reach == Reach::by_name) {
    text += fmt::format("; no pattern matches this one, since it {}: it has to be allowed by its name", reach.reason);
  } else if (reach.reach == Reach::never) {
    text += fmt::format("; this one cannot be, since it {}", reach.reason);
  }
  throw NotFoundError(text);
}

c10::IValue Operators::call(const std::string& name, const std::vector<c10::IValue>& arguments) const {
  return prepare(name, arguments)();
}

std::function<c10::IValue()> Operators::prepare(const std::string& name,
                                                const std::vector<c10::IValue>& arguments) const {
  std::vector<c10::OperatorHandle> found = names_->find(name);
  std::vector<c10::OperatorHandle> allowed;
  std::ranges::copy_if(found, std::back_inserter(allowed), [&](const auto& operation) { return allows(operation); });
  if (allowed.empty()) {
    refuse(name, found);
  }
  Choice choice = choose(name, allowed, arguments);
  return [operation = choice.operation, stack = std::move(choice.arguments.values)]() mutable {
    return run(operation, std::move(stack));
  };
}

}  // namespace gradwire
