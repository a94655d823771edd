#ifndef TESSERA_GRAPH_PASSES_FOLD_BATCH_NORM_H_
#define TESSERA_GRAPH_PASSES_FOLD_BATCH_NORM_H_

#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/graph/node.h"

namespace tessera::graph {

/// A graph with normalized weights.
struct FoldedGraph {
  std::vector<NodeEntry> heads;                ///< the outputs of the graph
  std::unordered_set<const Node*> parameters;  ///< the variables that normalized weights depend on
};

/// Returns the graph without the BatchNorm nodes that can be computed by the layer in front of
/// them, for calls outside of training:
///
///   scale = gamma / sqrt(moving_var + eps)      gamma is 1 with fix_gamma
///   weight' = weight * scale                    for each output channel
///   bias' = (bias - moving_mean) * scale + beta
///
/// The new weights are nodes of the graph, of registered operators. SplitOff computes them once.
/// The layer, with the new weights, gets the name of the BatchNorm. Its results differ from the old
/// ones by rounding. A variable that is not needed any more, such as a fixed gamma, does not belong
/// to the new graph; moving_mean and moving_var become arguments of it.
///
/// Layers are Convolution, Deconvolution and FullyConnected, with or without bias, whose output
/// nothing else reads and whose channels are the BatchNorm's. A BatchNorm stays if it shows mean
/// and variance, if a weight or statistic is no variable or is changed by another operator, if the
/// `ctx_group` of the two differs, or if its elements have 16 bits, for which new weights would be
/// rounded. `types` are the element types of variables by name, as InferTypes takes them; names
/// that the graph does not have are ignored. Linear time.
FoldedGraph FoldBatchNorms(const std::vector<NodeEntry>& heads,
                           const std::map<std::string, DType>& types);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_FOLD_BATCH_NORM_H_
