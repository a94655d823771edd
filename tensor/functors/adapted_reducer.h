#ifndef TESSERA_TENSOR_FUNCTORS_ADAPTED_REDUCER_H_
#define TESSERA_TENSOR_FUNCTORS_ADAPTED_REDUCER_H_

#include "tessera/base/host_device.h"

/// Reducers and savers of programs that were written for mshadow, which combine in place, in the
/// form of tessera::red and tessera::sv, which have a functor.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// A reducer of a program that was written for mshadow, which combines in place
/// (`Red::Reduce(dst, src)`, `Red::SetInitValue(dst)`), in the form of tessera::red.
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

template <typename Red>
struct ReducerTraits {
  using type = AdaptedReducer<Red>;
};
template <typename Red>
requires requires { typename Red::OPType; }
struct ReducerTraits<Red> {
  using type = Red;
};

/// Red itself if it has a functor, else its adaptation.
template <typename Red>
using ReducerOf = typename ReducerTraits<Red>::type;

/// A saver with `S::Save(a, b)` alone.
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

template <typename S>
struct SaverTraits {
  using type = AdaptedSaver<S>;
};
template <typename S>
requires requires { typename S::OPType; }
struct SaverTraits<S> {
  using type = S;
};

/// S itself if it has a functor, else its adaptation.
template <typename S>
using SaverOf = typename SaverTraits<S>::type;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_FUNCTORS_ADAPTED_REDUCER_H_
