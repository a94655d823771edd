#include "tessera/ndarray/testing/array_values.h"

#include <memory>

#include "tessera/base/dtype.h"

namespace tessera::ndarray_testing {

NDArray Vector(const std::vector<float>& values) {
  return NDArray::FromVector(values, {static_cast<index_t>(values.size())});
}

std::vector<double> Read(const NDArray& array) {
  if (array.is_none()) return {};
  return VisitDType(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const index_t size = array.shape().Size();
    const auto elements = std::make_unique<T[]>(static_cast<size_t>(size));
    array.SyncCopyToCPU(elements.get(), size);
    std::vector<double> values(static_cast<size_t>(size));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(elements[i]);
    return values;
  });
}

}  // namespace tessera::ndarray_testing
