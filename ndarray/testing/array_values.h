#ifndef TESSERA_NDARRAY_TESTING_ARRAY_VALUES_H_
#define TESSERA_NDARRAY_TESTING_ARRAY_VALUES_H_

#include <cstddef>
#include <type_traits>
#include <vector>

#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_testing {

/// Returns a new array of one dimension with these elements.
NDArray Vector(const std::vector<float>& values);

/// Returns the elements of an array of any type as doubles, or {} if it is none. Blocks.
std::vector<double> Read(const NDArray& array);

/// Returns the elements of an array of type T exactly. Blocks.
template <typename T>
std::vector<T> ReadAs(const NDArray& array) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> is no memory of elements; use Read");
  std::vector<T> values(static_cast<size_t>(array.shape().Size()));
  array.SyncCopyToCPU(values.data(), array.shape().Size());
  return values;
}

}  // namespace tessera::ndarray_testing

#endif  // TESSERA_NDARRAY_TESTING_ARRAY_VALUES_H_
