#ifndef TESSERA_OPS_REDUCE_REDUCTIONS_H_
#define TESSERA_OPS_REDUCE_REDUCTIONS_H_

#include <functional>
#include <string_view>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/reduce.h"
#include "tessera/ops/table.h"

// The family of reductions over the parameters axis, keepdims and exclude.
namespace tessera::ops_internal {

/// Returns, for each element, the reduction by a registered operator of the family of the elements
/// of `term` that it is reduced with.
using ReducedTerm = std::function<Term(std::string_view op, const Term& term)>;
/// The formula of an element's gradient, from the element x, the result y and its gradient g.
using ReductionGraph = Term (*)(const Term& g, const Term& x, const Term& y,
                                const ReducedTerm& reduced);

/// One operator of the family.
struct ReductionRow {
  std::string_view name;
  std::string_view description;  ///< one sentence of documentation
  ReduceFunction function;
  ReduceFinish finish = ReduceFinish::kNone;
  /// The gradient of an element: f(g, 1 / count) if it is linear, else f(g, element, result), where
  /// count is 1 unless finish is kDivide. For a product it is f(g, element, product, zeros), with
  /// the product of the elements that are not 0 and the number of those that are.
  bool is_linear = false;
  bool is_product = false;
  MapFunction gradient;
  /// The gradient as a graph; null if there is none. A linear one needs none.
  ReductionGraph graph = nullptr;
  /// For a product, the reducers to the product of the elements that are not 0 and to the number of
  /// those that are.
  ReduceFunction nonzero_product = {};
  ReduceFunction num_zeros = {};
};

/// Registers operators from a table whose functions were compiled for that kind of device, and
/// returns true. The table for the CPU also registers the operators' properties.
bool RegisterReductions(TablePlace place, std::vector<ReductionRow> rows);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_REDUCE_REDUCTIONS_H_
