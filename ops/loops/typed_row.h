#ifndef TESSERA_OPS_LOOPS_TYPED_ROW_H_
#define TESSERA_OPS_LOOPS_TYPED_ROW_H_

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Access to arrays of any element type by rows of T, which is float, double, int32_t or int64_t.
/// Nothing here allocates; the caller has buffers for rows that must be converted.
namespace tessera::ops_internal {

/// Returns the address of element i of an array.
inline void* ElementAt(const TBlob& array, index_t i) {
  return static_cast<char*>(array.dptr_) + i * DTypeSizeBytes(array.type_flag_);
}

/// The size of an array's element, known without a call for those of T.
template <typename T>
index_t ElementSize(DType dtype) {
  return dtype == kDTypeOf<T> ? static_cast<index_t>(sizeof(T)) : DTypeSizeBytes(dtype);
}

/// Reads an array's elements as T, converted as LoadRow converts.
template <typename T>
class RowReader {
 public:
  RowReader() = default;
  RowReader(const void* data, DType dtype)
      : data_(data), dtype_(dtype), size_(ElementSize<T>(dtype)) {}
  explicit RowReader(const TBlob& array) : RowReader(array.dptr_, array.type_flag_) {}

  /// Returns whether the array's own elements are of type T.
  bool is_direct() const { return dtype_ == kDTypeOf<T>; }

  /// Returns n elements from element `first` on, `stride` apart: the array's own memory if they
  /// are adjacent elements of T, else a copy in `buffer`.
  const T* Read(index_t first, index_t n, T* buffer, index_t stride = 1) const {
    if (is_direct() && stride == 1) return static_cast<const T*>(data_) + first;
    Copy(first, n, buffer, stride);
    return buffer;
  }
  /// Copies those elements to `to`.
  void Copy(index_t first, index_t n, T* to, index_t stride = 1) const {
    LoadRow(static_cast<const char*>(data_) + first * size_, dtype_, stride, n, to);
  }
  T operator[](index_t i) const {
    T buffer;
    return *Read(i, 1, &buffer);
  }

 private:
  const void* data_ = nullptr;
  DType dtype_ = kDTypeOf<T>;
  index_t size_ = sizeof(T);  // the bytes of an element
};

/// Reads n indices of an array from element `first` on, as LoadIndices does.
inline void ReadIndices(const TBlob& array, index_t first, index_t n, int64_t* indices) {
  const char* const data = static_cast<const char*>(array.dptr_);
  LoadIndices(data + first * DTypeSizeBytes(array.type_flag_), array.type_flag_, n, indices);
}

/// Writes elements of T to an array by a request, converted or added as StoreRow does. A caller
/// computes a row where Out says, and hands it to Write.
template <typename T>
class RowWriter {
 public:
  RowWriter() = default;
  RowWriter(void* data, DType dtype, OpReqType req)
      : data_(data), dtype_(dtype), req_(req), size_(ElementSize<T>(dtype)) {}
  RowWriter(const TBlob& array, OpReqType req) : RowWriter(array.dptr_, array.type_flag_, req) {}

  bool is_wanted() const { return req_ != kNullOp; }
  /// Returns whether rows are computed in the array's own memory: its elements are of type T, and
  /// the request overwrites them.
  bool is_direct() const {
    return dtype_ == kDTypeOf<T> && (req_ == kWriteTo || req_ == kWriteInplace);
  }

  /// Returns where to compute a row from element `first` on: in the array's own memory if
  /// is_direct(), else in `buffer`.
  T* Out(index_t first, T* buffer) const {
    return is_direct() ? static_cast<T*>(data_) + first : buffer;
  }
  /// Writes n elements from element `first` on. Does nothing if they are not wanted or lie there
  /// already.
  void Write(index_t first, index_t n, const T* row) const {
    if (!is_wanted() || row == Out(first, nullptr)) return;
    StoreRow(row, n, req_ == kAddTo, dtype_, static_cast<char*>(data_) + first * size_);
  }
  void Write(index_t i, T value) const {
    if (is_direct()) {
      static_cast<T*>(data_)[i] = value;
    } else {
      Write(i, 1, &value);
    }
  }

 private:
  void* data_ = nullptr;
  DType dtype_ = kDTypeOf<T>;
  OpReqType req_ = kNullOp;
  index_t size_ = sizeof(T);  // the bytes of an element
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_TYPED_ROW_H_
