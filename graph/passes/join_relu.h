#ifndef TESSERA_GRAPH_PASSES_JOIN_RELU_H_
#define TESSERA_GRAPH_PASSES_JOIN_RELU_H_

#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns the graph with one _contrib_BatchNormWithReLU in place of a BatchNorm and the relu
/// behind it, if nothing else reads that BatchNorm or its moving averages. The new node has relu's
/// name. It reads and writes memory once. Its results and gradients are those of the two nodes bit
/// for bit, with two exceptions: the sign of a zero may differ, and the head gradient of an element
/// that relu has cut off counts as 0 even if it is infinite or NaN. Linear time, except for the
/// logarithm of an ordered map.
std::vector<NodeEntry> JoinRelu(const std::vector<NodeEntry>& heads);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_JOIN_RELU_H_
