#include "tessera/compat/mxnet/core/reduce_precision.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::mxnet {
namespace {

using graph::Node;
using graph::NodeEntry;

/// The type that a value is known to have.
enum class Precision {
  kFloat32,
  kTarget,
  kAny,  ///< one of the two, or no floating-point type
};

/// The types in which a node computes.
enum class Need { kNothing, kTarget, kFloat32, kWidest };

/// Returns the name under which the registry has an operator.
std::string Registered(const std::string& op) {
  const OperatorEntry* const entry = OperatorRegistry::Get().Find(op);
  return entry == nullptr ? op : std::string(entry->name);
}

/// Returns the names under which the registry has these operators. MXNet has operators of their own
/// for some aliases, such as Convolution_v1: one does not count if a list has the operator itself.
std::set<std::string> Registered(const std::vector<std::string>& ops, const PrecisionRules& rules) {
  std::set<std::string> names;
  for (const std::string& op : ops) {
    const std::string name = Registered(op);
    const auto lists = {&rules.target_ops, &rules.float32_ops, &rules.widest_ops};
    const bool is_listed = std::any_of(lists.begin(), lists.end(), [&name](const auto* list) {
      return std::find(list->begin(), list->end(), name) != list->end();
    });
    if (name == op || !is_listed) names.insert(name);
  }
  return names;
}

bool IsCastTo(const Node& node, DType dtype) {
  return !node.is_variable() && node.property->TypeString() == "amp_cast" &&
         node.property->GetParams().at("dtype") == DTypeName(dtype);
}

/// Inserts the casts.
class Caster {
 public:
  explicit Caster(const PrecisionRules& rules)
      : rules_(rules),
        target_ops_(Registered(rules.target_ops, rules)),
        float32_ops_(Registered(rules.float32_ops, rules)),
        widest_ops_(Registered(rules.widest_ops, rules)),
        excluded_(rules.excluded.begin(), rules.excluded.end()) {
    for (const PrecisionRules::Condition& condition : rules.conditions) {
      conditions_.emplace_back(Registered(condition.op), &condition);
    }
  }

  Symbol Run(const Symbol& symbol) {
    return Symbol(graph::RewriteGraph(
        symbol.outputs(), [this](const Node& node, const std::shared_ptr<Node>& rebuilt) {
          return graph::Replacement{node.is_variable() ? Variable(rebuilt) : Operator(rebuilt)};
        }));
  }

 private:
  std::shared_ptr<Node> Variable(const std::shared_ptr<Node>& node) {
    const auto type = rules_.data.find(node->name);
    const bool is_float32 = type != rules_.data.end() && type->second == DType::kFloat32;
    precision_[node.get()] = is_float32 ? Precision::kFloat32 : Precision::kAny;
    return node;
  }

  std::shared_ptr<Node> Operator(const std::shared_ptr<Node>& node) {
    const Need need = NeedOf(*node);
    std::vector<NodeEntry> inputs = node->inputs;
    const std::vector<size_t> changeable = Unmutated(*node);
    if (need == Need::kWidest) {
      Widen(*node, changeable, &inputs);
    } else if (need != Need::kNothing) {
      for (const size_t i : changeable) {
        inputs[i] = Cast(inputs[i], need == Need::kTarget ? rules_.target : DType::kFloat32);
      }
    }
    std::shared_ptr<Node> made = node;
    if (inputs != node->inputs) {
      made = std::make_shared<Node>(*node);
      made->inputs = std::move(inputs);
    }
    precision_[made.get()] = need == Need::kTarget    ? Precision::kTarget
                             : need == Need::kFloat32 ? Precision::kFloat32
                             : HasTypeOfItsOwn(*made) ? Precision::kAny
                                                      : Common(*made, changeable);
    return made;
  }

  Need NeedOf(const Node& node) const {
    const std::string& op = node.property->TypeString();
    if (!node.subgraphs.empty() || excluded_.contains(node.name)) return Need::kFloat32;
    if (float32_ops_.contains(op) || MeetsCondition(node, op)) return Need::kFloat32;
    if (target_ops_.contains(op)) return Need::kTarget;
    return widest_ops_.contains(op) ? Need::kWidest : Need::kNothing;
  }

  bool MeetsCondition(const Node& node, const std::string& op) const {
    return std::any_of(conditions_.begin(), conditions_.end(), [&](const auto& named) {
      if (named.first != op) return false;
      const ParameterMap parameters = node.property->GetParams();
      const auto found = parameters.find(named.second->parameter);
      const std::vector<std::string>& values = named.second->values;
      return found != parameters.end() &&
             std::find(values.begin(), values.end(), found->second) != values.end();
    });
  }

  /// Returns the positions of inputs that the operator does not change.
  static std::vector<size_t> Unmutated(const Node& node) {
    const std::vector<int> mutated = node.property->MutatedInputs();
    std::vector<size_t> positions;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (std::find(mutated.begin(), mutated.end(), static_cast<int>(i)) == mutated.end()) {
        positions.push_back(i);
      }
    }
    return positions;
  }

  /// Returns whether a parameter, and not the inputs, tells the type of the results.
  static bool HasTypeOfItsOwn(const Node& node) {
    return node.inputs.empty() || node.property->GetParams().contains("dtype");
  }

