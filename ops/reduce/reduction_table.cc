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
/// The product of the elements that are not 0. If kSkipsNan, NaN counts as 1.
template <bool kSkipsNan>
struct NonzeroProductReducer : ProductReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x == T(0) || (kSkipsNan && IsNan(x)) ? T(1) : x;
  }
};
struct ZerosReducer : SumReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x == T(0) ? T(1) : T(0);
  }
};
/// The gradient of an element x of a product, which is the product of the others, from the product
/// of the elements that are not 0 and the number of those that are.
struct ProductGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T product, T zeros) {
    if (x == T(0)) return zeros == T(1) ? static_cast<T>(g * product) : T(0);
    return zeros == T(0) ? static_cast<T>(g * product / x) : T(0);
  }
};
struct NanProductGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T product, T zeros) {
    return IsNan(x) ? T(0) : ProductGradient::Map(g, x, product, zeros);
  }
};
/// The gradients of an element x, where the result is y and its gradient g.
struct NonzeroProductGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T y) {
    return x == T(0) ? T(0) : static_cast<T>(g * y / x);
  }
};
struct NanSumGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T) {
    return IsNan(x) ? T(0) : g;
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

template <typename Reducer, typename Gradient, bool kSkipsNan>
ReductionRow ProductRow(std::string_view name, std::string_view description, ReductionGraph graph) {
  return {.name = name,
          .description = description,
          .function = MakeReduceFunction<Reducer>(),
          .is_product = true,
          .gradient = MakeMapFunction<Gradient, 4>(),
          .graph = graph,
          .nonzero_product = MakeReduceFunction<NonzeroProductReducer<kSkipsNan>>(),
          .num_zeros = MakeReduceFunction<ZerosReducer>()};
}

Term NonzeroProductGraph(const Term& g, const Term& x, const Term& y, const ReducedTerm&) {
  const Term is_zero = IsEqual(x, 0);
  return g * y / Apply("where", {is_zero, 1, x}) * (1 - is_zero);
}
/// A product is that of its elements that are not 0 times a polynomial of those that are: 1 for
/// none, s for one, (s^2 - q) / 2 for two, with their sum s and the sum q of their squares. These
/// are 0, but their derivatives are not. The third derivative at three zeros is left out.
Term ProductGraph(const Term& g, const Term& x, const Term&, const ReducedTerm& reduced) {
  const Term is_zero = IsEqual(x, 0), zero = Apply("where", {is_zero, x, 0});
  const Term product = reduced("_nonzero_product", x), count = reduced("sum", is_zero);
  const Term s = reduced("sum", zero), q = reduced("sum", zero * zero);
  const Term one = IsEqual(count, 1), two = IsEqual(count, 2);
  const Term others = (IsEqual(count, 0) + one * s + two * 0.5 * (s * s - q)) * (1 - is_zero) /
                      Apply("where", {is_zero, 1, x});
  return g * product * (others + is_zero * (one + two * (s - zero)));
}
Term NanSumGraph(const Term& g, const Term& x, const Term&, const ReducedTerm&) {
  return g * IsEqual(x, x);
}
Term NanProductGraph(const Term& g, const Term& x, const Term& y, const ReducedTerm& reduced) {
  const Term is_number = IsEqual(x, x);
  return ProductGraph(g, Apply("where", {is_number, x, 1}), y, reduced) * is_number;
}
Term SquareSumGraph(const Term& g, const Term& x, const Term&, const ReducedTerm&) {
  return g * x * 2;
}
Term ExtremumGraph(const Term& g, const Term& x, const Term& y, const ReducedTerm&) {
  return g * IsEqual(x, y);
}

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
        ProductRow<ProductReducer, ProductGradient, false>("prod", "The product over axes.",
                                                           &ProductGraph),
        Row<NanSumReducer, NanSumGradient>("nansum", "The sum over axes, where NaN counts as 0.",
                                           &NanSumGraph),
        ProductRow<NanProductReducer, NanProductGradient, true>(
            "nanprod", "The product over axes, where NaN counts as 1.", &NanProductGraph),
        Row<NonzeroProductReducer<false>, NonzeroProductGradient>(
            "_nonzero_product", "The product over axes of the elements that are not 0.",
            &NonzeroProductGraph),
        Row<SquareSumReducer, SquareSumGradient>("_square_sum", "The sum of squares over axes.",
                                                 &SquareSumGraph),
        Row<MaximumReducer, ExtremumGradient>("max", "The largest element over axes.",
                                              &ExtremumGraph),
        Row<MinimumReducer, ExtremumGradient>("min", "The smallest element over axes.",
                                              &ExtremumGraph),
    });

}  // namespace
}  // namespace tessera
