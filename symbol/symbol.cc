#include "tessera/symbol/symbol.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/ops/registry.h"

namespace tessera {

using graph::AttributeName;
using graph::IndexedGraph;
using graph::MakeNode;
using graph::MakeVariable;
using graph::Node;
using graph::NodeEntry;

namespace {

/// Returns "activation0", "activation1", … for nodes without a name.
std::string AutomaticName(std::string_view op) {
  static std::mutex mutex;
  static auto* const counts = new std::unordered_map<std::string, int>();
  const std::string base = absl::AsciiStrToLower(absl::string_view(op.data(), op.size()));
  const std::lock_guard lock(mutex);
  return absl::StrCat(base, (*counts)[base]++);
}

NodeEntry SingleOutput(const Symbol& symbol, std::string_view op, std::string_view what) {
  if (symbol.num_outputs() != 1) {
    throw InvalidArgument(op, ": ", Excerpt(what), " has ", symbol.num_outputs(),
                          " outputs, expected one; choose one with operator[]");
  }
  return symbol.outputs()[0];
}

Symbol VisibleOutputs(const NodeEntry& entry) {
  std::vector<NodeEntry> outputs;
  for (int i = 0; i < entry.node->property->NumVisibleOutputs(); ++i) {
    outputs.push_back({entry.node, i});
  }
  return Symbol(std::move(outputs));
}

}  // namespace

Symbol::Symbol(std::vector<NodeEntry> outputs) : outputs_(std::move(outputs)) {}

Symbol Symbol::Variable(std::string name) {
  if (name.empty()) throw InvalidArgument("Symbol::Variable: the name is empty");
  return Symbol({MakeVariable(std::move(name))});
}

Symbol Symbol::Apply(std::string_view op, const std::vector<Symbol>& inputs,
                     const ParameterMap& parameters, std::string name) {
  std::shared_ptr<const OperatorProperty> property = OperatorRegistry::Get().Create(op, parameters);
  std::vector<NodeEntry> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(SingleOutput(inputs[i], op, absl::StrCat("input ", i)));
  }
  if (name.empty()) name = AutomaticName(property->TypeString());
  return VisibleOutputs(MakeNode(std::move(property), std::move(name), arguments));
}

Symbol Symbol::Compose(std::string_view op, const std::map<std::string, Symbol>& inputs,
                       const ParameterMap& parameters, std::string name) {
  std::shared_ptr<const OperatorProperty> property = OperatorRegistry::Get().Create(op, parameters);
  const std::vector<std::string> names = property->ListArguments();
  std::vector<NodeEntry> arguments(names.size());
  for (const auto& [key, symbol] : inputs) {
    const auto found = std::find(names.begin(), names.end(), key);
    if (found == names.end()) {
      const std::string nearest = NearestName(key, names);
      throw InvalidArgument(op, ": there is no argument \"", Excerpt(key), "\"",
                            nearest.empty() ? "" : "; did you mean \"" + Excerpt(nearest) + "\"?");
    }
    arguments[static_cast<size_t>(found - names.begin())] = SingleOutput(symbol, op, key);
  }
  if (name.empty()) name = AutomaticName(property->TypeString());
  return VisibleOutputs(MakeNode(std::move(property), std::move(name), arguments));
}

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
    const std::string nearest = NearestName(output, names);
    throw NotFound("Symbol: there is no output \"", Excerpt(output), "\"",
                   nearest.empty() ? "" : "; did you mean \"" + Excerpt(nearest) + "\"?");
  }
  return (*this)[static_cast<int>(found - names.begin())];
}

Symbol Symbol::GetInternals() const {
  // The graph has plain pointers, so the owners are found among the entries that refer to the
  // nodes.
  std::unordered_map<const Node*, std::shared_ptr<Node>> owners;
  const IndexedGraph graph(outputs_);
  for (const NodeEntry& output : outputs_) owners[output.node.get()] = output.node;
  for (const Node* node : graph.nodes()) {
    for (const NodeEntry& input : node->inputs) owners[input.node.get()] = input.node;
  }
  std::vector<NodeEntry> entries;
  for (const Node* node : graph.nodes()) {
    const int visible = node->is_variable() ? 1 : node->property->NumVisibleOutputs();
    for (int i = 0; i < visible; ++i) entries.push_back({owners.at(node), i});
  }
  return Symbol(std::move(entries));
}