  /// Returns what is known of the results of a node that computes in the type of its inputs.
  Precision Common(const Node& node, const std::vector<size_t>& positions) const {
    const auto all_are = [&](Precision precision) {
      return std::all_of(positions.begin(), positions.end(),
                         [&](size_t i) { return PrecisionOf(node.inputs[i]) == precision; });
    };
    if (all_are(Precision::kFloat32)) return Precision::kFloat32;
    return all_are(Precision::kTarget) ? Precision::kTarget : Precision::kAny;
  }

  Precision PrecisionOf(const NodeEntry& entry) const { return precision_.at(entry.node.get()); }

  NodeEntry Cast(const NodeEntry& entry, DType dtype) {
    const Precision wanted = dtype == DType::kFloat32 ? Precision::kFloat32 : Precision::kTarget;
    if (PrecisionOf(entry) == wanted) return entry;
    NodeEntry& cast = casts_[{entry.node.get(), entry.index, dtype}];
    if (cast.node == nullptr) {
      const std::string type(DTypeName(dtype));
      cast = graph::MakeNode(OperatorRegistry::Get().FindOrCreate("amp_cast", {{"dtype", type}}),
                             entry.node->OutputName(entry.index) + "_amp_cast_" + type, {entry});
      precision_[cast.node.get()] = wanted;
    }
    return cast;
  }

  /// Puts amp_multicast before inputs that may have different types.
  void Widen(const Node& node, const std::vector<size_t>& positions,
             std::vector<NodeEntry>* inputs) {
    if (positions.size() < 2 || Common(node, positions) != Precision::kAny) return;
    std::vector<NodeEntry> read;
    Precision widest = Precision::kAny;
    for (const size_t i : positions) {
      read.push_back((*inputs)[i]);
      if (PrecisionOf(read.back()) == Precision::kFloat32) widest = Precision::kFloat32;
    }
    const NodeEntry made =
        graph::MakeNode(OperatorRegistry::Get().FindOrCreate(
                            "amp_multicast", {{"num_outputs", std::to_string(read.size())}}),
                        node.name + "_amp_multicast", read);
    precision_[made.node.get()] = widest;
    for (size_t i = 0; i < positions.size(); ++i) {
      (*inputs)[positions[i]] = {made.node, static_cast<int>(i)};
    }
  }

  const PrecisionRules& rules_;
  const std::set<std::string> target_ops_, float32_ops_, widest_ops_, excluded_;
  std::vector<std::pair<std::string, const PrecisionRules::Condition*>> conditions_;
  std::unordered_map<const Node*, Precision> precision_;  // of the outputs of nodes that were made
  std::map<std::tuple<const Node*, int, DType>, NodeEntry> casts_;
};

/// Returns whether casts to that type, at least one, are all that reads a variable.
bool OnlyCastsRead(const graph::IndexedGraph& graph, int variable, DType dtype) {
  bool is_read = false;
  const int entry = graph.EntryId(variable, 0);
  for (const int head : graph.heads()) {
    if (head == entry) return false;
  }
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (const int input : graph.InputIds(i)) {
      if (input != entry) continue;
      if (!IsCastTo(graph.node(i), dtype)) return false;
      is_read = true;
    }
  }
  return is_read;
}

/// States the types that the parameters' readers need.
void StateTypes(const Symbol& symbol, const PrecisionRules& rules) {
  const graph::IndexedGraph graph(symbol.outputs());
  const std::set<std::string> parameters(rules.parameters.begin(), rules.parameters.end());
  const auto state = [&](int variable, DType dtype) {
    graph.Owner(variable)->attributes.Set("__dtype__", std::to_string(static_cast<int>(dtype)));
  };
  std::vector<int> ids;
  for (const int id : graph.variables()) {
    if (parameters.contains(graph.node(id).name)) ids.push_back(id);
  }
  // Types that are stated for the graph of float32 do not hold any more.
  for (const int id : ids) state(id, DType::kUnknown);
  const InferredTypes types = symbol.InferTypePartial(rules.data);
  std::map<std::string, DType> inferred;
  const auto note = [&](const std::vector<std::string>& names, const std::vector<DType>& dtypes) {
    for (size_t i = 0; i < names.size(); ++i) inferred.emplace(names[i], dtypes[i]);
  };
  note(symbol.ListArguments(), types.arguments);
  note(symbol.ListAuxiliaryStates(), types.aux_states);
  for (const int id : ids) {
    DType dtype = inferred.at(graph.node(id).name);
    if (dtype == DType::kUnknown && rules.casts_parameters &&
        OnlyCastsRead(graph, id, rules.target)) {
      dtype = rules.target;
    }
    state(id, dtype);
  }
}

}  // namespace

Symbol ReducePrecision(const Symbol& symbol, const PrecisionRules& rules) {
  if (rules.target != DType::kFloat16 && rules.target != DType::kBFloat16) {
    throw InvalidArgument("reduced precision: the type is ", rules.target,
                          ", expected float16 or bfloat16");
  }
  Symbol reduced = Caster(rules).Run(symbol.Copy());
  StateTypes(reduced, rules);
  return reduced;
}

}  // namespace tessera::mxnet
