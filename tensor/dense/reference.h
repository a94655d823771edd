#ifndef TESSERA_TENSOR_DENSE_REFERENCE_H_
#define TESSERA_TENSOR_DENSE_REFERENCE_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/reference_cuda.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Expressions that name memory and may therefore stand on the left of an assignment:
/// `slice<1>(a, 0, 3) = b`, `flip(a, 0) += 1.0f`, `concat<1>(a, b) = c`. Such a node has
///   kIsReference       true
///   Address(y, x)      the address of the element, on host and device
///   RowAddress(y)      the address of row y's element 0, or null if the row is not contiguous
/// and, if it is better written in pieces, EvaluateParts<Saver>(e). A tensor is one without saying
/// so.
template <typename E>
concept Referenceable = kIsTensor<E> || requires {
  requires E::kIsReference;
};

template <typename Device, int N, typename T>
TESSERA_HD T* AddressIn(const Tensor<Device, N, T>& tensor, index_t y, index_t x) {
  return tensor.dptr_ + y * tensor.stride_ + x;
}
template <typename E>
TESSERA_HD typename E::value_type* AddressIn(const E& e, index_t y, index_t x) {
  return e.Address(y, x);
}
template <typename Device, int N, typename T>
T* RowAddressIn(const Tensor<Device, N, T>& tensor, index_t y) {
  return tensor.dptr_ + y * tensor.stride_;
}
template <typename E>
typename E::value_type* RowAddressIn(const E& e, index_t y) {
  return e.RowAddress(y);
}

/// Whether evaluating `e` into the memory that `dst` names could read what is already written.
template <typename R, typename E>
bool MayOverlap(const R& dst, const E& e) {
  if constexpr (kIsTensor<R>) {
    return ReadsElsewhere<true>(e, PlaceOf(dst));
  } else {
    return std::apply([&](const auto&... part) { return (MayOverlap(part, e) || ...); },
                      dst.operands());
  }
}

/// Throws Error(kInvalidArgument) if a tensor that `dst` names has no memory.
template <typename R>
void RequireMemoryToWrite(const R& dst) {
  if constexpr (kIsTensor<R>) {
    RequireMemoryOf(dst, kDestination);
  } else {
    std::apply([](const auto&... part) { (RequireMemoryToWrite(part), ...); }, dst.operands());
  }
}

/// The stream of the first tensor that an expression names.
template <typename E>
auto* StreamIn(const E& e) {
  if constexpr (kIsTensor<E>) {
    return e.stream_;
  } else {
    return StreamIn(std::get<0>(e.operands()));
  }
}

/// Combines each element that `dst` names with the expression's. The shapes have been checked, and
/// nothing that `e` reads is written.
template <typename Saver, typename R, typename E>
void EvaluateInto(const R& dst, const E& e) {
  const Shape<2> shape = dst.shape().FlatTo2D();
  if (shape.Size() == 0) return;
  if constexpr (kIsTensor<R>) {
    Evaluate<Saver>(dst, e);
  } else if constexpr (requires { dst.template EvaluateParts<Saver>(e); }) {
    dst.template EvaluateParts<Saver>(e);
  } else if constexpr (!R::device_type::kDevCPU) {
    EvaluateIntoCuda<Saver>(dst, e, shape, StreamIn(dst));
  } else {
    ParallelFor(shape[0], StepsPerTask(shape[1]), [&](index_t begin, index_t end) {
      for (index_t y = begin; y < end; ++y) {
        if (auto* const row = dst.RowAddress(y); row != nullptr) {
          EvaluateRow<Saver>(row, e, y, 0, shape[1]);
        } else {
          for (index_t x = 0; x < shape[1]; ++x) {
            SaveElement<Saver>(dst.Address(y, x), e.Eval(y, x));
          }
        }
      }
    });
  }
}

