#ifndef TESSERA_TESTS_GRADIENTS_GRAPH_VALUES_H_
#define TESSERA_TESTS_GRADIENTS_GRAPH_VALUES_H_

#include <map>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/graph/node.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::gradient_testing {

/// The value of a variable.
struct FedValue {
  ops_testing::Values values;
  DType dtype = DType::kFloat64;
};
/// Values of variables, by name.
using Feed = std::map<std::string, FedValue>;

/// Returns the values of `heads`, computed node by node on the CPU. Random operators draw the same
/// numbers in each call, and no variable changes. `feed` has all variables, and may have others.
/// Nodes of Backward need the node that they belong to in the graph.
std::vector<ops_testing::Values> Evaluate(const std::vector<graph::NodeEntry>& heads,
                                          const Feed& feed, bool is_train = true);

/// Returns whether the heads and all floating-point values of the graph have type float64.
bool IsInDouble(const std::vector<graph::NodeEntry>& heads, const Feed& feed);

/// Returns whether the graph has a node of Backward.
bool HasBackwardNode(const std::vector<graph::NodeEntry>& heads);

}  // namespace tessera::gradient_testing

#endif  // TESSERA_TESTS_GRADIENTS_GRAPH_VALUES_H_
