#ifndef MSHADOW_COMPLEX_ENGINE_H_
#define MSHADOW_COMPLEX_ENGINE_H_

// Expressions that separate code computes as a whole: those of a program, and Tessera's products
// and reductions.

#include "mshadow/base.h"
#include "mshadow/expression.h"
#include "tessera/tensor/tensor.h"

namespace mshadow::expr {

/// Computes an expression of kind kComplex. A program specializes it for a class of its own,
/// derived from Exp<MyExp<DType>, DType, type::kComplex>:
///
///     template <typename SV, typename Device, typename DType>
///     struct ExpComplexEngine<SV, Tensor<Device, 1, DType>, MyExp<DType>, DType> {
///       inline static void Eval(Tensor<Device, 1, DType>* dst, const MyExp<DType>& exp);
///     };
///
/// Such an expression stands alone on the right of = += -= *= and /=, for which SV is sv::saveto,
/// plusto, minusto, multo or divto. Eval checks shapes and sees to operands that share memory with
/// *dst; a TensorContainer on the left keeps its shape. The specialization must be declared before
/// the first assignment.
///
/// This template computes Tessera's products and reductions.
template <typename SV, typename RV, typename E, typename DType>
struct ExpComplexEngine {
  /// Combines the expression with *dst by SV.
  static void Eval(RV* dst, const E& exp) requires tessera::expr::AssignsItself<E, SV, RV> {
    tessera::expr::Assign<SV>(*dst, exp);
  }
};

/// Combines an expression of any kind with a tensor by SV, as the operators of assignment do. They
/// do not look for specializations of this template.
template <typename SV, typename RV, typename DType>
struct ExpEngine {
  template <typename E, int etype>
  static void Eval(RV* dst, const Exp<E, DType, etype>& exp) {
    tessera::expr::Assign<SV>(*dst, exp.self());
  }
};

}  // namespace mshadow::expr

namespace tessera::expr {

/// Calls a program's ExpComplexEngine. Its Eval takes a pointer to the destination, which may also
/// set the handle.
template <typename SV, typename RV, typename E>
requires requires(RV* dst, const E& e) {
  ::mshadow::expr::ExpComplexEngine<SV, RV, E, typename E::value_type>::Eval(dst, e);
}
struct WholeEngine<SV, RV, E> {
  static void Eval(const RV& dst, const E& e) {
    // Assignments take a handle, which is no constant, by const reference.
    ::mshadow::expr::ExpComplexEngine<SV, RV, E, typename E::value_type>::Eval(
        const_cast<RV*>(&dst), e);
  }
};

}  // namespace tessera::expr

#endif  // MSHADOW_COMPLEX_ENGINE_H_
