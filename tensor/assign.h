#ifndef TESSERA_TENSOR_ASSIGN_H_
#define TESSERA_TENSOR_ASSIGN_H_

#include "tessera/tensor/evaluator_cpu.h"
#include "tessera/tensor/evaluator_cuda.h"
#include "tessera/tensor/expression.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Names the instruction set in the symbols of templates that live outside the inline namespace.
struct IsaTag {};

/// The base of expressions that are computed as a whole (a product, a reduction) and therefore
/// stand alone on the right-hand side, at most scaled. Derived offers `template <typename Saver,
/// typename Dst> void AssignTo(const Dst& dst) const` and a `scale`.
template <typename Derived>
struct ComplexExp {
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

template <typename E>
concept ComplexExpression = std::derived_from<E, ComplexExp<E>>;

/// What may stand on the right of = += -= *= /= beside a tensor of type Dst: a number, an
/// expression of its element type, rank and device (convert with tcast<T>(), reshape, broadcast or
/// Flat… what is not), or a product or reduction that gives such a tensor.
template <typename E, typename Dst>
concept AssignableTo = Scalar<E> || MatchingExpressions<E, Dst> ||
    (ComplexExpression<E>&& requires(const E& e, const Dst& dst) {
      e.template AssignTo<sv::saveto>(dst);
    });

/// Evaluates `e` into `dst`, combining with the old values as Saver says.
template <typename Saver, typename Device, int N, typename T, AssignableTo<Tensor<Device, N, T>> E>
void Assign(const Tensor<Device, N, T>& dst, const E& e) {
  if constexpr (ComplexExpression<E>) {
    e.template AssignTo<Saver>(dst);
  } else if constexpr (Scalar<E>) {
    Evaluate<Saver>(dst, ScalarExp<T>(static_cast<T>(e)));
  } else {
    if constexpr (E::kRank > 0) {
      if (e.shape() != dst.shape_) {
        throw InvalidArgument("assignment: the expression has shape ", e.shape(),
                              " but the destination has shape ", dst.shape_);
      }
    }
    Evaluate<Saver>(dst, e.self());
  }
}

template <Scalar S, ComplexExpression E>
E operator*(S scale, E e) {
  e.scale *= static_cast<decltype(e.scale)>(scale);
  return e;
}
template <ComplexExpression E, Scalar S>
E operator*(E e, S scale) {
  return scale * e;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_ASSIGN_H_
