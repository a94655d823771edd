// Shapes that variables state, of every operator: what an operator accepts when it is given, it
// accepts when it is stated, also if the shape of its data is known last.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/node.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::graph {
namespace {

using ops_testing::OperatorCase;
using ops_testing::OperatorRow;
using ops_testing::OperatorRows;

/// Returns whether `__shape__` can hold the shape, whose extents of 0 are unknown there.
bool CanBeStated(const TShape& shape) {
  return shape.ndim() > 0 && std::count(shape.begin(), shape.end(), 0) == 0;
}

/// Returns an operator's node whose first input gets its shape from a node behind it: inference
/// visits the operator before it knows the shape of the data. `is_stated` tells which other inputs
/// state their shapes; the remaining ones are given by name, in `known`.
template <typename IsStated>
std::vector<NodeEntry> DataLast(const OperatorRow& row, const OperatorCase& test_case,
                                const IsStated& is_stated, std::map<std::string, TShape>* known) {
  const NodeEntry op = {
      MakeNode(OperatorRegistry::Get().Create(row.name, test_case.parameters), "op", {}).node, 0};
  const std::vector<NodeEntry>& inputs = op.node->inputs;
  for (size_t i = 1; i < inputs.size(); ++i) {
    const TShape& shape = test_case.inputs[i];
    if (is_stated(i) && CanBeStated(shape)) {
      inputs[i].node->attributes.Set("__shape__", shape.ToString());
    } else {
      known->emplace(inputs[i].node->name, shape);
    }
  }
  known->emplace("shape_of_data", test_case.inputs[0]);
  return {op, MakeNode(OperatorRegistry::Get().Create("elemwise_add", {}), "behind",
                       {inputs[0], MakeVariable("shape_of_data")})};
}

TEST(StatedShapesTest, EveryInputsShapeMayBeStatedAndTheDatasBeKnownLast) {
  for (const OperatorRow& row : OperatorRows()) {
    for (const OperatorCase& test_case : row.cases) {
      const size_t count = test_case.inputs.size();
      // One input in turns, and all of them in turn 0.
      for (size_t turn = 0; turn < count; ++turn) {
        SCOPED_TRACE(row.name + ", " + test_case.name + ", turn " + std::to_string(turn));
        try {
          std::map<std::string, TShape> known;
          const std::vector<NodeEntry> heads = DataLast(
              row, test_case, [turn](size_t i) { return turn == 0 || i == turn; }, &known);
          const IndexedGraph graph(heads);
          const GraphShapes shapes = InferShapes(graph, known);
          for (size_t i = 0; i < count; ++i) {
            const int entry = graph.EntryId(heads[0].node->inputs[i]);
            EXPECT_EQ(shapes.entries[static_cast<size_t>(entry)], test_case.inputs[i]);
          }
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::graph
