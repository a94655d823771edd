#include "tessera/ops/testing/encoding.h"

#include <cstring>

namespace tessera::ops_testing {

Bytes Encode(const Values& values, DType dtype) {
  return VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Bytes bytes(values.data.size() * sizeof(T));
    for (size_t i = 0; i < values.data.size(); ++i) {
      const T element = static_cast<T>(values.data[i]);
      std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
    }
    return bytes;
  });
}

Values Decode(const Bytes& bytes, const TShape& shape, DType dtype) {
  return VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Values values(shape);
    for (size_t i = 0; i < values.data.size(); ++i) {
      T element;
      std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
      values.data[i] = static_cast<double>(element);
    }
    return values;
  });
}

}  // namespace tessera::ops_testing
