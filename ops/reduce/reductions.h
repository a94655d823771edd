#ifndef TESSERA_OPS_REDUCE_REDUCTIONS_H_
#define TESSERA_OPS_REDUCE_REDUCTIONS_H_

#include <string_view>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/reduce.h"
#include "tessera/ops/table.h"

// The family of reductions over the parameters axis, keepdims and exclude.
namespace tessera::ops_internal {

/// The formula of an element's gradient, from the element x, the result y and its gradient g.
using ReductionGraph = Term (*)(const Term& g, const Term& x, const Term& y);

/// One operator of the family.
struct ReductionRow {
  std::string_view name;
  std::string_view description;  ///< one sentence of documentation
  ReduceFunction function;
  ReduceFinish finish = ReduceFinish::kNone;
  /// The gradient of an element: f(g, 1 / count) if it is linear, else f(g, element, result), where
  /// count is 1 unless finish is kDivide.
  bool is_linear = false;
  MapFunction gradient;
  /// The gradient as a graph; null if there is none. A linear one needs none.
  ReductionGraph graph = nullptr;
};

/// Registers operators from a table whose functions were compiled for that kind of device, and
/// returns true. The table for the CPU also registers the operators' properties.
bool RegisterReductions(TablePlace place, std::vector<ReductionRow> rows);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_REDUCE_REDUCTIONS_H_
