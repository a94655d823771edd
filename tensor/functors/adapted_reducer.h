#ifndef TESSERA_TENSOR_FUNCTORS_ADAPTED_REDUCER_H_
#define TESSERA_TENSOR_FUNCTORS_ADAPTED_REDUCER_H_

#include "tessera/base/host_device.h"

/// Adapters for reducers and savers of programs that were written for mshadow. Those combine values
/// in place; the adapters give them a functor, as tessera::red and tessera::sv have it.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Adapts a reducer of a program that was written for mshadow to the form of tessera::red. Such a
/// reducer combines in place: `Red::Reduce(dst, src)`, `Red::SetInitValue(dst)`.
template <typename Red>
struct AdaptedReducer {
  struct OPType {
    template <typename T>
    TESSERA_HD static T Map(T a, T b) {
      Red::Reduce(a, b);
      return a;
    }
  };
  template <typename T>
  TESSERA_HD static T InitialValue() {
    T value;
    Red::SetInitValue(value);
    return value;
  }
  template <typename T>
  TESSERA_HD static T PartialGrad(T result, T element) {
    return Red::PartialGrad(result, element);
  }
};

/// Chooses the form of a reducer: `type` is Red itself if it has a functor, Red::OPType, and
/// `AdaptedReducer<Red>` otherwise.
template <typename Red>
struct ReducerTraits {
  using type = AdaptedReducer<Red>;
};
template <typename Red>
requires requires { typename Red::OPType; }
struct ReducerTraits<Red> {
  using type = Red;
};

/// The reducer Red in the form of tessera::red: Red itself if it has a functor, else its adapter.
template <typename Red>
using ReducerOf = typename ReducerTraits<Red>::type;

/// Adapts a saver that has `S::Save(a, b)` alone, which combines in place, to the form of
/// tessera::sv.
template <typename S>
struct AdaptedSaver {
  struct OPType {
    template <typename T>
    TESSERA_HD static T Map(T a, T b) {
      S::Save(a, b);
      return a;
    }
  };
};

/// Chooses the form of a saver: `type` is S itself if it has a functor, S::OPType, and
/// `AdaptedSaver<S>` otherwise.
template <typename S>
struct SaverTraits {
  using type = AdaptedSaver<S>;
};
template <typename S>
requires requires { typename S::OPType; }
struct SaverTraits<S> {
  using type = S;
};

/// The saver S in the form of tessera::sv: S itself if it has a functor, else its adapter.
template <typename S>
using SaverOf = typename SaverTraits<S>::type;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_FUNCTORS_ADAPTED_REDUCER_H_
