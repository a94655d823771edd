#ifndef TESSERA_TENSOR_LAZY_H_
#define TESSERA_TENSOR_LAZY_H_

#include <type_traits>

#include "tessera/tensor/dense.h"
#include "tessera/tensor/reductions.h"

/// Assignments that are noted down now and run later, by Fuse.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// dst Saver= e, to be run by Fuse.
template <typename Saver, typename Dst, typename E>
struct DeferredAssignment {
  using device_type = typename Dst::device_type;
  Dst dst;
  E e;

  auto shape() const { return dst.shape(); }
  auto* stream() const { return dst.stream_; }
  void RunAlone() const { Assign<Saver>(dst, e); }
};

/// *number Saver= the reduction of e, to be run by Fuse.
template <typename Saver, typename Red, typename Finish, typename T, typename E>
struct DeferredReduction {
  using device_type = DeviceOf<E>;
  T* number;
  E e;

  auto shape() const { return e.shape(); }
  Stream<gpu>* stream() const requires std::is_same_v<device_type, gpu> { return StreamOf(e); }
  void Save(T value) const { SaveElement<Saver>(number, value); }
  void RunAlone() const {
    const T value = ReduceAllExp<Red, Finish, T, E>(e);
    Save(value);
  }
};

template <typename S>
struct IsDeferredReduction : std::false_type {};
template <typename Saver, typename Red, typename Finish, typename T, typename E>
struct IsDeferredReduction<DeferredReduction<Saver, Red, Finish, T, E>> : std::true_type {};

/// The left side of a deferred assignment to a tensor.
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

 private:
  template <typename Saver, typename E>
  auto Defer(const E& e) const {
    if constexpr (Scalar<E>) {
      using T = typename Dst::value_type;
      return DeferredAssignment<Saver, Dst, ScalarExp<T>>{dst_, ScalarExp<T>(static_cast<T>(e))};
    } else {
      if constexpr (E::kRank > 0) {
        if (e.shape() != dst_.shape()) {
          throw InvalidArgument("Fuse: the expression has shape ", e.shape(),
                                " but its destination has shape ", dst_.shape());
        }
      }
      return DeferredAssignment<Saver, Dst, OperandNode<E>>{dst_, AsNode(e)};
    }
  }

  Dst dst_;
};

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

 private:
  T* number_;
};

/// The left side of an assignment inside Fuse: of a tensor =, +=, -=, *= and /= from what can be
/// assigned to it; of a number =, += and -= from sum(…) and the other reductions of a whole
/// expression. The tensor's memory, or the number, must live until Fuse has run.
template <typename Device, int N, typename T>
LazyTensor<Tensor<Device, N, T>> Lazy(const Tensor<Device, N, T>& dst) {
  return LazyTensor<Tensor<Device, N, T>>(dst);
}
template <Scalar T>
LazyNumber<T> Lazy(T& number) {
  return LazyNumber<T>(&number);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::Lazy;

}  // namespace tessera

#endif  // TESSERA_TENSOR_LAZY_H_
