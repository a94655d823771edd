#ifndef TESSERA_GRAPH_JSON_JSON_FUSED_H_
#define TESSERA_GRAPH_JSON_JSON_FUSED_H_

#include <string>
#include <string_view>
#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns whether MXNet's pass for oneDNN makes nodes of that operator, each of which computes the
/// operators of a subgraph in one call: `_sg_mkldnn_conv` and `_sg_mkldnn_fully_connected`.
bool IsFused(std::string_view op);

/// A node of such an operator, as a file has it.
struct FusedNode {
  std::string op;
  std::string name;
  ParameterMap parameters;
  std::vector<NodeEntry> inputs;                  ///< the subgraph's variables, then ranges
  std::vector<std::vector<NodeEntry>> subgraphs;  ///< the outputs of each
};

/// Returns the outputs of the operators for which a fused node stands: those of its subgraph, whose
/// variables are replaced by the node's inputs in order. The last of them has the node's name.
///
/// A quantized node has further inputs, the two ends of the range of each input that consists of
/// codes: of `data`, and of `sum` or of `weight` and `bias`. These inputs are dequantized. Outputs
/// are three, codes and the ends of their range, unless the parameter `enable_float_output` is set:
/// 8 bits in the calibrated range of the parameters, or without one 32 bits that hold codes of
/// 8 bits in the range of the result. Weights that are numbers are not rounded to codes, as MXNet
/// does for speed.
///
/// Throws Error(kDataLoss) if there is not one subgraph with one output, or if the inputs are not
/// as many as the subgraph and whole ranges need.
std::vector<NodeEntry> ReplaceFused(const FusedNode& fused);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_JSON_JSON_FUSED_H_
