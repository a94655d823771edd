#include "tessera/symbol/apply.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/make_loop.h"
#include "tessera/graph/mask_property.h"
#include "tessera/ops/mxnet/operators.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/scope.h"

namespace tessera {
namespace symbol_internal {

using graph::Node;
using graph::NodeEntry;

namespace {

/// An operator with its parameters, the attributes that were given among them, and the graphs that
/// it runs.
struct GivenOperator {
  GivenOperator(std::string_view op, const ParameterMap& given,
                std::vector<std::vector<NodeEntry>> given_graphs = {})
      : graphs(std::move(given_graphs)) {
    for (const auto& [key, value] : given) {
      (graph::IsAnnotation(key) ? attributes : parameters).emplace(key, value);
    }
    if (!graphs.empty()) {
      property = graph::MakeLoop(op, parameters, graphs);
    } else if (op == graph::BooleanMaskProperty::kName) {
      property = graph::BooleanMaskProperty::Make(parameters);
    } else {
      property = OperatorRegistry::Get().Create(op, parameters);
    }
  }

  ParameterMap parameters;
  ParameterMap attributes;
  std::vector<std::vector<NodeEntry>> graphs;
  std::shared_ptr<const OperatorProperty> property;
};

/// Returns the node's visible outputs.
Symbol MakeSymbol(GivenOperator given, std::string name, const std::vector<NodeEntry>& inputs) {
  const NodeEntry entry = graph::MakeNode(given.property, std::move(name), inputs);
  Node& node = *entry.node;
  node.SetGivenParameters(std::move(given.parameters));
  node.subgraphs = std::move(given.graphs);
  graph::Annotator annotator(&node);
  for (const auto& [key, value] : AttrScope::Current()) annotator.Set(key, value);
  for (auto& [key, value] : given.attributes) annotator.Set(key, std::move(value));
  const bool has_attributes = !node.attributes.All().empty();
  for (size_t i = 0; i < node.inputs.size() && has_attributes; ++i) {
    const bool was_given = i < inputs.size() && inputs[i].node != nullptr;
    if (!was_given) graph::CopyAttributes(node, node.inputs[i].node.get());
  }
  graph::StateInitializers(node);
  std::vector<NodeEntry> outputs;
  const int num_visible = node.property->NumVisibleOutputs();
  for (int i = 0; i < num_visible; ++i) outputs.push_back({entry.node, i});
  return Symbol(std::move(outputs));
}

std::string NameFrom(std::string_view hint, std::string_view name) {
  return NameManager::Current().Get(
      name, absl::AsciiStrToLower(absl::string_view(hint.data(), hint.size())));
}

/// Adds the parameter that counts the inputs, unless it is given.
ParameterMap WithInputCount(std::string_view op, size_t num_inputs, const ParameterMap& given) {
  ParameterMap parameters = given;
  const MxnetOperator* const known = FindMxnetOperator(op);
  const OperatorEntry* const entry = known == nullptr ? OperatorRegistry::Get().Find(op) : nullptr;
  const std::string_view key = known != nullptr   ? known->key_var_num_args
                               : entry != nullptr ? std::string_view(entry->key_var_num_args)
                                                  : std::string_view();
  if (!key.empty()) parameters.emplace(key, std::to_string(num_inputs));
  return parameters;
}

}  // namespace

NodeEntry SingleOutput(const Symbol& symbol, std::string_view caller, std::string_view what) {
  if (symbol.num_outputs() != 1) {
    throw InvalidArgument(caller, ": ", Excerpt(what), " has ", symbol.num_outputs(),
                          " outputs, expected one; choose one with operator[]");
  }
  return symbol.outputs()[0];
}

Symbol Apply(std::string_view op, std::string_view hint, const std::vector<Symbol>& inputs,
             const ParameterMap& parameters, std::string_view name) {
  const auto num_graphs = static_cast<size_t>(graph::NumLoopGraphs(op));
  if (inputs.size() < num_graphs) {
    throw InvalidArgument(op, ": ", inputs.size(), " symbols were given, expected at least ",
                          num_graphs, ", the graphs that it runs");
  }
  std::vector<std::vector<NodeEntry>> graphs;
  for (size_t i = 0; i < num_graphs; ++i) graphs.push_back(inputs[i].outputs());
  GivenOperator given(op, WithInputCount(op, inputs.size(), parameters), std::move(graphs));
  std::vector<NodeEntry> arguments;
  for (size_t i = num_graphs; i < inputs.size(); ++i) {
    if (inputs[i].num_outputs() != 1) SingleOutput(inputs[i], op, absl::StrCat("input ", i));
    arguments.push_back(inputs[i].outputs()[0]);
  }
  return MakeSymbol(std::move(given), NameFrom(hint, name), arguments);
}

Symbol Apply(std::string_view op, const std::map<std::string, Symbol>& inputs,
             const ParameterMap& parameters, std::string_view name) {
  if (graph::NumLoopGraphs(op) > 0) {
    throw InvalidArgument(op,
                          ": inputs were given by name, expected a list of the graphs and the "
                          "inputs in order");
  }
  GivenOperator given(op, parameters);
  const std::vector<std::string> names = given.property->ListArguments();
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
  return MakeSymbol(std::move(given), NameFrom(op, name), arguments);
}

}  // namespace symbol_internal

Symbol Symbol::Apply(std::string_view op, const std::vector<Symbol>& inputs,
                     const ParameterMap& parameters, std::string name) {
  return symbol_internal::Apply(op, op, inputs, parameters, name);
}

Symbol Symbol::Compose(std::string_view op, const std::map<std::string, Symbol>& inputs,
                       const ParameterMap& parameters, std::string name) {
  return symbol_internal::Apply(op, inputs, parameters, name);
}

}  // namespace tessera
