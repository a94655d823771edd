#include "tessera/tools/op_functions/probe.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/tools/op_functions/cpp_text.h"

namespace tessera::op_functions {
namespace {

/// Returns "(1,1,1)" for 3.
std::string Ones(int length) {
  std::string text = "(";
  for (int i = 0; i < length; ++i) text += "1,";
  return text + ")";
}

bool IsTuple(const ParameterInfo& parameter) {
  return parameter.type == "shape" || parameter.type.starts_with("ints") ||
         parameter.type == "floats";
}

/// Returns texts that may change the inputs or outputs.
std::vector<std::string> ValuesOf(const ParameterInfo& parameter) {
  if (parameter.type == "boolean") return {"True", "False"};
  if (parameter.type == "int") return {"1", "2", "3"};
  if (IsTuple(parameter)) return {Ones(1), Ones(2), Ones(3)};
  return ChoicesOf(parameter);
}

}  // namespace

Probe::Probe(const OperatorEntry& entry) : entry_(entry), parameters_(entry.describe_parameters()) {
  const auto add = [this](const ParameterMap& fixed) {
    if (auto property = Try(fixed)) properties_.push_back(std::move(property));
  };
  add({});
  FindCount({});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterInfo& first = parameters_[i];
    for (const std::string& value : ValuesOf(first)) {
      add({{first.name, value}});
      if (first.type != "int") FindCount({{first.name, value}});
      if (first.type == "int" || IsTuple(first)) continue;
      for (size_t j = i + 1; j < parameters_.size(); ++j) {
        const ParameterInfo& second = parameters_[j];
        if (second.type == "int" || IsTuple(second)) continue;
        for (const std::string& other : ValuesOf(second)) {
          add({{first.name, value}, {second.name, other}});
        }
      }
    }
  }
  if (properties_.empty()) {
    throw Internal("operator ", entry.name, " refuses all parameters that were tried");
  }
}

// Returns a property with the parameters `fixed` and small values for other required ones, or null
// if the operator accepts none of them together.
std::shared_ptr<const OperatorProperty> Probe::Try(const ParameterMap& fixed) const {
  for (const char* const number : {"1", "2", "3"}) {
    for (const int length : {1, 2, 3}) {
      ParameterMap values = fixed;
      for (const ParameterInfo& parameter : parameters_) {
        if (!parameter.required) continue;
        const std::vector<std::string> choices = ChoicesOf(parameter);
        values.emplace(parameter.name, IsTuple(parameter) ? Ones(length)
                                       : !choices.empty() ? choices.front()
                                                          : std::string(number));
      }
      try {
        return OperatorRegistry::Get().FindOrCreate(entry_.name, values);
      } catch (const Error&) {
        // Another value may be one that the operator accepts.
      }
    }
  }
  return nullptr;
}

// Looks for a parameter with which the number of inputs grows.
void Probe::FindCount(const ParameterMap& fixed) {
  for (const ParameterInfo& parameter : parameters_) {
    if (parameter.type != "int" || !count_parameter_.empty()) continue;
    ParameterMap one = fixed, two = fixed;
    one[parameter.name] = "1";
    two[parameter.name] = "2";
    const auto few = Try(one), more = Try(two);
    if (few == nullptr || more == nullptr) continue;
    if (few->ListArguments().size() == more->ListArguments().size()) continue;
    count_parameter_ = parameter.name;
    single_ = few;
  }
}

// Returns the message of the error for that text, or an empty string if there is none.
std::string Probe::MessageFor(const ParameterInfo& parameter, const std::string& text) const {
  try {
    OperatorRegistry::Get().FindOrCreate(entry_.name, {{parameter.name, text}});
  } catch (const Error& error) {
    const std::string message = error.what();
    // Other errors are those of missing parameters.
    if (message.find("parameter " + parameter.name + ": ") != message.npos) return message;
  }
  return "";
}

bool Probe::MayBeNone(const ParameterInfo& parameter) const {
  if (parameter.default_value == "None") return true;
  const bool number_or_tuple = parameter.type == "int" || parameter.type == "float" ||
                               parameter.type == "boolean" || parameter.type == "ints" ||
                               parameter.type == "floats";
  return number_or_tuple && MessageFor(parameter, "None").empty();
}

std::string Probe::RangeOf(const ParameterInfo& parameter) const {
  if (parameter.type != "int" && parameter.type != "float") return "";
  const bool is_int = parameter.type == "int";
  // A range is part of no description, but of the error for a number outside of it.
  const std::string before = "expected a value in [";
  for (const char* const text :
       {is_int ? "-2147483648" : "-3e38", is_int ? "2147483647" : "3e38"}) {
    const std::string message = MessageFor(parameter, text);
    const size_t begin = message.find(before);
    if (begin == message.npos) continue;
    const size_t low = begin + before.size();
    const size_t comma = message.find(", ", low), end = message.find(']', low);
    const std::string from = message.substr(low, comma - low);
    const std::string to = message.substr(comma + 2, end - comma - 2);
    // Larger bounds are those of the implementation, and not written exactly.
    if (to == "inf" || to.find('e') != to.npos) return "At least " + from + ".";
    if (from == "-inf") return "At most " + to + ".";
    return "Between " + from + " and " + to + ".";
  }
  return "";
}

}  // namespace tessera::op_functions
