#include "tessera/train/metric/metric_values.h"

#include <algorithm>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"

namespace tessera::train_internal {

void CheckPrediction(std::string_view metric, const NDArray& prediction) {
  if (!IsReal(prediction.dtype()) || prediction.shape().ndim() < 2) {
    throw InvalidArgument(metric, ": predictions of shape ", prediction.shape(), " and type ",
                          prediction.dtype(),
                          ", expected (batch, classes) of a floating-point type");
  }
}

void CheckSameSize(std::string_view metric, const NDArray& label, const NDArray& prediction) {
  if (IsReal(prediction.dtype()) && label.shape().ndim() > 0 && prediction.shape().ndim() > 0 &&
      label.shape()[0] == prediction.shape()[0] &&
      label.shape().Size() == prediction.shape().Size()) {
    return;
  }
  throw InvalidArgument(metric, ": labels of shape ", label.shape(), " with predictions of shape ",
                        prediction.shape(), " and type ", prediction.dtype(),
                        ", expected as many of a floating-point type");
}

std::vector<double> FirstElements(const TBlob& array, index_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  VisitDType(array.type_flag_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const elements = static_cast<const T*>(array.dptr_);
    std::transform(elements, elements + count, values.begin(),
                   [](T value) { return static_cast<double>(value); });
  });
  return values;
}

index_t ElementsOfRows(const TBlob& array, index_t rows) {
  return rows * array.shape_.ProdShape(1, array.shape_.ndim());
}

}  // namespace tessera::train_internal
