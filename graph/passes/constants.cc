#include "tessera/graph/passes/constants.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tessera/graph/passes/rewrite.h"

namespace tessera::graph {
namespace {

/// Returns the nodes that are computed apart, and the variables that are fixed.
std::unordered_set<const Node*> FixedNodes(
    const std::vector<NodeEntry>& heads, const std::vector<std::shared_ptr<Node>>& order,
    const std::function<bool(const Node& variable)>& is_fixed) {
  const GraphFacts facts(heads, order);
  std::unordered_set<const Node*> fixed;
  for (const std::shared_ptr<Node>& node : order) {
    bool is = false;
    if (node->is_variable()) {
      is = is_fixed(*node);
    } else if (facts.IsFunction(*node) && !facts.IsHead(*node)) {
      is = std::all_of(node->inputs.begin(), node->inputs.end(),
                       [&](const NodeEntry& input) { return fixed.contains(input.node.get()); });
    }
    if (is) fixed.insert(node.get());
  }
  return fixed;
}

/// The variables that stand for fixed values.
class Variables {
 public:
  Variables(std::string_view prefix, std::vector<FixedValue>* values)
      : prefix_(prefix), values_(*values) {}

  NodeEntry For(const NodeEntry& value) {
    std::vector<NodeEntry>& variables = of_node_[value.node.get()];
    variables.resize(static_cast<size_t>(value.node->num_outputs()));
    NodeEntry& variable = variables[static_cast<size_t>(value.index)];
    if (variable.node == nullptr) {
      variable = MakeVariable(std::string(prefix_) + std::to_string(values_.size()) + "_" +
                              names_.Of(*value.node, value.index));
      values_.push_back({value, variable});
    }
    return variable;
  }

 private:
  const std::string_view prefix_;
  std::vector<FixedValue>& values_;
  std::unordered_map<const Node*, std::vector<NodeEntry>> of_node_;
  OutputNames names_;
};

}  // namespace

SplitGraph SplitOff(const std::vector<NodeEntry>& heads,
                    const std::function<bool(const Node& variable)>& is_fixed,
                    std::string_view prefix) {
  const std::vector<std::shared_ptr<Node>> order = TopologicalOrder(heads);
  const std::unordered_set<const Node*> fixed = FixedNodes(heads, order, is_fixed);
  SplitGraph split;
  Variables variables(prefix, &split.fixed);
  const auto replace = [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    if (fixed.contains(&node) || node.is_variable()) return Replacement{rebuilt};
    // A fixed node is not rebuilt, so that a reader's input names the node of the given graph.
    std::shared_ptr<Node> reader = rebuilt;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const NodeEntry& input = node.inputs[i];
      if (input.node->is_variable() || !fixed.contains(input.node.get())) continue;
      if (reader == rebuilt) reader = std::make_shared<Node>(*rebuilt);
      reader->inputs[i] = variables.For(input);
    }
    return Replacement{std::move(reader)};
  };
  split.heads = RewriteGraph(heads, order, replace);
  return split;
}

SplitGraph SplitOffConstants(const std::vector<NodeEntry>& heads) {
  return SplitOff(
      heads, [](const Node&) { return false; }, "_constant");
}

}  // namespace tessera::graph
