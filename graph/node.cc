#include "tessera/graph/node.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::graph {

Node::~Node() {
  // Recursive destructors would overflow the stack for a long chain of nodes.
  std::vector<std::shared_ptr<Node>> doomed;
  const auto release = [&doomed](Node* node) {
    for (NodeEntry& input : node->inputs) doomed.push_back(std::move(input.node));
    node->inputs.clear();
    if (node->forward != nullptr) doomed.push_back(std::move(node->forward));
  };
  release(this);
  while (!doomed.empty()) {
    const std::shared_ptr<Node> node = std::move(doomed.back());
    doomed.pop_back();
    if (node.use_count() == 1) release(node.get());
  }
}

int OutputCount::Get(const OperatorProperty& property) const {
  int value = value_.load(std::memory_order_relaxed);
  if (value == kUnknown) {
    value = static_cast<int>(property.ListOutputs().size());
    value_.store(value, std::memory_order_relaxed);
  }
  return value;
}

std::optional<std::string> Attributes::Find(const std::string& name) const {
  return texts_.With([&](const auto& texts) -> std::optional<std::string> {
    const auto found = texts.find(name);
    if (found == texts.end()) return std::nullopt;
    return found->second;
  });
}

void Attributes::Set(std::string name, std::string value) {
  texts_.With([&](auto& texts) { texts.insert_or_assign(std::move(name), std::move(value)); });
}

void Attributes::Add(std::string name, std::string value) {
  texts_.With([&](auto& texts) { texts.try_emplace(std::move(name), std::move(value)); });
}

void Node::SetGivenParameters(ParameterMap parameters) {
  given.Set(
      std::make_shared<const GivenParameters>(GivenParameters{property, std::move(parameters)}));
}

bool Node::ReplaceGivenParameter(const std::string& name, std::string value) {
  return given.With([&](auto& current) {
    if (current == nullptr || current->property != property) return false;
    if (!current->parameters.contains(name)) return false;
    // Other threads may read the old texts.
    auto changed = std::make_shared<GivenParameters>(*current);
    changed->parameters[name] = std::move(value);
    current = std::move(changed);
    return true;
  });
}

std::shared_ptr<const ParameterMap> Node::given_parameters() const {
  const std::shared_ptr<const GivenParameters> written = given.Get();
  if (written == nullptr || written->property != property) return nullptr;
  return {written, &written->parameters};
}

ParameterMap Node::Parameters() const {
  if (const auto written = given_parameters(); written != nullptr) return *written;
  return is_variable() ? ParameterMap() : property->GetParams();
}

std::string Node::OutputName(int index) const {
  if (is_variable()) return name;
  return name + "_" + property->ListOutputs()[static_cast<size_t>(index)];
}

std::string OutputNames::Of(const Node& node, int index) {
  if (node.num_outputs() == 1) return node.OutputName(index);
  std::vector<std::string>& outputs = lists_[&node];
  if (outputs.empty()) outputs = node.property->ListOutputs();
  return node.name + "_" + outputs[static_cast<size_t>(index)];
}

NodeEntry MakeVariable(std::string name) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  return {std::move(node), 0};
}

NodeEntry MakeNode(std::shared_ptr<const OperatorProperty> property, std::string name,
                   const std::vector<NodeEntry>& inputs) {
  auto node = std::make_shared<Node>();
  const std::vector<std::string> names = property->ListArguments();
  const std::string prefix = name.empty() ? "" : name + "_";
  if (inputs.size() > names.size()) {
    throw InvalidArgument(property->TypeString(), ": ", inputs.size(),
                          " inputs were given, expected at most ", names.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const bool given = i < inputs.size() && inputs[i].node != nullptr;
    node->inputs.push_back(given ? inputs[i] : MakeVariable(prefix + names[i]));
  }
  node->property = std::move(property);
  node->name = std::move(name);
  return {std::move(node), 0};
}

std::span<const std::string_view> AnnotationNames() {
  static constexpr std::string_view kNames[] = {
      "ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope"};
  return kNames;
}

std::string_view AttributeName(const Node& node, std::string_view key) {
  if (key.size() < 4 || !key.starts_with("__") || !key.ends_with("__")) return key;
  const std::string_view name = key.substr(2, key.size() - 4);
  const auto known = AnnotationNames();
  const bool same =
      !node.is_variable() || std::find(known.begin(), known.end(), name) != known.end();
  return same ? name : key;
}

}  // namespace tessera::graph
