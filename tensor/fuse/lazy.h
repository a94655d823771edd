#ifndef TESSERA_TENSOR_FUSE_LAZY_H_
#define TESSERA_TENSOR_FUSE_LAZY_H_

#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/reduce/reductions.h"

/// Assignments that are recorded by Lazy and run later by Fuse.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

// Each kind of statement has
//   kRank         the number of dimensions that it runs over
//   device_type, shape(), stream()
//   Written()     the memory that it writes
//   RunAlone()    runs it at once

/// The statement dst Saver= e for Fuse. dst is a tensor or a view.
template <typename Saver, typename Dst, typename E>
struct DeferredAssignment {
  using device_type = typename Dst::device_type;
  static constexpr int kRank = Dst::kRank;

  Dst dst;
  E e;

  auto shape() const { return dst.shape(); }
  auto* stream() const { return dst.stream_; }
  MemoryPlace Written() const { return PlaceOf(dst); }
  void RunAlone() const { Assign<Saver>(dst, e); }
};

/// The statement *number Saver= (reduction of e) for Fuse.
template <typename Saver, typename Red, typename Finish, typename T, typename E>
struct DeferredReduction {
  using device_type = DeviceOf<E>;
  static constexpr int kRank = E::kRank;

  T* number;
  E e;

  auto shape() const { return e.shape(); }
  Stream<gpu>* stream() const requires std::is_same_v<device_type, gpu> { return StreamOf(e); }
  MemoryPlace Written() const { return PlaceOf(Tensor<cpu, 1, T>(number, Shape1(1))); }
  void Save(T value) const { SaveElement<Saver>(number, value); }
  void RunAlone() const {
    const T value = ReduceAllExp<Red, Finish, T, E>(e);
    Save(value);
  }
};

/// The statement dst Saver= (reduction of e along axis kAxisOf) for Fuse.
template <typename Saver, typename Dst, typename Red, typename Finish, int kAxisOf, typename E>
struct DeferredAxisReduction {
  using device_type = typename Dst::device_type;
  static constexpr int kRank = E::kRank;
  static constexpr int kAxis = kAxisOf;

  Dst dst;
  E e;

  auto shape() const { return e.shape(); }
  auto* stream() const { return dst.stream_; }
  MemoryPlace Written() const { return PlaceOf(dst); }
  /// Returns the statement over the results, which are then materialized before the pass.
  auto OverResults() const {
    using Whole = ReduceAxisExp<Red, Finish, kAxis, typename Dst::value_type, E>;
    return DeferredAssignment<Saver, Dst, Whole>{dst, Whole(e)};
  }
  void RunAlone() const { OverResults().RunAlone(); }
};

/// Tells whether S is a reduction to a number for Fuse.
template <typename S>
struct IsDeferredReduction : std::false_type {};
template <typename Saver, typename Red, typename Finish, typename T, typename E>
struct IsDeferredReduction<DeferredReduction<Saver, Red, Finish, T, E>> : std::true_type {};

/// Tells whether S is a reduction along an axis for Fuse.
template <typename S>
struct IsDeferredAxisReduction : std::false_type {};
template <typename Saver, typename Dst, typename Red, typename Finish, int kAxis, typename E>
struct IsDeferredAxisReduction<DeferredAxisReduction<Saver, Dst, Red, Finish, kAxis, E>>
    : std::true_type {};

/// Returns the statement dst Saver= e for a node e, which may be a reduction along an axis.
template <typename Saver, typename Dst, typename E>
auto DeferredTo(const Dst& dst, const E& e) {
  return DeferredAssignment<Saver, Dst, E>{dst, e};
}
template <typename Saver, typename Dst, typename Red, typename Finish, int kAxis, typename T,
          typename E>
auto DeferredTo(const Dst& dst, const ReduceAxisExp<Red, Finish, kAxis, T, E>& reduction) {
  return DeferredAxisReduction<Saver, Dst, Red, Finish, kAxis, E>{dst, reduction.e};
}

/// The left side of a deferred assignment to a tensor or a view.
template <typename Dst>
class LazyTensor {
 public:
  explicit LazyTensor(const Dst& dst) : dst_(dst) {}

