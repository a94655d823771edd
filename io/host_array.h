#ifndef TESSERA_IO_HOST_ARRAY_H_
#define TESSERA_IO_HOST_ARRAY_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"

namespace tessera {

/// An array as a plain value in host memory, which files are read to and examples consist of.
struct HostArray {
  DType dtype = DType::kUint8;  ///< the type of the elements
  TShape shape;                 ///< the extents
  std::vector<uint8_t> bytes;   ///< the elements in row-major order, in the host's byte order
  /// Set for a sparse vector, whose shape has one axis: the positions, which rise, of the elements
  /// that `bytes` has. The others are 0.
  std::optional<std::vector<int64_t>> columns = {};

  /// Returns an array of these elements. Throws Error(kInvalidArgument) unless their number is the
  /// shape's size.
  template <typename T>
  static HostArray FromValues(std::span<const T> values, const TShape& shape) {
    if (shape.Size() != static_cast<index_t>(values.size())) {
      throw InvalidArgument("HostArray::FromValues: ", values.size(), " elements for shape ", shape,
                            ", expected ", shape.Size());
    }
    HostArray array{kDTypeOf<T>, shape, std::vector<uint8_t>(values.size_bytes())};
    if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), values.size_bytes());
    return array;
  }
  /// Returns a sparse vector of `size` elements, of which `values` has those at `columns`.
  template <typename T>
  static HostArray SparseVector(std::span<const T> values, std::span<const int64_t> columns,
                                index_t size) {
    HostArray array = FromValues(values, {static_cast<index_t>(values.size())});
    array.shape = {size};
    array.columns.emplace(columns.begin(), columns.end());
    return array;
  }
  /// Returns an array of rank 0, such as a label.
  template <typename T>
  static HostArray Scalar(T value) {
    return FromValues(std::span<const T>(&value, 1), TShape::OfRank(0));
  }

  /// Return the elements. Throw Error(kInvalidArgument) if T is not their type.
  template <typename T>
  std::span<const T> values() const {
    RequireType(kDTypeOf<T>);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> mutable_values() {
    RequireType(kDTypeOf<T>);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  void RequireType(DType type) const {
    if (dtype != type) {
      throw InvalidArgument("HostArray::values: asked for ", type, ", the elements are ", dtype);
    }
  }
};

}  // namespace tessera

#endif  // TESSERA_IO_HOST_ARRAY_H_
