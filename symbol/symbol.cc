#include "tessera/symbol/symbol.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/json.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/apply.h"
#include "tessera/symbol/scope.h"

namespace tessera {

using graph::IndexedGraph;
using graph::MakeVariable;
using graph::Node;
using graph::NodeEntry;
using symbol_internal::SingleOutput;

namespace {

std::vector<std::string> NamesOf(const IndexedGraph& graph, const std::vector<int>& ids) {
  std::vector<std::string> names;
  for (const int id : ids) names.push_back(graph.node(id).name);
  return names;
}

std::string DidYouMean(std::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : "; did you mean \"" + Excerpt(nearest) + "\"?";
}

/// Returns the graph with variables replaced. Throws unless each aux state stays a variable.
std::vector<NodeEntry> Substitute(const std::vector<NodeEntry>& outputs, const IndexedGraph& graph,
                                  const std::unordered_map<const Node*, NodeEntry>& replaced) {
  for (const int id : graph.aux_states()) {
    const auto found = replaced.find(&graph.node(id));
    if (found == replaced.end() || found->second.node->is_variable()) continue;
    throw InvalidArgument("Symbol::Compose: \"", Excerpt(graph.node(id).name),
                          "\" is an auxiliary state, which only a variable can replace, but \"",
                          Excerpt(found->second.node->name), "\" is an operator");
  }
  return graph::CopyGraph(outputs, replaced);
}

/// Renames the first output's node, which is a copy unless it replaces a variable.
Symbol Renamed(std::vector<NodeEntry> outputs, const std::vector<NodeEntry>& before,
               std::string name) {
  const bool is_copy = !outputs.empty() && !before[0].node->is_variable();
  if (is_copy && !name.empty()) outputs[0].node->name = std::move(name);
  return Symbol(std::move(outputs));
}

/// Lets gradients of operators that no gradient reads read these operators, whose inputs' shapes
/// they need.
void KeepOperators(const std::vector<NodeEntry>& gradients) {
  const IndexedGraph graph(gradients);
  for (int id = 0; id < graph.num_nodes(); ++id) {
    Node& node = *graph.Owner(id);
    if (node.forward == nullptr || graph.Contains(node.forward.get())) continue;
    node.property = std::make_shared<graph::BackwardProperty>(node.forward->property,
                                                              /*reads_output=*/true);
    node.inputs.push_back({node.forward, 0});
  }
}

InferredShapes Select(const IndexedGraph& graph, const graph::GraphShapes& shapes) {
  InferredShapes inferred;
  const auto at = [&](int entry) { return shapes.entries[static_cast<size_t>(entry)]; };
  for (const int id : graph.arguments()) inferred.arguments.push_back(at(graph.EntryId(id, 0)));
  for (const int entry : graph.heads()) inferred.outputs.push_back(at(entry));
  for (const int id : graph.aux_states()) inferred.aux_states.push_back(at(graph.EntryId(id, 0)));
  inferred.complete = shapes.complete;
  return inferred;
}

InferredTypes Select(const IndexedGraph& graph, const graph::GraphTypes& types) {
  InferredTypes inferred;
  const auto at = [&](int entry) { return types.entries[static_cast<size_t>(entry)]; };
  for (const int id : graph.arguments()) inferred.arguments.push_back(at(graph.EntryId(id, 0)));
  for (const int entry : graph.heads()) inferred.outputs.push_back(at(entry));
  for (const int id : graph.aux_states()) inferred.aux_states.push_back(at(graph.EntryId(id, 0)));
  inferred.complete = types.complete;
  return inferred;
}

}  // namespace

Symbol::Symbol(std::vector<NodeEntry> outputs) : outputs_(std::move(outputs)) {}

Symbol Symbol::Variable(std::string name, const std::map<std::string, std::string>& attributes) {
  if (name.empty()) throw InvalidArgument("Symbol::Variable: the name is empty");
  NodeEntry variable = MakeVariable(std::move(name));
  graph::Annotator annotator(variable.node.get());
  for (const auto* given : {&AttrScope::Current(), &attributes}) {
    for (const auto& [key, value] : *given) annotator.Set(key, value);
  }
  return Symbol({std::move(variable)});
}

Symbol Symbol::Compose(const std::map<std::string, Symbol>& inputs, std::string name) const {
  const IndexedGraph graph(outputs_);
  std::unordered_map<const Node*, NodeEntry> replaced;
  std::set<std::string_view> found;
  for (const int id : graph.variables()) {
    const auto input = inputs.find(graph.node(id).name);
    if (input == inputs.end()) continue;
    found.insert(input->first);
    replaced.emplace(&graph.node(id), SingleOutput(input->second, "Symbol::Compose", input->first));
  }
  for (const auto& [key, input] : inputs) {
    if (found.contains(key)) continue;
    throw InvalidArgument("Symbol::Compose: there is no variable \"", Excerpt(key), "\"",
                          DidYouMean(key, ListInputs()));
  }
  return Renamed(Substitute(outputs_, graph, replaced), outputs_, std::move(name));
}

Symbol Symbol::ComposeInOrder(const std::vector<Symbol>& inputs, std::string name) const {
  const IndexedGraph graph(outputs_);
  if (inputs.size() > graph.arguments().size()) {
    throw InvalidArgument("Symbol::ComposeInOrder: ", inputs.size(),
                          " inputs were given, expected at most ", graph.arguments().size());
  }
  std::unordered_map<const Node*, NodeEntry> replaced;
  for (size_t i = 0; i < inputs.size(); ++i) {
    replaced.emplace(&graph.node(graph.arguments()[i]),
                     SingleOutput(inputs[i], "Symbol::ComposeInOrder", absl::StrCat("input ", i)));
  }
  return Renamed(Substitute(outputs_, graph, replaced), outputs_, std::move(name));
}

Symbol Symbol::Copy() const { return Symbol(graph::CopyGraph(outputs_)); }

Symbol Symbol::CreateGroup(const std::vector<Symbol>& symbols) {
  std::vector<NodeEntry> outputs;
  for (const Symbol& symbol : symbols) {
    outputs.insert(outputs.end(), symbol.outputs_.begin(), symbol.outputs_.end());
  }
  return Symbol(std::move(outputs));
}

Symbol Symbol::operator[](int i) const {
  if (i < 0 || i >= num_outputs()) {
    throw OutOfRange("Symbol: output ", i, " was asked for, but there are ", num_outputs());
  }
  return Symbol({outputs_[static_cast<size_t>(i)]});
}

Symbol Symbol::operator[](std::string_view output) const {
  const std::vector<std::string> names = ListOutputs();
  const auto found = std::find(names.begin(), names.end(), output);
  if (found == names.end()) {
    throw NotFound("Symbol: there is no output \"", Excerpt(output), "\"",
                   DidYouMean(output, names));
  }
  return (*this)[static_cast<int>(found - names.begin())];
}

Symbol Symbol::GetInternals() const {
  const IndexedGraph graph(outputs_);
  std::vector<NodeEntry> entries;
  for (int id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    const int visible = node.is_variable() ? 1 : node.property->NumVisibleOutputs();
    for (int i = 0; i < visible; ++i) entries.push_back({graph.Owner(id), i});
  }
  return Symbol(std::move(entries));
}

Symbol Symbol::GetChildren() const {
  std::vector<NodeEntry> children;
  std::unordered_set<const Node*> seen;
  for (const NodeEntry& output : outputs_) {
    if (!seen.insert(output.node.get()).second) continue;
    children.insert(children.end(), output.node->inputs.begin(), output.node->inputs.end());
  }
  return Symbol(std::move(children));
}

Symbol Symbol::GetInputs() const {
  const IndexedGraph graph(outputs_);
  std::vector<NodeEntry> inputs;
  for (const int id : graph.variables()) inputs.push_back({graph.Owner(id), 0});
  return Symbol(std::move(inputs));
}

const std::string& Symbol::name() const {
  return SingleOutput(*this, "Symbol::name", "the symbol").node->name;
}

std::vector<std::string> Symbol::ListArguments() const {
  const IndexedGraph graph(outputs_);
  return NamesOf(graph, graph.arguments());
}

std::vector<std::string> Symbol::ListOutputs() const {
  std::vector<std::string> names;
  graph::OutputNames output_names;
  for (const NodeEntry& entry : outputs_)
    names.push_back(output_names.Of(*entry.node, entry.index));
  return names;
}

std::vector<std::string> Symbol::ListAuxiliaryStates() const {
  const IndexedGraph graph(outputs_);
  return NamesOf(graph, graph.aux_states());
}

std::vector<std::string> Symbol::ListInputs() const {
  const IndexedGraph graph(outputs_);
  return NamesOf(graph, graph.variables());
}

std::optional<std::string> Symbol::GetAttribute(std::string_view key) const {
  return graph::FindAttribute(*SingleOutput(*this, "Symbol::GetAttribute", "the symbol").node, key);
}

void Symbol::SetAttribute(std::string_view key, std::string value) {
  const NodeEntry entry = SingleOutput(*this, "Symbol::SetAttribute", "the symbol");
  Node& node = *entry.node;
  if (!node.is_variable() && node.property->GetParams().contains(std::string(key))) {
    throw InvalidArgument("Symbol::SetAttribute: \"", Excerpt(key), "\" is a parameter of ",
                          node.property->TypeString(), " (node \"", Excerpt(node.name),
                          "\"), which Symbol::Apply sets");
  }
  if (!node.is_variable() && !graph::TakesParameters(node.property->TypeString()) &&
      node.ReplaceGivenParameter(std::string(key), value)) {
    return;
  }
  node.attributes.Set(std::string(AttributeName(node, key)), std::move(value));
}

std::map<std::string, std::string> Symbol::ListAttributes() const {
  if (is_none()) return {};
  return graph::ListAttributes(*outputs_[0].node);
}

std::map<std::string, std::string> Symbol::ListAttributesRecursive() const {
  std::map<std::string, std::string> listed;
  const IndexedGraph graph(outputs_);
  for (const Node* node : graph.nodes()) {
    for (auto& [key, value] : graph::ListAttributes(*node)) {
      listed.insert_or_assign(absl::StrCat(node->name, "$", key), std::move(value));
    }
  }
  return listed;
}

InferredShapes Symbol::InferShape(const std::map<std::string, TShape>& known) const {
  const IndexedGraph graph(outputs_);
  return Select(graph, graph::InferShapes(graph, known));
}

InferredTypes Symbol::InferType(const std::map<std::string, DType>& known) const {
  const IndexedGraph graph(outputs_);
  return Select(graph, graph::InferTypes(graph, known));
}

InferredShapes Symbol::InferShapePartial(const std::map<std::string, TShape>& known) const {
  const IndexedGraph graph(outputs_);
  return Select(graph, graph::InferShapes(graph, known, graph::Inference::kPartial));
}

InferredTypes Symbol::InferTypePartial(const std::map<std::string, DType>& known) const {
  const IndexedGraph graph(outputs_);
  return Select(graph, graph::InferTypes(graph, known, graph::Inference::kPartial));
}

Symbol Symbol::Grad(const std::vector<std::string>& wanted, graph::GradientForm form) const {
  const IndexedGraph graph(outputs_);
  std::unordered_map<std::string_view, int> variables;
  std::unordered_set<std::string_view> twice;
  for (const int id : graph.variables()) {
    if (!variables.emplace(graph.node(id).name, id).second) twice.insert(graph.node(id).name);
  }
  std::vector<NodeEntry> values;
  for (const std::string& name : wanted) {
    const auto found = variables.find(name);
    if (found == variables.end()) {
      throw InvalidArgument("Symbol::Grad: there is no variable \"", Excerpt(name), "\"",
                            DidYouMean(name, ListInputs()));
    }
    if (twice.contains(name)) {
      throw InvalidArgument("Symbol::Grad: two different variables are called \"", Excerpt(name),
                            "\"; names of wanted variables must be unique");
    }
    values.push_back({graph.Owner(found->second), 0});
  }
  graph::Gradients gradients = graph::BuildGradients(outputs_, values, form);
  const std::vector<std::string> outputs = ListOutputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    gradients.head_gradients[i].node->name = outputs[i] + "_head_grad";
  }
  for (size_t i = 0; i < values.size(); ++i) {
    NodeEntry& gradient = gradients.gradients[i];
    if (gradient.node != nullptr) continue;
    gradient = graph::MakeNode(OperatorRegistry::Get().Create("zeros_like", {}),
                               wanted[i] + "_zero_grad", {values[i]});
  }
  KeepOperators(gradients.gradients);
  return Symbol(std::move(gradients.gradients));
}

}  // namespace tessera