  template <AssignableTo<Dst> E>
  auto operator=(const E& e) const {
    return Defer<sv::saveto>(e);
  }
  template <AssignableTo<Dst> E>
  auto operator+=(const E& e) const {
    return Defer<sv::plusto>(e);
  }
  template <AssignableTo<Dst> E>
  auto operator-=(const E& e) const {
    return Defer<sv::minusto>(e);
  }
  template <AssignableTo<Dst> E>
  auto operator*=(const E& e) const {
    return Defer<sv::multo>(e);
  }
  template <AssignableTo<Dst> E>
  auto operator/=(const E& e) const {
    return Defer<sv::divto>(e);
  }

  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator+=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator-=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator*=(const E& e) const = delete;
  template <MismatchedWith<Dst> E>
  MismatchOf<E, Dst> operator/=(const E& e) const = delete;

 private:
  template <typename Saver, typename E>
  auto Defer(const E& e) const {
    if constexpr (FillsElements<E, Dst>) {
      return DeferredTo<Saver>(dst_, FillingElements<typename Dst::value_type>(e));
    } else {
      if constexpr (E::kRank > 0) {
        if (e.shape() != dst_.shape()) {
          throw InvalidArgument("Fuse: the expression has shape ", e.shape(),
                                " but its destination has shape ", dst_.shape());
        }
      }
      return DeferredTo<Saver>(dst_, AsNode(e));
    }
  }

  Dst dst_;
};

/// Result type of the deleted assignments to a number; its name tells the reason.
struct ANumberTakesAReductionOfItsOwnTypeAndNothingElse_ComputeTheRestAfterFuse;

/// The left side of a deferred reduction to a number.
template <typename T>
class LazyNumber {
 public:
  explicit LazyNumber(T* number) : number_(number) {}

  template <typename Red, typename Finish, typename E>
  auto operator=(const ReduceAllExp<Red, Finish, T, E>& reduction) const {
    return DeferredReduction<sv::saveto, Red, Finish, T, E>{number_, reduction.e};
  }
  template <typename Red, typename Finish, typename E>
  auto operator+=(const ReduceAllExp<Red, Finish, T, E>& reduction) const {
    return DeferredReduction<sv::plusto, Red, Finish, T, E>{number_, reduction.e};
  }
  template <typename Red, typename Finish, typename E>
  auto operator-=(const ReduceAllExp<Red, Finish, T, E>& reduction) const {
    return DeferredReduction<sv::minusto, Red, Finish, T, E>{number_, reduction.e};
  }

  using Mismatch = ANumberTakesAReductionOfItsOwnTypeAndNothingElse_ComputeTheRestAfterFuse;
  template <Operand E>
  Mismatch operator=(const E& e) const = delete;
  template <Operand E>
  Mismatch operator+=(const E& e) const = delete;
  template <Operand E>
  Mismatch operator-=(const E& e) const = delete;

 private:
  T* number_;
};

/// Returns the left side of an assignment to a tensor or a View inside Fuse. It has =, +=, -=, *=
/// and /= from all expressions that can be assigned to dst. The memory must live until Fuse has
/// run.
template <typename Device, int N, typename T>
LazyTensor<Tensor<Device, N, T>> Lazy(const Tensor<Device, N, T>& dst) {
  return LazyTensor<Tensor<Device, N, T>>(dst);
}
template <typename Device, int N, typename T>
LazyTensor<ViewExp<Device, N, T>> Lazy(const ViewExp<Device, N, T>& dst) {
  return LazyTensor<ViewExp<Device, N, T>>(dst);
}
/// Returns the left side of an assignment to a number inside Fuse. It has =, += and -= from sum(…)
/// and the other reductions of a whole expression. The number must live until Fuse has run.
template <Scalar T>
requires(!std::is_enum_v<T>) LazyNumber<T> Lazy(T& number) { return LazyNumber<T>(&number); }

/// Deleted for other expressions that can be assigned to (slice, concat, …). The result type's name
/// tells which are allowed.
struct LazyTakesATensorAViewOrANumber_NameThePartByView;
template <typename E>
concept NoLazyTarget = Operand<E> && !requires(const E& e) {
  PlaceOf(e);
};
template <NoLazyTarget E>
LazyTakesATensorAViewOrANumber_NameThePartByView Lazy(const E& e) = delete;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Lazy;

}  // namespace tessera

#endif  // TESSERA_TENSOR_FUSE_LAZY_H_
