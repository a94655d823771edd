#ifndef TESSERA_GRAPH_PASSES_SIMPLIFY_H_
#define TESSERA_GRAPH_PASSES_SIMPLIFY_H_

#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns the graph without operators that change nothing where it runs outside of training and
/// has no gradient. The results are the same bit for bit, except that a signaling NaN may stay one.
///
/// - _copy, BlockGrad, make_loss, MakeLoss, Dropout that drops in training only, _mul_scalar and
///   _div_scalar by 1, _minus_scalar of 0: their readers read the input. (_plus_scalar of 0 makes
///   0 of -0, so it stays.)
/// - Reshape of an operator that only reshapes, if the new shape does not refer to the old one:
///   reads that operator's input.
/// - transpose of a transpose: one transpose, or none if they cancel.
///
/// Outputs of the graph stay, so that each keeps its name and array, and so do operators beside a
/// value that some node changes. Linear time.
std::vector<NodeEntry> SimplifyForInference(const std::vector<NodeEntry>& heads);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_SIMPLIFY_H_
