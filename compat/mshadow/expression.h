#ifndef MSHADOW_EXPRESSION_H_
#define MSHADOW_EXPRESSION_H_

// Expressions: the operators + - * / are found beside their operands; the rest has names here.

#include <tuple>
#include <type_traits>

#include "mshadow/base.h"
#include "tessera/tensor/tensor.h"

namespace mshadow::expr {

using tessera::expr::dot;
using tessera::expr::F;
using tessera::expr::ScalarExp;
using tessera::expr::tcast;

/// What operators, F, tcast, T() and dot return, by mshadow's names and arguments, for functions of
/// a program that state it:
///
///     template <typename TA, typename TB, typename DType, int ta, int tb>
///     BinaryMapExp<my_op, TA, TB, DType, (ta | tb | type::kMapper)> my(
///         const Exp<TA, DType, ta>& a, const Exp<TB, DType, tb>& b) {
///       return MakeExp<my_op>(a, b);
///     }
///
/// Their last arguments say what the others say already.
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

/// F<OP>(…) under an older name.
template <typename OP, typename... E>
inline auto MakeExp(const E&... operands) {
  return F<OP>(operands...);
}

/// A number as an expression, for F<op>(scalar(1.0f), a).
template <typename DType>
inline ScalarExp<DType> scalar(DType value) {
  return ScalarExp<DType>(value);
}

/// What a function for expressions takes: `template <typename E, typename DType, int etype> void
/// f(const Exp<E, DType, etype>& e)`; e.self() is the expression.
using tessera::expr::Exp;

/// The kinds of expressions, the third argument of Exp.
namespace type {
/// It names memory; computes each element from those at the same place; from others; or all of them
/// at once.
constexpr int kRValue = tessera::expr::form::kStored;
constexpr int kMapper = tessera::expr::form::kMapped;
constexpr int kChainer = tessera::expr::form::kMoved;
constexpr int kComplex = tessera::expr::form::kWhole;
}  // namespace type

/// Expressions that name memory.
template <typename Container, typename DType>
using RValueExp = Exp<Container, DType, type::kRValue>;

/// ShapeCheck<dim, E>::Check(e) is the shape of an expression; all 0 for one without dimensions,
/// which fits every shape.
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

/// How many dimensions an expression has, and where its operands lie (all bits for anywhere).
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

/// Whether an expression can be assigned (kMapPass) or reduced (kRedPass) to a tensor on Device
/// with `dim` dimensions. Element types are part of the expressions.
template <typename Device, int dim, typename DType, typename E>
struct TypeCheck {
  static constexpr int kExpDim = ExpInfo<E>::kDim;
  static constexpr bool kDevPass = (ExpInfo<E>::kDevMask & Device::kDevMask) != 0;
  static constexpr bool kMapPass = (kExpDim == 0 || kExpDim == dim) && kDevPass;
  static constexpr bool kRedPass = (kExpDim > dim) && kDevPass;
};

/// TypeCheckPass<condition>::Error_…() compiles where the condition holds.
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

/// StreamInfo<Device, E>::Get(e) is the stream of the expression's first tensor that has one, or
/// null.
template <typename Device, typename E>
struct StreamInfo {
  static tessera::Stream<Device>* Get(const E& e) {
    return expr_internal::StreamOf<Device>(tessera::expr::AsNode(e));
  }
};

}  // namespace mshadow::expr

#endif  // MSHADOW_EXPRESSION_H_
