#ifndef TESSERA_TENSOR_FUNCTORS_REDUCERS_H_
#define TESSERA_TENSOR_FUNCTORS_REDUCERS_H_

#include <concepts>
#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/tensor/functors/functors.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// Savers: an assignment combines the destination's old value with the new one by a saver's
/// functor.
namespace sv {

/// The base of savers. Save(a, b) is the assignment of one element, for programs that write their
/// own loops.
template <typename Op>
struct Saver {
  using OPType = Op;
  template <typename T>
  TESSERA_HD static void Save(T& a, std::type_identity_t<T> b) {
    a = Op::Map(a, b);
  }
};

/// The saver of `=`. AlphaBLAS and BetaBLAS are the alpha and beta of a GEMM that does the same to
/// its result.
struct saveto : Saver<op::right> {
  static constexpr float AlphaBLAS() { return 1; }
  static constexpr float BetaBLAS() { return 0; }
};
/// The saver of `+=`; see saveto for its members.
struct plusto : Saver<op::plus> {
  static constexpr float AlphaBLAS() { return 1; }
  static constexpr float BetaBLAS() { return 1; }
};
/// The saver of `-=`; see saveto for its members.
struct minusto : Saver<op::minus> {
  static constexpr float AlphaBLAS() { return -1; }
  static constexpr float BetaBLAS() { return 1; }
};

/// The saver of `*=`, which no GEMM does.
struct multo : Saver<op::mul> {};
/// The saver of `/=`, which no GEMM does.
struct divto : Saver<op::div> {};

/// Satisfied by a saver that a GEMM carries out itself when it writes its result.
template <typename S>
concept DoneByGemm = std::same_as<S, saveto> || std::same_as<S, plusto> || std::same_as<S, minusto>;

}  // namespace sv

/// Reducers: functors with the value of an empty reduction, and the share of a result's gradient
/// that each element takes.
namespace red {

/// The forms in which programs for mshadow use a reducer by hand; T may be volatile. The residual
/// of the longer forms stays 0. mshadow's later sums kept their rounding error in it, while sums
/// here are made of short parts.
template <typename Red>
struct InPlaceForms {
  template <typename T>
  using Value = std::remove_volatile_t<T>;

  template <typename T, typename S>
  TESSERA_HD static void Reduce(T& dst, const S& src) {
    dst = Red::OPType::Map(Value<T>(Loaded(dst)), static_cast<Value<T>>(Loaded(src)));
  }
  template <typename T, typename S, typename R>
  TESSERA_HD static void Reduce(T& dst, const S& src, R& /*residual*/) {
    Reduce(dst, src);
  }
  template <typename T>
  TESSERA_HD static void Merge(T& dst, T& src) {
    Reduce(dst, src);
  }
  template <typename T>
  TESSERA_HD static void Merge(T& dst, T& /*residual*/, T& src, T& /*src_residual*/) {
    Reduce(dst, src);
  }
  template <typename T>
  TESSERA_HD static void Finalize(T& /*dst*/) {}
  template <typename T>
  TESSERA_HD static void Finalize(T& /*dst*/, T& /*residual*/) {}
  template <typename T>
  TESSERA_HD static void SetInitValue(T& value) {
    value = Red::template InitialValue<Value<T>>();
  }
  template <typename T>
  TESSERA_HD static void SetInitValue(T& value, T& residual) {
    SetInitValue(value);
    residual = Value<T>(0);
  }

 private:
  /// Returns the value of a volatile object. A class has no copy constructor for one, so its value
  /// goes through float.
  template <typename T>
  TESSERA_HD static std::remove_cv_t<T> Loaded(T& object) {
    if constexpr (std::is_class_v<T>) {
      return static_cast<std::remove_cv_t<T>>(static_cast<float>(object));
    } else {
      return object;
    }
  }
};

/// Computes the sum: a + b, starting from 0.
struct sum : InPlaceForms<sum> {
  using OPType = op::plus;
  template <typename T>
  TESSERA_HD static T PartialGrad(T, T) {
    return T(1);
  }
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return T(0);
  }
};
/// Takes the larger of two elements, starting from the lowest value; NaN if there is any.
struct maximum : InPlaceForms<maximum> {
  using OPType = op::maximum;
  /// Returns the share of the gradient. Every element that is the result takes the whole gradient.
  template <typename T>
  TESSERA_HD static T PartialGrad(T result, T element) {
    return result == element ? T(1) : T(0);
  }
  /// Returns the result of a reduction of no elements.
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::lowest();
  }
};
/// Takes the smaller of two elements, starting from the highest value; NaN if there is any.
struct minimum : InPlaceForms<minimum> {
  using OPType = op::minimum;
  /// Returns the share of the gradient. Every element that is the result takes the whole gradient.
  template <typename T>
  TESSERA_HD static T PartialGrad(T result, T element) {
    return result == element ? T(1) : T(0);
  }
  /// Returns the result of a reduction of no elements.
  template <typename T>
  TESSERA_HD static T InitialValue() {
    return std::numeric_limits<T>::has_infinity ? T(std::numeric_limits<T>::infinity())
                                                : std::numeric_limits<T>::max();
  }
};

}  // namespace red

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_FUNCTORS_REDUCERS_H_
