#ifndef TESSERA_GRAPH_MAKE_LOOP_H_
#define TESSERA_GRAPH_MAKE_LOOP_H_

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/graph/loop_property.h"
#include "tessera/graph/node.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {

/// Returns the number of graphs that an operator runs: 1 for _foreach (the step), 2 for _while_loop
/// (condition and step), 3 for _cond (condition, and the graphs for true and false), 1 for
/// _CachedOp, 0 for all others. A node has the outputs of these graphs in Node::subgraphs.
int NumLoopGraphs(std::string_view op);

/// Returns the property of an operator that runs graphs, given by their outputs. The parameters are
/// MXNet's. `num_args` counts the graphs and the node's inputs; the `_locs` say which variable of a
/// graph, in the order of IndexedGraph::variables(), stands for which input:
///
/// - _foreach: `in_data_locs`, `in_state_locs` and `remain_locs` are the variables that stand for
///   the node's inputs, which are the data, the states and the captured values in this order. The
///   graph has `num_out_data` results, then the states: `num_outputs` outputs.
/// - _while_loop: `cond_input_locs` and `func_input_locs` are the inputs that the variables of the
///   two graphs stand for, and `func_var_locs` the variables of the step that stand for states. The
///   step's outputs are those of _foreach; `max_iterations` limits the steps.
/// - _cond: `cond_input_locs`, `then_input_locs` and `else_input_locs` are the inputs that the
///   variables of the three graphs stand for. Both branches have `num_outputs` outputs.
/// - _CachedOp, a part of a graph: each variable stands for the input at its position. Parameters
///   are kept, but none is read.
///
/// Throws Error(kInvalidArgument) that names the operator, the parameter, and what was found and
/// expected. A graph without a gradient is an error for those alone who want the gradient.
std::shared_ptr<const LoopProperty> MakeLoop(std::string_view op, const ParameterMap& parameters,
                                             const std::vector<std::vector<NodeEntry>>& graphs);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_MAKE_LOOP_H_
