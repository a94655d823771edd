// Sums, products, extrema and means over axes: rows of RegisterReductions.
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/ops/reduce/reductions.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: this file is a table of its functions

template <typename T>
TESSERA_HD bool IsNan(T x) {
  return x != x;
}

struct NanSumReducer : SumReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return IsNan(x) ? T(0) : x;
  }
};
struct NanProductReducer : ProductReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return IsNan(x) ? T(1) : x;
  }
};
/// The gradients of an element x, where the result is y and its gradient g.
struct ProductGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T y) {
    return static_cast<T>(g * y / x);
  }
};
struct NanSumGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T) {
    return IsNan(x) ? T(0) : g;
  }
};
struct NanProductGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T y) {
    return IsNan(x) ? T(0) : static_cast<T>(g * y / x);
  }
};
struct SquareSumGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T) {
    return static_cast<T>(T(2) * g * x);
  }
};
/// Every element that equals the extremum has the whole gradient, as in MXNet.
struct ExtremumGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T y) {
    return x == y ? g : T(0);
  }
};

template <typename Reducer, typename Gradient>
ReductionRow Row(std::string_view name, std::string_view description, ReductionGraph graph) {
  return {.name = name,
          .description = description,
          .function = MakeReduceFunction<Reducer>(),
          .gradient = MakeMapFunction<Gradient, 3>(),
          .graph = graph};
}

Term ProductGraph(const Term& g, const Term& x, const Term& y) { return g * y / x; }
Term NanSumGraph(const Term& g, const Term& x, const Term&) { return g * IsEqual(x, x); }
Term NanProductGraph(const Term& g, const Term& x, const Term& y) {
  const Term is_number = IsEqual(x, x);
  return g * y / Apply("where", {is_number, x, Apply("ones_like", {x})}) * is_number;
}
Term SquareSumGraph(const Term& g, const Term& x, const Term&) { return g * x * 2; }
Term ExtremumGraph(const Term& g, const Term& x, const Term& y) { return g * IsEqual(x, y); }

[[maybe_unused]] const bool kRegistered = RegisterReductions(
    TESSERA_TABLE_PLACE,
    {
        {.name = "sum",
         .description = "The sum over axes.",
         .function = MakeReduceFunction<SumReducer>(),
         .is_linear = true,
         .gradient = MakeMapFunction<op::mul, 2>()},
        {.name = "mean",
         .description = "The mean over axes.",
         .function = MakeReduceFunction<SumReducer>(),
         .finish = ReduceFinish::kDivide,
         .is_linear = true,
         .gradient = MakeMapFunction<op::mul, 2>()},
        Row<ProductReducer, ProductGradient>("prod", "The product over axes.", &ProductGraph),
        Row<NanSumReducer, NanSumGradient>("nansum", "The sum over axes, where NaN counts as 0.",
                                           &NanSumGraph),
        Row<NanProductReducer, NanProductGradient>(
            "nanprod", "The product over axes, where NaN counts as 1.", &NanProductGraph),
        Row<SquareSumReducer, SquareSumGradient>("_square_sum", "The sum of squares over axes.",
                                                 &SquareSumGraph),
        Row<MaximumReducer, ExtremumGradient>("max", "The largest element over axes.",
                                              &ExtremumGraph),
        Row<MinimumReducer, ExtremumGradient>("min", "The smallest element over axes.",
                                              &ExtremumGraph),
    });

}  // namespace
}  // namespace tessera
