#ifndef TESSERA_GRAPH_COMPILE_H_
#define TESSERA_GRAPH_COMPILE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/constants.h"
#include "tessera/graph/program.h"
#include "tessera/ops/operator.h"

namespace tessera::graph {

/// The use that is made of a compiled graph.
struct CompileOptions {
  /// The function that errors name.
  std::string_view caller = "Compile";
  /// The device of steps and values, unless `groups` gives them others.
  Device device = Device::Cpu();
  /// The devices of nodes by their attribute `ctx_group`, and those of arrays that exist by the
  /// variables' names; see PlaceDevices. Without groups, everything lies on `device`.
  std::map<std::string, Device> groups = {};
  std::map<std::string, Device> variables = {};
  /// True if the graph may be called in training mode (OpContext::is_train). A graph with gradients
  /// is treated as if it may.
  bool training = false;
  /// True if the caller computes CompiledGraph::constants and parameters. If not, both are empty
  /// and weights are not folded. Has no effect with groups.
  bool splits = false;
  /// Computes results and gradients that nothing reads, too, to be looked at. Without groups, all
  /// nodes of the graph then stay as they are.
  bool keeps_unread = false;
  /// Returns a graph that is not complete, in place of an error, if inference leaves a shape or a
  /// type unknown.
  bool may_be_incomplete = false;
  /// Joins element-wise steps, also with the layer before them (FuseMaps), and in training
  /// BatchNorm and relu (JoinRelu), if FusionIsOn. Has no effect with `keeps_unread` or on a graph
  /// that is compiled without passes.
  bool fuses = false;
  /// Lets the gradient recompute results of cheap steps, as the setting TESSERA_RECOMPUTE does, and
  /// not only those of nodes that ask for it (RecomputeMarked). Nothing is recomputed with
  /// `keeps_unread`.
  bool recomputes = false;
  /// False if auxiliary states may change between a run outside of training and its gradient, so
  /// that BatchNorm cannot be repeated there.
  bool repeats_mutating = true;
};

/// A graph and its gradients as steps: everything that depends on neither arrays nor operators'
/// implementations. PlanMemory plans the memory of the steps' values.
struct CompiledGraph {
  /// Whether all shapes and types are known. If not (CompileOptions::may_be_incomplete), there is
  /// nothing else.
  bool complete = false;
  /// The steps. Each variable of the given graph has a value with its shape, type and device, also
  /// one that no step needs.
  Program program;
  /// The values of ValueKind::kFixed, constants first: see PreparedGraph.
  std::vector<FixedValue> constants = {}, parameters = {};
};

/// Compiles a graph: infers shapes and types, adds gradients, runs the passes, and makes a program
/// of the result.
///
/// `shapes` and `types` are those of variables that are known, by name; the others are inferred,
/// and a type that nothing determines is float32. `grad_requests` has one entry for each argument
/// of IndexedGraph(heads); kNullOp stands for no gradient. A graph in which two variables have one
/// name is compiled without passes, which know variables by name.
///
/// Throws Error(kInvalidArgument): for a number of requests that does not fit; for the name of a
/// variable that does not exist; for a shape or type that is not determined, or that contradicts
/// another one, with the node; for a group without a device; and for a gradient that is requested
/// through an operator without one. Throws Error(kNotFound) for operators that are not registered.
/// Takes time linear in the graph, as far as inference does.
CompiledGraph Compile(const std::vector<NodeEntry>& heads,
                      const std::map<std::string, TShape>& shapes,
                      const std::map<std::string, DType>& types,
                      const std::vector<OpReqType>& grad_requests,
                      const CompileOptions& options = {});

/// Shapes and types of all variables of a graph, in the order of IndexedGraph::variables(). One may
/// be unknown.
struct KnownVariables {
  std::vector<TShape> shapes;  ///< one for each variable
  std::vector<DType> types;    ///< one for each variable
};

/// Compiles a graph whose variables may have one name. A type that nothing determines stays
/// unknown.
CompiledGraph Compile(const std::vector<NodeEntry>& heads, const KnownVariables& known,
                      const std::vector<OpReqType>& grad_requests,
                      const CompileOptions& options = {});

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_COMPILE_H_
