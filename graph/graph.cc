#include "tessera/graph/graph.h"

#include <string_view>
#include <unordered_set>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::graph {

IndexedGraph::IndexedGraph(const std::vector<NodeEntry>& heads) {
  // Depth-first without recursion, because graphs may be deeper than the stack.
  struct Visit {
    const Node* node;
    size_t next_input;
  };
  std::unordered_set<const Node*> seen;
  std::unordered_set<const Node*> mutated;
  std::vector<Visit> stack;
  const auto enter = [&](const Node* node) {
    if (!seen.insert(node).second) return;
    stack.push_back({node, 0});
    if (node->is_variable()) return;
    for (const int input : node->property->MutatedInputs()) {
      mutated.insert(node->inputs[static_cast<size_t>(input)].node.get());
    }
  };
  for (const NodeEntry& head : heads) {
    enter(head.node.get());
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next_input < top.node->inputs.size()) {
        enter(top.node->inputs[top.next_input++].node.get());
      } else {
        node_ids_[top.node] = static_cast<int>(nodes_.size());
        nodes_.push_back(top.node);
        stack.pop_back();
      }
    }
  }
  std::unordered_set<std::string_view> names;
  entry_begin_.push_back(0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    entry_begin_.push_back(entry_begin_.back() + nodes_[i]->num_outputs());
    if (!nodes_[i]->is_variable()) continue;
    if (!nodes_[i]->name.empty() && !names.insert(nodes_[i]->name).second) {
      throw InvalidArgument("Symbol: two different variables are called \"",
                            Excerpt(nodes_[i]->name), "\"; names of arguments must be unique");
    }
    (mutated.contains(nodes_[i]) ? aux_states_ : arguments_).push_back(static_cast<int>(i));
  }
  for (const Node* node : nodes_) {
    std::vector<int>& ids = input_ids_.emplace_back();
    for (const NodeEntry& input : node->inputs) ids.push_back(EntryId(input));
  }
  for (const NodeEntry& head : heads) heads_.push_back(EntryId(head));
}

}  // namespace tessera::graph
