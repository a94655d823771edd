#include "tessera/graph/passes/sums.h"

#include <unordered_set>

#include "tessera/base/at.h"

namespace tessera::graph {

using base_internal::At;

PlacedSums PlaceSums(const IndexedGraph& graph, const std::vector<bool>& is_gradient) {
  PlacedSums placed{.sum_of = std::vector<int>(At(graph.num_entries()), PlacedSums::kNone),
                    .is_placed = std::vector<bool>(At(graph.num_nodes()), false)};
  std::vector<int> readers(At(graph.num_entries()), 0);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (const int input : graph.InputIds(i)) ++readers[At(input)];
  }
  for (const int head : graph.heads()) ++readers[At(head)];
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const Node& node = graph.node(i);
    if (!is_gradient[At(i)] || node.is_variable()) continue;
    if (node.property->TypeString() != "add_n") continue;
    std::unordered_set<const Node*> producers;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const int part = graph.InputIds(i)[k];
      const Node* const producer = node.inputs[k].node.get();
      const size_t id = At(graph.NodeId(producer));
      if (readers[At(part)] != 1 || producer->is_variable()) continue;
      if (!is_gradient[id] || placed.is_placed[id] || !producers.insert(producer).second) continue;
      placed.sum_of[At(part)] = graph.EntryId(i, 0);
    }
    placed.is_placed[At(i)] = !producers.empty();
  }
  return placed;
}

}  // namespace tessera::graph
