#ifndef TESSERA_NDARRAY_FUNCTIONS_REQUIRED_H_
#define TESSERA_NDARRAY_FUNCTIONS_REQUIRED_H_

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ndarray/functions/ints.h"

namespace tessera::ops {

namespace required_internal {
/// The type of a tuple's elements, or void for other types.
template <typename T>
struct ElementOf {
  using type = void;
};
template <typename E>
struct ElementOf<std::vector<E>> {
  using type = E;
};
template <>
struct ElementOf<TShape> {
  using type = index_t;
};
template <>
struct ElementOf<Ints> {
  using type = int64_t;
};
}  // namespace required_internal

/// A parameter without a default. Code that leaves it out does not compile.
template <typename T>
class Required {
 public:
  /// Converts from anything that converts to T, except from floating point to an integer.
  template <typename U>
  requires(std::convertible_to<U, T> &&
           !(std::floating_point<std::remove_cvref_t<U>> &&
             std::integral<T>)&&!std::same_as<std::remove_cvref_t<U>, Required>) Required(U&& value)
      : value_(std::forward<U>(value)) {}  // NOLINT: replaces a plain member

  /// Converts from a list of elements, as in `.kernel = {3, 3}`.
  template <typename... U>
  requires(sizeof...(U) > 0 &&
           (std::convertible_to<U, typename required_internal::ElementOf<T>::type> && ...))
      Required(U... elements)
      : value_({static_cast<typename required_internal::ElementOf<T>::type>(elements)...}) {}

  /// Return the value.
  const T& value() const { return value_; }
  operator const T&() const { return value_; }  // NOLINT: replaces a plain member

 private:
  T value_;
};

}  // namespace tessera::ops

#endif  // TESSERA_NDARRAY_FUNCTIONS_REQUIRED_H_
