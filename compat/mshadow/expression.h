#ifndef MSHADOW_EXPRESSION_H_
#define MSHADOW_EXPRESSION_H_

// Expressions: the operators + - * / are found beside their operands; the rest has names here.

#include <type_traits>

#include "mshadow/base.h"
#include "tessera/tensor/tensor.h"

namespace mshadow::expr {

using tessera::expr::dot;
using tessera::expr::F;
using tessera::expr::ScalarExp;
using tessera::expr::tcast;
using tessera::expr::TransposeExp;

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

/// ShapeCheck<dim, E>::Check(e) is the shape of an expression.
template <int dim, typename E>
struct ShapeCheck {
  static tessera::Shape<dim> Check(const E& e) { return e.shape(); }
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

}  // namespace mshadow::expr

#endif  // MSHADOW_EXPRESSION_H_