const std::string& Symbol::name() const {
  return SingleOutput(*this, "Symbol::name", "the symbol").node->name;
}

std::vector<std::string> Symbol::ListArguments() const {
  const IndexedGraph graph(outputs_);
  std::vector<std::string> names;
  for (const int id : graph.arguments()) {
    names.push_back(graph.nodes()[static_cast<size_t>(id)]->name);
  }
  return names;
}

std::vector<std::string> Symbol::ListOutputs() const {
  std::vector<std::string> names;
  for (const NodeEntry& entry : outputs_) names.push_back(entry.node->OutputName(entry.index));
  return names;
}

std::vector<std::string> Symbol::ListAuxiliaryStates() const {
  const IndexedGraph graph(outputs_);
  std::vector<std::string> names;
  for (const int id : graph.aux_states()) {
    names.push_back(graph.nodes()[static_cast<size_t>(id)]->name);
  }
  return names;
}

std::optional<std::string> Symbol::GetAttribute(std::string_view key) const {
  const NodeEntry entry = SingleOutput(*this, "Symbol::GetAttribute", "the symbol");
  const auto found = entry.node->attributes.find(std::string(AttributeName(*entry.node, key)));
  if (found == entry.node->attributes.end()) return std::nullopt;
  return found->second;
}

void Symbol::SetAttribute(std::string_view key, std::string value) {
  const NodeEntry entry = SingleOutput(*this, "Symbol::SetAttribute", "the symbol");
  entry.node->attributes[std::string(AttributeName(*entry.node, key))] = std::move(value);
}

InferredShapes Symbol::InferShape(const std::map<std::string, TShape>& known) const {
  const IndexedGraph graph(outputs_);
  const graph::GraphShapes shapes = graph::InferShapes(graph, known);
  InferredShapes inferred;
  const auto at = [&](int entry) { return shapes.entries[static_cast<size_t>(entry)]; };
  for (const int id : graph.arguments()) inferred.arguments.push_back(at(graph.EntryId(id, 0)));
  for (const int entry : graph.heads()) inferred.outputs.push_back(at(entry));
  for (const int id : graph.aux_states()) inferred.aux_states.push_back(at(graph.EntryId(id, 0)));
  inferred.complete = shapes.complete;
  return inferred;
}

InferredTypes Symbol::InferType(const std::map<std::string, DType>& known) const {
  const IndexedGraph graph(outputs_);
  const graph::GraphTypes types = graph::InferTypes(graph, known);
  InferredTypes inferred;
  const auto at = [&](int entry) { return types.entries[static_cast<size_t>(entry)]; };
  for (const int id : graph.arguments()) inferred.arguments.push_back(at(graph.EntryId(id, 0)));
  for (const int entry : graph.heads()) inferred.outputs.push_back(at(entry));
  for (const int id : graph.aux_states()) inferred.aux_states.push_back(at(graph.EntryId(id, 0)));
  inferred.complete = types.complete;
  return inferred;
}

Symbol operator+(const Symbol& a, const Symbol& b) { return Symbol::Apply("elemwise_add", {a, b}); }
Symbol operator-(const Symbol& a, const Symbol& b) { return Symbol::Apply("elemwise_sub", {a, b}); }
Symbol operator*(const Symbol& a, const Symbol& b) { return Symbol::Apply("elemwise_mul", {a, b}); }
Symbol operator/(const Symbol& a, const Symbol& b) { return Symbol::Apply("elemwise_div", {a, b}); }

namespace {

Symbol ApplyScalar(std::string_view op, const Symbol& a, double b) {
  return Symbol::Apply(op, {a}, {{"scalar", ops_internal::ParameterText<double>::Print(b)}});
}

}  // namespace

Symbol operator+(const Symbol& a, double b) { return ApplyScalar("_plus_scalar", a, b); }
Symbol operator-(const Symbol& a, double b) { return ApplyScalar("_minus_scalar", a, b); }
Symbol operator*(const Symbol& a, double b) { return ApplyScalar("_mul_scalar", a, b); }
Symbol operator/(const Symbol& a, double b) { return ApplyScalar("_div_scalar", a, b); }

}  // namespace tessera
