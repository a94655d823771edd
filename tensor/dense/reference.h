#ifndef TESSERA_TENSOR_DENSE_REFERENCE_H_
#define TESSERA_TENSOR_DENSE_REFERENCE_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/reference_cuda.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// An expression that names memory, and may therefore stand on the left of an assignment:
/// `slice<1>(a, 0, 3) = b`, `flip(a, 0) += 1.0f`, `concat<1>(a, b) = c`. Such a node has
///   kIsReference       true
///   Address(y, x)      the address of the element, on host and device
///   RowAddress(y)      the address of row y's element 0, or null if the row is not contiguous
/// If it is faster to write it in parts, it also has EvaluateParts<Saver>(e). A tensor is
/// referenceable without these members.
template <typename E>
concept Referenceable = kIsTensor<E> || requires {
  requires E::kIsReference;
};

/// Returns the address of an expression's element at row y and column x.
template <typename Device, int N, typename T>
TESSERA_HD T* AddressIn(const Tensor<Device, N, T>& tensor, index_t y, index_t x) {
  return tensor.dptr_ + y * tensor.stride_ + x;
}
template <typename E>
TESSERA_HD typename E::value_type* AddressIn(const E& e, index_t y, index_t x) {
  return e.Address(y, x);
}
/// Returns the address of element 0 of an expression's row y, or null if the row is not contiguous.
template <typename Device, int N, typename T>
T* RowAddressIn(const Tensor<Device, N, T>& tensor, index_t y) {
  return tensor.dptr_ + y * tensor.stride_;
}
template <typename E>
typename E::value_type* RowAddressIn(const E& e, index_t y) {
  return e.RowAddress(y);
}

/// Returns whether evaluating `e` into the memory of `dst` could read elements already written.
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

/// Returns the stream of the first tensor that an expression names.
template <typename E>
auto* StreamIn(const E& e) {
  if constexpr (kIsTensor<E>) {
    return e.stream_;
  } else {
    return StreamIn(std::get<0>(e.operands()));
  }
}

/// Combines each element that `dst` names with the expression's. Requires: equal shapes, and no
/// element that `e` reads is written.
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

/// Evaluates `e` into the elements that `dst` names. If `e` reads the same memory, it is first
/// evaluated into a temporary.
template <typename Saver, typename R, typename E>
void AssignReference(const R& dst, const E& e) {
  using T = typename R::value_type;
  using Device = typename R::device_type;
  RequireMemoryToWrite(dst);
  if constexpr (!tensor_internal::kCompilesLoops<Device>) {
    tensor_internal::RequireCompilerFor<Device>();
  } else if constexpr (FillsElements<E, R>) {
    EvaluateInto<Saver>(dst, FillingElements<T>(e));
  } else if constexpr (ComplexExpression<E>) {
    Scratch<Device> scratch(StreamIn(dst));
    const auto temporary =
        TemporaryTensor<Device, R::kRank, T>(dst.shape(), scratch.stream(), &scratch);
    AssignWhole<sv::saveto>(temporary, e.self());
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
    const auto ready = Materialize<false>(AsNode(e), &scratch);
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

/// The tensor type with R's device, rank and element type.
template <typename R>
using TensorLike = Tensor<typename R::device_type, R::kRank, typename R::value_type>;

/// An expression that may be assigned to a node of type R. The rules are those of a tensor with R's
/// device, rank and element type.
template <typename E, typename R>
concept AssignableToReference = R::kIsReference && AssignableTo<E, TensorLike<R>>;
/// An expression that may not be assigned to a node of type R, for a reason that the compiler's
/// message states.
template <typename E, typename R>
concept MismatchedWithReference = R::kIsReference && MismatchedWith<E, TensorLike<R>>;

/// Adds assignments to a node that names memory. Derived forbids `named_node = same_type`, because
/// a reader could not tell whether that assigns elements or the node. `slice<0>(…) = slice<0>(…)`
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
