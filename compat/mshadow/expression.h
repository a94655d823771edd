#ifndef MSHADOW_EXPRESSION_H_
#define MSHADOW_EXPRESSION_H_

// mshadow's names for expressions. The operators + - * / need none, because they are found beside
// their operands.

#include <tuple>
#include <type_traits>

#include "mshadow/base.h"
#include "tessera/tensor/tensor.h"

namespace mshadow::expr {

using tessera::expr::dot;
using tessera::expr::F;
using tessera::expr::scalar;
using tessera::expr::ScalarExp;
using tessera::expr::tcast;

/// The result types of operators, F, tcast, T() and dot, with mshadow's names and arguments, for
/// functions of a program that state them:
///
///     template <typename TA, typename TB, typename DType, int ta, int tb>
///     BinaryMapExp<my_op, TA, TB, DType, (ta | tb | type::kMapper)> my(
///         const Exp<TA, DType, ta>& a, const Exp<TB, DType, tb>& b) {
///       return MakeExp<my_op>(a, b);
///     }
///
/// The last arguments follow from the others and are ignored.
template <typename OP, typename TA, typename DType = typename TA::value_type, int etype = 0>
using UnaryMapExp = tessera::expr::UnaryMapExp<OP, tessera::expr::OperandNode<TA>>;
template <typename OP, typename TA, typename TB, typename DType = typename TA::value_type,
          int etype = 0>
using BinaryMapExp =
    tessera::expr::BinaryMapExp<OP, tessera::expr::OperandNode<TA>, tessera::expr::OperandNode<TB>>;
template <typename OP, typename TA, typename TB, typename TC,
          typename DType = typename TA::value_type, int etype = 0>
using TernaryMapExp =
    tessera::expr::TernaryMapExp<OP, tessera::expr::OperandNode<TA>, tessera::expr::OperandNode<TB>,
                                 tessera::expr::OperandNode<TC>>;
template <typename DstDType, typename SrcDType, typename EType, int etype = 0>
using TypecastExp = tessera::expr::TypecastExp<DstDType, tessera::expr::OperandNode<EType>>;
template <typename EType, typename DType = typename EType::value_type>
using TransposeExp = tessera::expr::TransposeExp<tessera::expr::OperandNode<EType>>;
template <typename TA, typename TB, bool ltrans, bool rtrans,
          typename DType = typename TA::value_type>
using DotExp = tessera::expr::DotExp<tessera::expr::OperandNode<TA>, tessera::expr::OperandNode<TB>,
                                     ltrans, rtrans>;

/// Returns F<OP>(…), under an older name.
template <typename OP, typename... E>
inline auto MakeExp(const E&... operands) {
  return F<OP>(operands...);
}

/// The parameter type of functions of expressions: `template <typename E, typename DType, int
/// etype> void f(const Exp<E, DType, etype>& e)`. e.self() is the expression.
using tessera::expr::Exp;

/// The kinds of expressions, the third argument of Exp.
namespace type {
/// The expression names memory, or computes each element from elements at the same index, from
/// other elements, or all elements at once.
constexpr int kRValue = tessera::expr::form::kStored;
constexpr int kMapper = tessera::expr::form::kMapped;
constexpr int kChainer = tessera::expr::form::kMoved;
constexpr int kComplex = tessera::expr::form::kWhole;
}  // namespace type

/// The base of expressions that name memory.
template <typename Container, typename DType>
using RValueExp = Exp<Container, DType, type::kRValue>;

/// Returns, as ShapeCheck<dim, E>::Check(e), the shape of an expression. It is all 0 for an
/// expression without dimensions, which fits every shape.
template <int dim, typename E>
struct ShapeCheck {
  static tessera::Shape<dim> Check(const E& e) {
    if constexpr (E::kRank == 0) {
      return tessera::Shape<dim>{};
    } else {
      return e.shape();
    }
  }
};

/// Tells the number of an expression's dimensions, and the device of its operands (all bits set for
/// any device).
template <typename E>
struct ExpInfo {
  static constexpr int kDim = E::kRank;
  static constexpr int kDevMask = [] {
    if constexpr (std::is_void_v<tessera::expr::DeviceOf<E>>) {
      return 0xffff;
    } else {
      return tessera::expr::DeviceOf<E>::kDevMask;
    }
  }();
};

/// Tells whether an expression can be assigned (kMapPass) or reduced (kRedPass) to a tensor on
/// Device with `dim` dimensions. Element types are part of the expressions.
template <typename Device, int dim, typename DType, typename E>
struct TypeCheck {
  static constexpr int kExpDim = ExpInfo<E>::kDim;
  static constexpr bool kDevPass = (ExpInfo<E>::kDevMask & Device::kDevMask) != 0;
  static constexpr bool kMapPass = (kExpDim == 0 || kExpDim == dim) && kDevPass;
  static constexpr bool kRedPass = (kExpDim > dim) && kDevPass;
};

/// Has functions Error_…(), which compile only if the condition is true.
template <bool kPass>
struct TypeCheckPass {
  static void Error_All_Tensor_in_Exp_Must_Have_Same_Type() {
    static_assert(kPass, "all tensors of an expression must have one element type and device");
  }
  static void Error_TypeCheck_Not_Pass_For_Reduce_Exp() {
    static_assert(kPass, "the expression cannot be reduced to this type");
  }
  static void Error_Expression_Does_Not_Meet_Dimension_Req() {
    static_assert(kPass, "the expression has a number of dimensions that does not fit here");
  }
};

namespace expr_internal {

template <typename Device, typename E>
tessera::Stream<Device>* StreamOf(const E& e) {
  if constexpr (!std::is_same_v<tessera::expr::DeviceOf<E>, Device>) {
    return nullptr;
  } else if constexpr (requires { e.stream_; }) {
    return e.stream_;
  } else {
    tessera::Stream<Device>* stream = nullptr;
    std::apply(
        [&](const auto&... operand) {
          ((stream = stream == nullptr ? StreamOf<Device>(operand) : stream), ...);
        },
        tessera::expr::OperandsOf(e));
    return stream;
  }
}

}  // namespace expr_internal

/// Returns, as StreamInfo<Device, E>::Get(e), the stream of the first tensor in an expression that
/// has one, or null.
template <typename Device, typename E>
struct StreamInfo {
  static tessera::Stream<Device>* Get(const E& e) {
    return expr_internal::StreamOf<Device>(tessera::expr::AsNode(e));
  }
};

}  // namespace mshadow::expr

#endif  // MSHADOW_EXPRESSION_H_
