#include "tessera/graph/attributes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

bool IsMarked(std::string_view key) {
  return key.size() >= 4 && key.starts_with("__") && key.ends_with("__");
}

bool IsAnnotationName(std::string_view name) {
  const auto known = AnnotationNames();
  return std::find(known.begin(), known.end(), name) != known.end();
}

/// Returns "weight" for `weight_lr_mult` and so on, or an empty text.
std::string_view ArgumentOf(std::string_view key, std::string_view* name) {
  for (const std::string_view known : AnnotationNames()) {
    if (!key.ends_with(known) || key.size() < known.size() + 2) continue;
    const std::string_view before = key.substr(0, key.size() - known.size());
    if (!before.ends_with('_')) continue;
    *name = known;
    return before.substr(0, before.size() - 1);
  }
  return {};
}

}  // namespace

bool IsAnnotation(std::string_view key) {
  std::string_view name;
  return IsMarked(key) || IsAnnotationName(key) || !ArgumentOf(key, &name).empty();
}

bool TakesParameters(std::string_view op) {
  const OperatorEntry* const entry = OperatorRegistry::Get().Find(op);
  return entry == nullptr || entry->describe_parameters == nullptr ||
         !entry->describe_parameters().empty();
}

Node* Annotator::VariableOf(std::string_view argument) {
  if (positions_.empty()) {
    const std::vector<std::string> arguments = node_->property->ListArguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      positions_.emplace(arguments[i], static_cast<int>(i));
    }
  }
  const auto found = positions_.find(std::string(argument));
  if (found == positions_.end()) return nullptr;
  Node* const input = node_->inputs[static_cast<size_t>(found->second)].node.get();
  return input->is_variable() ? input : nullptr;
}

void Annotator::Set(std::string_view key, std::string value) {
  std::string_view name;
  const std::string_view argument = ArgumentOf(key, &name);
  if (!argument.empty() && !node_->is_variable()) {
    if (Node* const variable = VariableOf(argument); variable != nullptr) {
      variable->attributes.Set(std::string(name), std::move(value));
      return;
    }
  }
  node_->attributes.Set(std::string(AttributeName(*node_, key)), std::move(value));
}

void CopyAttributes(const Node& node, Node* variable) {
  for (const auto& [name, value] : node.attributes.All()) {
    const std::string spelling = FileSpelling(node, name);
    variable->attributes.Add(std::string(AttributeName(*variable, spelling)), value);
  }
}

void StateInitializers(const Node& node) {
  const OperatorProperty& property = *node.property;
  std::vector<std::string> names;  // none without running means and variances
  if (!property.MutatedInputs().empty()) names = property.ListArguments();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Node& input = *node.inputs[i].node;
    if (!input.is_variable()) continue;
    const std::string_view name = names.empty() ? std::string_view() : names[i];
    if (name == "moving_mean" || name == "moving_avg") {
      input.attributes.Add("__init__", R"(["zero", {}])");
    } else if (name == "moving_var") {
      input.attributes.Add("__init__", R"(["one", {}])");
    } else if (const auto value = property.InitialValue(static_cast<int>(i))) {
      input.attributes.Add("__init__", absl::StrCat(R"(["Constant", {"value": )", *value, "}]"));
    }
  }
}

std::optional<std::string> FindAttribute(const Node& node, std::string_view key) {
  const std::string text(key);
  const auto given = node.given_parameters();
  if (given != nullptr && given->contains(text)) return given->at(text);
  auto found = node.attributes.Find(std::string(AttributeName(node, key)));
  if (found) return found;
  if (given != nullptr) return std::nullopt;
  const ParameterMap parameters = node.Parameters();
  const auto parameter = parameters.find(text);
  if (parameter == parameters.end()) return std::nullopt;
  return parameter->second;
}

std::string NamedImplementation(const Node& node) {
  const Node& called = node.forward == nullptr ? node : *node.forward;
  const std::string_view name = AttributeName(called, kImplementationAttribute);
  return called.attributes.Find(std::string(name)).value_or("");
}

std::string FileSpelling(const Node& node, std::string_view name) {
  std::string marked = absl::StrCat("__", absl::string_view(name.data(), name.size()), "__");
  return AttributeName(node, marked) == name ? marked : std::string(name);
}

std::map<std::string, std::string> ListAttributes(const Node& node) {
  std::map<std::string, std::string> listed = node.Parameters();
  for (const auto& [name, value] : node.attributes.All()) {
    listed[FileSpelling(node, name)] = value;
    if (IsAnnotationName(name)) listed[name] = value;
  }
  return listed;
}

}  // namespace tessera::graph
