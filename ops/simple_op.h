#ifndef TESSERA_OPS_SIMPLE_OP_H_
#define TESSERA_OPS_SIMPLE_OP_H_

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/kernel.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/table.h"

// Stateless operators with one output, each by one statement: of a functor of elements, or of
// functions of arrays. An operator with other parameters, several outputs or states is a property
// and a class (kernel.h).
namespace tessera {

/// An operator of functions of arrays, all of one floating-point type:
///
///     TESSERA_REGISTER_SIMPLE_OP(my_row_sum, SimpleOp{.shape = …, .forward = …, .backward = …})
///         .Describe("…");
///
/// The functions read dptr_, shape_ and type_flag_ of blobs, or make tensors of them:
/// `in_data[0].get<xpu, 2, T>(context.get_stream<xpu>())`. They keep nothing from one call to the
/// next. Threads: calls may overlap.
struct SimpleOp {
  std::vector<std::string> arguments = {"data"};  ///< the names of the inputs
  /// Returns the output's shape for the inputs', all of which are known. Throws
  /// Error(kInvalidArgument) for shapes that do not fit; the caller adds the operator's name. If
  /// null, all inputs and the output have one shape.
  TShape (*shape)(std::span<const TShape> in_shape) = nullptr;
  /// Writes every element of the output.
  void (*forward)(const OpContext& context, std::span<const TBlob> in_data,
                  const TBlob& out_data) = nullptr;
  /// Writes every element of the inputs' gradients. One that is not wanted is an empty blob, with
  /// dptr_ null. If null, the operator has no gradient.
  void (*backward)(const OpContext& context, const TBlob& out_grad, std::span<const TBlob> in_data,
                   const TBlob& out_data, std::span<const TBlob> in_grad) = nullptr;
};

namespace ops_internal {

/// An operator of one or two arrays of one shape, element by element. ElementwiseOp makes it.
struct SimpleElementwiseOp {
  int num_inputs = 1;
  std::optional<double> scalar{};  ///< the default of the parameter `scalar`; none without it
  MapFunction value{};
  /// The gradients of the inputs, of g and the operands of `value`; without operands if there is
  /// no gradient.
  std::array<MapFunction, 2> gradients{};
};

/// Satisfied if Map of a functor takes that many elements.
template <typename F>
concept MapsOne = requires(float x) {
  F::Map(x);
};
template <typename F>
concept MapsTwo = requires(float x) {
  F::Map(x, x);
};
template <typename F>
concept MapsThree = requires(float x) {
  F::Map(x, x, x);
};

template <typename F>
constexpr int MapOperands() {
  static_assert(MapsOne<F> + MapsTwo<F> + MapsThree<F> == 1,
                "Map takes one or two elements, and the scalar if there is kScalar");
  return MapsOne<F> ? 1 : MapsTwo<F> ? 2 : 3;
}

/// Satisfied if a functor has the function, whose name is a template's.
template <typename F>
concept HasDerivative = requires {
  &F::template Derivative<float>;
};
template <typename F>
concept HasLeftDerivative = requires {
  &F::template LeftDerivative<float>;
};
template <typename F>
concept HasRightDerivative = requires {
  &F::template RightDerivative<float>;
};

/// Declares the functor of the gradient g F::derivative(…) under a name.
#define TESSERA_SIMPLE_OP_GRADIENT(name, derivative)         \
  template <typename F>                                      \
  struct name {                                              \
    template <typename T, typename... Operands>              \
    TESSERA_HD static T Map(T g, Operands... operands) {     \
      return static_cast<T>(g * F::derivative(operands...)); \
    }                                                        \
    template <typename T>                                    \
    static constexpr index_t ElementCost() {                 \
      return expr::FunctorCost<F, T>();                      \
    }                                                        \
  }
TESSERA_SIMPLE_OP_GRADIENT(GradientOfOne, Derivative);
TESSERA_SIMPLE_OP_GRADIENT(GradientOfLeft, LeftDerivative);
TESSERA_SIMPLE_OP_GRADIENT(GradientOfRight, RightDerivative);
#undef TESSERA_SIMPLE_OP_GRADIENT

}  // namespace ops_internal

/// Returns the operator that applies the functor F to every element, in place where the caller
/// likes. F has these static function templates, in which T is float or double:
///
///     T Map(T x), T Derivative(T x)                                       one input, `data`
///     T Map(T lhs, T rhs), T LeftDerivative(…), T RightDerivative(…)      `lhs` and `rhs`
///
/// Without a derivative, the input has no gradient. If F has a constant kScalar, the operator has
/// a parameter `scalar` with that default, and each function takes its value as one more, last,
/// argument. A constant kElementCost states the time of expensive functions (tensor/expr/cost.h).
///
/// Types: all. 16-bit types and integers up to 16 bits are computed in float, longer integers in
/// double. Integer results are truncated.
template <typename F>
ops_internal::SimpleElementwiseOp ElementwiseOp() {
  using namespace ops_internal;  // NOLINT: the map driver
  constexpr int kOperands = MapOperands<F>();
  constexpr bool kHasScalar = requires { F::kScalar; };
  constexpr int kInputs = kOperands - kHasScalar;
  static_assert(kInputs == 1 || kInputs == 2, "an element-wise SimpleOp has one or two inputs");
  SimpleElementwiseOp op{.num_inputs = kInputs, .value = MakeMapFunction<F, kOperands>()};
  if constexpr (kHasScalar) op.scalar = F::kScalar;
  if constexpr (kInputs == 1 && HasDerivative<F>) {
    op.gradients[0] = MakeMapFunction<GradientOfOne<F>, kOperands + 1>();
  }
  if constexpr (kInputs == 2 && HasLeftDerivative<F>) {
    op.gradients[0] = MakeMapFunction<GradientOfLeft<F>, kOperands + 1>();
  }
  if constexpr (kInputs == 2 && HasRightDerivative<F>) {
    op.gradients[1] = MakeMapFunction<GradientOfRight<F>, kOperands + 1>();
  }
  return op;
}

namespace ops_internal {

/// Register an operator for the kind of device that its functions were compiled for. Throw
/// Error(kInternal) for a SimpleOp without `forward`.
Registration RegisterSimpleOp(const TablePlace& place, std::string_view name, SimpleOp op);
Registration RegisterSimpleOp(const TablePlace& place, std::string_view name,
                              SimpleElementwiseOp op);

}  // namespace ops_internal
}  // namespace tessera

/// Registers a SimpleOp or an ElementwiseOp at namespace scope, inside an unnamed namespace:
///
///     TESSERA_REGISTER_SIMPLE_OP(my_cube, ElementwiseOp<Cube>()).Describe("The third power.");
#define TESSERA_REGISTER_SIMPLE_OP(name, ...)                                                \
  [[maybe_unused]] const ::tessera::ops_internal::Registration tessera_registration_##name = \
      ::tessera::ops_internal::RegisterSimpleOp(TESSERA_TABLE_PLACE, #name, __VA_ARGS__)

#endif  // TESSERA_OPS_SIMPLE_OP_H_