/// Evaluates `e` into what `dst` names; through a temporary where `e` reads the same memory.
template <typename Saver, typename R, typename E>
void AssignReference(const R& dst, const E& e) {
  using T = typename R::value_type;
  using Device = typename R::device_type;
  RequireMemoryToWrite(dst);
  if constexpr (FillsElements<E, R>) {
    EvaluateInto<Saver>(dst, ScalarExp<T>(static_cast<T>(e)));
  } else if constexpr (ComplexExpression<E>) {
    Scratch<Device> scratch(StreamIn(dst));
    const auto temporary =
        TemporaryTensor<Device, R::kRank, T>(dst.shape(), scratch.stream(), &scratch);
    e.template AssignTo<sv::saveto>(temporary);
    EvaluateInto<Saver>(dst, temporary);
  } else {
    Scratch<Device> scratch(StreamIn(dst));
    if constexpr (E::kRank > 0) {
      if (e.shape() != dst.shape()) {
        throw InvalidArgument("assignment: the expression has shape ", e.shape(),
                              " but the part of a tensor that it is assigned to has shape ",
                              dst.shape());
      }
    }
    const auto ready = Prepare<false>(AsNode(e), &scratch);
    if (MayOverlap(dst, ready)) {
      const auto temporary =
          TemporaryTensor<Device, R::kRank, T>(dst.shape(), scratch.stream(), &scratch);
      Evaluate<sv::saveto>(temporary, ready);
      EvaluateInto<Saver>(dst, temporary);
    } else {
      EvaluateInto<Saver>(dst, ready);
    }
  }
}

/// A tensor of the kind of a node R.
template <typename R>
using TensorLike = Tensor<typename R::device_type, R::kRank, typename R::value_type>;

/// What may be assigned to a node of type R: what may be assigned to a tensor of its kind.
template <typename E, typename R>
concept AssignableToReference = R::kIsReference && AssignableTo<E, TensorLike<R>>;
/// What may not, for a reason that the compiler can name.
template <typename E, typename R>
concept MismatchedWithReference = R::kIsReference && MismatchedWith<E, TensorLike<R>>;

/// The assignments of a node that names memory. Derived forbids `named_node = same_type`, in which
/// nobody could see whether elements or the node itself are meant; `slice<0>(…) = slice<0>(…)`
/// evaluates.
template <typename Derived>
struct ReferenceExp {
  ReferenceExp() = default;
  ReferenceExp(const ReferenceExp&) = default;
  ReferenceExp& operator=(const ReferenceExp&) & = delete;

  template <typename E, typename Isa = IsaTag>
  requires AssignableToReference<E, Derived>
  const Derived& operator=(const E& e) const { return Combine<sv::saveto>(e); }
  template <typename E, typename Isa = IsaTag>
  requires AssignableToReference<E, Derived>
  const Derived& operator+=(const E& e) const { return Combine<sv::plusto>(e); }
  template <typename E, typename Isa = IsaTag>
  requires AssignableToReference<E, Derived>
  const Derived& operator-=(const E& e) const { return Combine<sv::minusto>(e); }
  template <typename E, typename Isa = IsaTag>
  requires AssignableToReference<E, Derived>
  const Derived& operator*=(const E& e) const { return Combine<sv::multo>(e); }
  template <typename E, typename Isa = IsaTag>
  requires AssignableToReference<E, Derived>
  const Derived& operator/=(const E& e) const { return Combine<sv::divto>(e); }

  template <typename E, typename R = Derived>
  requires MismatchedWithReference<E, R> MismatchOf<E, TensorLike<R>>
  operator=(const E& e) const = delete;
  template <typename E, typename R = Derived>
  requires MismatchedWithReference<E, R> MismatchOf<E, TensorLike<R>>
  operator+=(const E& e) const = delete;
  template <typename E, typename R = Derived>
  requires MismatchedWithReference<E, R> MismatchOf<E, TensorLike<R>>
  operator-=(const E& e) const = delete;
  template <typename E, typename R = Derived>
  requires MismatchedWithReference<E, R> MismatchOf<E, TensorLike<R>>
  operator*=(const E& e) const = delete;
  template <typename E, typename R = Derived>
  requires MismatchedWithReference<E, R> MismatchOf<E, TensorLike<R>>
  operator/=(const E& e) const = delete;

 private:
  template <typename Saver, typename E>
  const Derived& Combine(const E& e) const {
    const Derived& derived = static_cast<const Derived&>(*this);
    AssignReference<Saver>(derived, e);
    return derived;
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_DENSE_REFERENCE_H_
