#include "tessera/graph/passes/rewrite.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "tessera/base/error.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using NodeSet = absl::flat_hash_set<const Node*>;

/// Returns the `i`-th of the nodes that come before `node`, or null after the last one: its inputs
/// and, among `present`, the node whose gradient it computes, or else that node's inputs.
const std::shared_ptr<Node>* Before(const Node& node, size_t i, const NodeSet& present) {
  static const std::shared_ptr<Node> kNobody;
  if (i < node.inputs.size()) return &node.inputs[i].node;
  if (node.forward == nullptr || present.empty()) return nullptr;
  i -= node.inputs.size();
  if (present.contains(node.forward.get())) return i == 0 ? &node.forward : nullptr;
  if (i >= node.forward->inputs.size()) return nullptr;
  const std::shared_ptr<Node>& input = node.forward->inputs[i].node;
  return present.contains(input.get()) ? &input : &kNobody;
}

/// Returns the nodes that the heads need, depth first.
std::vector<std::shared_ptr<Node>> DepthFirst(const std::vector<NodeEntry>& heads,
                                              const NodeSet& present) {
  // Without recursion, because graphs may be deeper than the stack.
  struct Visit {
    const std::shared_ptr<Node>* node;
    size_t next;
  };
  std::vector<std::shared_ptr<Node>> order;
  NodeSet seen;
  seen.reserve(present.size());
  std::vector<Visit> stack;
  const auto enter = [&](const std::shared_ptr<Node>& node) {
    if (node != nullptr && seen.insert(node.get()).second) stack.push_back({&node, 0});
  };
  for (const NodeEntry& head : heads) {
    enter(head.node);
    while (!stack.empty()) {
      Visit& top = stack.back();
      const std::shared_ptr<Node>* const next = Before(**top.node, top.next++, present);
      if (next != nullptr) {
        enter(*next);
      } else {
        order.push_back(*top.node);
        stack.pop_back();
      }
    }
  }
  return order;
}

/// Returns whether the property of an operator without inputs determines shapes and types of its
/// outputs.
bool DeterminesOutputs(const OperatorProperty& property) {
  const size_t outputs = property.ListOutputs().size();
  std::vector<TShape> in_shape, out_shape(outputs);
  std::vector<DType> in_type, out_type(outputs, DType::kUnknown);
  return property.InferShape(&in_shape, &out_shape) && property.InferType(&in_type, &out_type);
}

/// Builds the new graph node by node.
class Rewriter {
 public:
  explicit Rewriter(size_t num_nodes) { made_.reserve(num_nodes); }

  void Visit(const std::shared_ptr<Node>& node, const ReplaceNode& replace) {
    made_[node.get()] = replace(*node, Rebuild(node));
  }

  NodeEntry At(const NodeEntry& entry) const {
    const auto found = made_.find(entry.node.get());
    if (found == made_.end()) return entry;  // an input of a forward node outside the graph
    const Replacement& made = found->second;
    return made.outputs.empty() ? NodeEntry{made.node, entry.index}
                                : made.outputs[static_cast<size_t>(entry.index)];
  }

 private:
  std::shared_ptr<Node> Forward(const std::shared_ptr<Node>& forward) {
    if (forward == nullptr) return nullptr;
    const auto found = made_.find(forward.get());
    if (found != made_.end()) return found->second.node;
    const auto rebuilt = outside_.find(forward.get());
    if (rebuilt != outside_.end()) return rebuilt->second;
    return outside_[forward.get()] = Rebuild(forward);
  }

  std::shared_ptr<Node> Rebuild(const std::shared_ptr<Node>& node) {
    std::vector<NodeEntry> inputs;
    inputs.reserve(node->inputs.size());
    for (const NodeEntry& input : node->inputs) inputs.push_back(At(input));
    std::shared_ptr<Node> forward = Forward(node->forward);
    if (inputs == node->inputs && forward == node->forward) return node;
    auto copy = std::make_shared<Node>(*node);
    copy->inputs = std::move(inputs);
    copy->forward = std::move(forward);
    return copy;
  }

  absl::flat_hash_map<const Node*, Replacement> made_;
  absl::flat_hash_map<const Node*, std::shared_ptr<Node>> outside_;
};

}  // namespace

std::vector<std::shared_ptr<Node>> TopologicalOrder(const std::vector<NodeEntry>& heads) {
  std::vector<std::shared_ptr<Node>> order = DepthFirst(heads, {});
  const bool has_gradients = std::any_of(order.begin(), order.end(),
                                         [](const auto& node) { return node->forward != nullptr; });
  if (!has_gradients) return order;
  NodeSet present;
  present.reserve(order.size());
  for (const auto& node : order) present.insert(node.get());
  return DepthFirst(heads, present);
}

std::string DeviceGroup(const Node& node) {
  return node.attributes.Find(std::string(AttributeName(node, "__ctx_group__"))).value_or("");
}

std::vector<NodeEntry> RewriteGraph(const std::vector<NodeEntry>& heads,
                                    const ReplaceNode& replace) {
  return RewriteGraph(heads, TopologicalOrder(heads), replace);
}

std::vector<NodeEntry> RewriteGraph(const std::vector<NodeEntry>& heads,
                                    const std::vector<std::shared_ptr<Node>>& order,
                                    const ReplaceNode& replace) {
  Rewriter rewriter(order.size());
  for (const std::shared_ptr<Node>& node : order) rewriter.Visit(node, replace);
  std::vector<NodeEntry> rewritten;
  rewritten.reserve(heads.size());
  for (const NodeEntry& head : heads) rewritten.push_back(rewriter.At(head));
  return rewritten;
}

GraphFacts::GraphFacts(const std::vector<NodeEntry>& heads,
                       const std::vector<std::shared_ptr<Node>>& order) {
  for (const NodeEntry& head : heads) heads_.insert(head.node.get());
  for (const std::shared_ptr<Node>& node : order) {
    if (node->is_variable()) continue;
    for (const int input : node->property->MutatedInputs()) {
      const NodeEntry& entry = node->inputs[static_cast<size_t>(input)];
      mutated_.insert({entry.node.get(), entry.index});
    }
  }
}

bool GraphFacts::TouchesMutated(const Node& node) const {
  if (mutated_.empty()) return false;
  for (const NodeEntry& input : node.inputs) {
    if (mutated_.contains({input.node.get(), input.index})) return true;
  }
  const auto first = mutated_.lower_bound({&node, 0});
  return first != mutated_.end() && first->first == &node;
}

bool GraphFacts::IsFunction(const Node& node) const {
  if (node.is_variable() || !node.subgraphs.empty()) return false;
  // A gradient's node calls the operator that it belongs to.
  const Node& called = node.forward == nullptr ? node : *node.forward;
  if (called.property->purity() != Purity::kPure || TouchesMutated(node)) return false;
  return !node.inputs.empty() || DeterminesOutputs(*node.property);
}

NodeEntry MakeOperatorLike(const Node& like, std::string_view op, std::string name,
                           const std::vector<NodeEntry>& inputs, const ParameterMap& parameters) {
  NodeEntry made =
      MakeNode(OperatorRegistry::Get().FindOrCreate(op, parameters), std::move(name), inputs);
  TESSERA_DCHECK(made.node->inputs == inputs);
  const std::string_view implementation = AttributeName(like, kImplementationAttribute);
  const bool is_same = made.node->property->TypeString() == like.property->TypeString();
  for (auto& [attribute, value] : like.attributes.All()) {
    if (is_same || attribute != implementation) made.node->attributes.Add(attribute, value);
  }
  return made;
}

}  // namespace tessera::graph
