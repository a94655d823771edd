#ifndef TESSERA_GRAPH_PASSES_SUMS_H_
#define TESSERA_GRAPH_PASSES_SUMS_H_

#include <vector>

#include "tessera/graph/graph.h"

namespace tessera::graph {

/// The sums of a graph that need no call, because their parts are added up in the sum's memory.
struct PlacedSums {
  static constexpr int kNone = -1;  ///< the number of no entry

  /// For each entry, the sum's entry whose memory it is written or added to, or kNone.
  std::vector<int> sum_of;
  /// For each node, whether it is a sum with such a part. Its other parts, which have memory of
  /// their own, remain to be added.
  std::vector<bool> is_placed;
};

/// Lets the parts of sums (add_n) be added up in the sum's memory, where each part is read by the
/// sum alone. A weight that is used at many places then needs memory for one gradient. In the order
/// of the nodes, the first part of a sum is written and the others are added.
///
/// `is_gradient` has an entry for each node. A sum and its parts are placed only if it is true for
/// the nodes of both. A node gives a sum at most one part, and a placed sum is no part itself.
/// Linear time.
PlacedSums PlaceSums(const IndexedGraph& graph, const std::vector<bool>& is_gradient);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_SUMS_H_
