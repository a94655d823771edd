#include "tessera/graph/graph.h"

#include <unordered_set>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::graph {

IndexedGraph::IndexedGraph(const std::vector<NodeEntry>& heads) {
  // Depth-first without recursion, because graphs may be deeper than the stack.
  struct Visit {
    std::shared_ptr<Node> node;
    size_t next_input;
  };
  std::unordered_set<const Node*> seen;
  std::unordered_set<const Node*> mutated;
  std::vector<Visit> stack;
  const auto enter = [&](const std::shared_ptr<Node>& node) {
    if (!seen.insert(node.get()).second) return;
    stack.push_back({node, 0});
    if (node->is_variable()) return;
    for (const int input : node->property->MutatedInputs()) {
      mutated.insert(node->inputs[static_cast<size_t>(input)].node.get());
    }
  };
  for (const NodeEntry& head : heads) {
    enter(head.node);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next_input < top.node->inputs.size()) {
        enter(top.node->inputs[top.next_input++].node);
      } else {
        node_ids_[top.node.get()] = static_cast<int>(nodes_.size());
        nodes_.push_back(top.node.get());
        owners_.push_back(std::move(top.node));
        stack.pop_back();
      }
    }
  }
  entry_begin_.push_back(0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    entry_begin_.push_back(entry_begin_.back() + nodes_[i]->num_outputs());
    if (!nodes_[i]->is_variable()) continue;
    variables_.push_back(static_cast<int>(i));
    (mutated.contains(nodes_[i]) ? aux_states_ : arguments_).push_back(static_cast<int>(i));
  }
  for (const Node* node : nodes_) {
    std::vector<int>& ids = input_ids_.emplace_back();
    ids.reserve(node->inputs.size());
    for (const NodeEntry& input : node->inputs) ids.push_back(EntryId(input));
  }
  for (const NodeEntry& head : heads) heads_.push_back(EntryId(head));
}

void IndexedGraph::RequireUniqueNames(std::string_view caller) const {
  std::unordered_set<std::string_view> names;
  for (const int id : variables_) {
    const std::string& name = node(id).name;
    if (names.insert(name).second) continue;
    throw InvalidArgument(caller, ": two different variables are called \"", Excerpt(name),
                          "\"; names of variables must be unique here");
  }
}

std::vector<NodeEntry> CopyGraph(const std::vector<NodeEntry>& heads,
                                 const std::unordered_map<const Node*, NodeEntry>& replaced) {
  const IndexedGraph graph(heads);
  std::unordered_map<const Node*, std::shared_ptr<Node>> copies;
  const auto mapped = [&](const NodeEntry& entry) -> NodeEntry {
    const auto replacement = replaced.find(entry.node.get());
    if (replacement != replaced.end()) return replacement->second;
    const auto copy = copies.find(entry.node.get());
    return copy == copies.end() ? entry : NodeEntry{copy->second, entry.index};
  };
  const auto copy_node = [&](const Node& node) {
    auto copy = std::make_shared<Node>(node);
    for (NodeEntry& input : copy->inputs) input = mapped(input);
    copies.emplace(&node, copy);
    return copy;
  };
  std::vector<std::shared_ptr<Node>> gradients;
  for (const Node* node : graph.nodes()) {
    if (replaced.contains(node)) continue;
    std::shared_ptr<Node> copy = copy_node(*node);
    if (copy->forward != nullptr) gradients.push_back(std::move(copy));
  }
  for (const std::shared_ptr<Node>& gradient : gradients) {
    // The node that a gradient belongs to need not be in the graph.
    const auto forward = copies.find(gradient->forward.get());
    gradient->forward = forward == copies.end() ? copy_node(*gradient->forward) : forward->second;
  }
  std::vector<NodeEntry> copied;
  for (const NodeEntry& head : heads) copied.push_back(mapped(head));
  return copied;
}

}  // namespace tessera::graph
