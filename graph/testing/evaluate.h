#ifndef TESSERA_GRAPH_TESTING_EVALUATE_H_
#define TESSERA_GRAPH_TESTING_EVALUATE_H_

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/graph/node.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph_testing {

/// A dense array on the host.
struct Array {
  TShape shape;
  DType dtype = DType::kFloat32;
  std::vector<std::byte> bytes = {};

  /// Returns an array of the given elements.
  template <typename T = float>
  static Array Of(const TShape& shape, const std::vector<T>& values) {
    Array array{shape, DTypeOf<T>::value, std::vector<std::byte>(values.size() * sizeof(T))};
    if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
    return array;
  }
  /// Returns the elements. Requires: T is the element type.
  template <typename T = float>
  std::vector<T> Values() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  friend bool operator==(const Array&, const Array&) = default;
};

/// Arrays by the names of variables.
using Arrays = std::map<std::string, Array>;

/// Returns float32 elements between -2 and 2 that differ for each seed.
Array RandomArray(const TShape& shape, unsigned seed);

/// Returns an operator's node, whose missing inputs are variables.
graph::NodeEntry Apply(std::string_view op, const std::string& name,
                       const std::vector<graph::NodeEntry>& inputs,
                       const ParameterMap& parameters = {});

/// Returns "op name" of every operator of a graph, in order.
std::vector<std::string> Operators(const std::vector<graph::NodeEntry>& heads);
/// Returns the names of the variables of a graph, in order.
std::vector<std::string> Variables(const std::vector<graph::NodeEntry>& heads);

/// Runs the operators of a graph one by one, on the host, and returns its outputs. `variables` has
/// an array for each variable, besides others, and receives the changes that operators make. Throws
/// what inference and operators throw.
std::vector<Array> Evaluate(const std::vector<graph::NodeEntry>& heads, Arrays* variables,
                            bool is_train = false);
std::vector<Array> Evaluate(const std::vector<graph::NodeEntry>& heads, Arrays variables,
                            bool is_train = false);

/// Checks that two lists of float32 arrays have one shape and elements that differ by at most
/// `tolerance`, relative to the larger one or to 1.
void ExpectNear(const std::vector<Array>& actual, const std::vector<Array>& expected,
                double tolerance);

}  // namespace tessera::graph_testing

#endif  // TESSERA_GRAPH_TESTING_EVALUATE_H_
