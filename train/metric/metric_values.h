#ifndef TESSERA_TRAIN_METRIC_METRIC_VALUES_H_
#define TESSERA_TRAIN_METRIC_METRIC_VALUES_H_

#include <string_view>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tensor/tblob.h"

namespace tessera::train_internal {

/// Throws Error(kInvalidArgument) unless predictions are (batch, classes, …) of a floating-point
/// type.
void CheckPrediction(std::string_view metric, const NDArray& prediction);

/// Throws Error(kInvalidArgument) unless predictions and labels have as many elements, and
/// predictions a floating-point type.
void CheckSameSize(std::string_view metric, const NDArray& label, const NDArray& prediction);

/// Returns a label as a class, or -1 for a label that is no class.
template <typename T>
index_t ClassOf(T label, index_t classes) {
  const double value = static_cast<double>(label);
  return value >= 0 && value < static_cast<double>(classes) ? static_cast<index_t>(value) : -1;
}

/// Returns the first `count` elements of an array in host memory.
std::vector<double> FirstElements(const TBlob& array, index_t count);

/// Returns the number of elements in the first `rows` of an array's rows.
index_t ElementsOfRows(const TBlob& array, index_t rows);

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_METRIC_METRIC_VALUES_H_
