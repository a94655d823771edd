#ifndef TESSERA_GRAPH_PASSES_H_
#define TESSERA_GRAPH_PASSES_H_

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/dump.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/constants.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/passes/placement.h"

namespace tessera::graph {

/// The use that is made of a graph, and the facts about its variables.
struct PassOptions {
  /// The shape and the element type of every variable, by name: those that inference has found for
  /// the given graph.
  std::map<std::string, TShape> shapes;
  std::map<std::string, DType> types;
  /// True if the graph may be called in training mode (OpContext::is_train). A graph with gradients
  /// is treated as if it may.
  bool training = false;
  std::vector<NodeEntry> wanted = {};           ///< the variables whose gradients are wanted
  GradientForm form = GradientForm::kBackward;  ///< the form of their gradients
  /// True if the caller computes PreparedGraph::constants and parameters. If not, both are empty
  /// and weights are not folded.
  bool splits = true;
  bool fuses = false;  ///< joins nodes for training
  /// The devices. Their `heads` is ignored: outputs stay where they are computed.
  PlacementOptions placement = {};
};

/// A graph for a program.
struct PreparedGraph {
  std::vector<NodeEntry> heads;           ///< the outputs, in the given order
  std::vector<NodeEntry> head_gradients;  ///< as in Gradients; empty if no gradient is wanted
  std::vector<NodeEntry> gradients;       ///< as in Gradients, on the devices of the variables
  std::vector<FixedValue> constants;      ///< values that depend on no variable: computed once
  /// Values that depend on constants and on variables with weights: computed again only after one
  /// of these variables was written.
  std::vector<FixedValue> parameters;
  /// The device of every node of `heads` and `gradients`. It is empty if no groups are given, and
  /// all nodes lie on one device.
  std::unordered_map<const Node*, Device> devices;
  /// For the passes over the program that is made of the graph; none unless RunPasses made it.
  std::optional<GraphDump> dump;
};

/// Runs the passes that a graph needs before a program is built for it, in this order, and dumps
/// the graph after each of them (GraphDump).
///
/// - inference: simplify, common_subexpressions, fold_batch_norm, dead_nodes, constants,
///   parameters, placement;
/// - training: common_subexpressions, join_relu if nodes are joined, constants, gradient,
///   common_subexpressions, dead_nodes, placement.
///
/// If groups of devices are given, nothing is split off or folded. Variables of the graph stay the
/// same nodes, but some may not be needed any more, and moving averages of folded BatchNorm nodes
/// become arguments; look them up by node or name. Operators without a registration, and what the
/// passes refuse, throw. The time is linear, as far as that of inference is.
PreparedGraph RunPasses(const std::vector<NodeEntry>& heads, const PassOptions& options);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_H_
