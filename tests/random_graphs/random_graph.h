#ifndef TESSERA_TESTS_RANDOM_GRAPHS_RANDOM_GRAPH_H_
#define TESSERA_TESTS_RANDOM_GRAPHS_RANDOM_GRAPH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

/// A graph of registered operators, described apart from the components that run it. Values are
/// numbered: first the inputs, then the outputs of each node, hidden ones included.
struct RandomGraph {
  /// The role of an input.
  enum class Role {
    kArgument,  ///< an array of floating-point numbers
    kIndex,     ///< positions, which have no gradient
    kState,     ///< an auxiliary state that its node changes
  };
  /// An array that the graph is given.
  struct Input {
    std::string name;
    TShape shape;
    Role role = Role::kArgument;
    double low = -1, high = 1;     ///< the range of its values; positions are integers below `high`
    OpReqType request = kWriteTo;  ///< of its gradient
  };
  /// A call of an operator.
  struct Node {
    std::string op;
    std::string name;
    ParameterMap parameters;
    std::vector<int> inputs;  ///< values
    int first_output = 0;     ///< the value of output 0
    int num_outputs = 1;      ///< hidden ones included
    int num_visible = 1;      ///< outputs that other nodes may read
  };

  uint64_t seed = 0;  ///< the number that the graph and its contents follow from
  DType dtype = DType::kFloat32;
  std::vector<Input> inputs;
  std::vector<Node> nodes;     ///< depth first from the heads, as IndexedGraph has them
  std::vector<TShape> shapes;  ///< of every value
  std::vector<int> heads;      ///< values, each of which depends on an input with a gradient
  bool is_smooth = true;       ///< whether no operator has a kink, as relu and max have
  bool is_derivative = true;   ///< whether gradients are derivatives, unlike BlockGrad's
  bool has_sums = false;       ///< whether a gradient is a sum, because a value is read twice
  bool normalizes = false;     ///< whether a BatchNorm may be folded for inference

  /// Returns the contents of input `i`, which follow from the seed.
  std::vector<double> Contents(size_t i) const;
  /// Returns the gradient of head `i`, which follows from the seed.
  std::vector<double> HeadGradient(size_t i) const;
  /// Returns the old contents of input `i`'s gradient, which a request kAddTo adds to.
  std::vector<double> OldGradient(size_t i) const;

  /// Returns the graph as a Symbol with the same names.
  Symbol ToSymbol() const;
  /// Returns the graph as text, one line for each input, node and head.
  std::string ToString() const;
};

/// Returns the random graph of a seed: 3 to 24 operators over small arrays, whose values stay in
/// the range of a few units.
RandomGraph MakeRandomGraph(uint64_t seed);

}  // namespace tessera

#endif  // TESSERA_TESTS_RANDOM_GRAPHS_RANDOM_GRAPH_H_
