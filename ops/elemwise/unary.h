#ifndef TESSERA_OPS_ELEMWISE_UNARY_H_
#define TESSERA_OPS_ELEMWISE_UNARY_H_

#include <string_view>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/table.h"

// The family of operators out = f(data), element by element, on arrays of every shape and type.
namespace tessera::ops_internal {

/// The values that a gradient function takes: the head gradient g, then one more.
enum class GradientReads {
  kNothing,  ///< the gradient is 0
  kHead,     ///< f(g)
  kInput,    ///< f(g, data)
  kOutput,   ///< f(g, output)
};

/// The formula of a gradient.
using UnaryGraph = Term (*)(const Term& g, const Term& x, const Term& y);

/// One operator of the family.
struct UnaryRow {
  std::string_view name;
  std::string_view description;  ///< one sentence of documentation
  MapFunction value;
  GradientReads gradient_reads = GradientReads::kNothing;
  MapFunction gradient{};  ///< of the values that gradient_reads names
  /// Returns the gradient as a graph, from the head gradient g, the input x and the output y; null
  /// if there is none. A gradient of 0 needs none.
  UnaryGraph graph = nullptr;
};

/// Registers operators from a table whose functions were compiled for that kind of device, and
/// returns true. The table for the CPU also registers the operators' properties.
bool RegisterUnary(TablePlace place, std::vector<UnaryRow> rows);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ELEMWISE_UNARY_H_
