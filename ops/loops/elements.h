#ifndef TESSERA_OPS_LOOPS_ELEMENTS_H_
#define TESSERA_OPS_LOOPS_ELEMENTS_H_

#include <algorithm>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {

/// An array's elements as T, which is float or double: the array's own memory if it has that type,
/// else a converted copy.
template <typename T>
class Elements {
 public:
  explicit Elements(const TBlob& array) {
    const RowReader<T> reader(array);
    const index_t size = array.shape_.Size();
    copy_.resize(static_cast<size_t>(reader.is_direct() ? 0 : size));
    data_ = reader.Read(0, size, copy_.data());
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  const T* data() const { return data_; }

 private:
  std::vector<T> copy_;
  const T* data_;
};

/// Writes line n of an array whose lines have as many elements as `line`, as `req` says. T is float
/// or double.
template <typename T>
void StoreLine(const std::vector<T>& line, index_t n, OpReqType req, const TBlob& array) {
  const auto size = static_cast<index_t>(line.size());
  RowWriter<T>(array, req).Write(n * size, size, line.data());
}

/// Writes zeros, or leaves the array unchanged if zeros are to be added or nothing is wanted.
inline void StoreZeros(OpReqType req, const TBlob& array) {
  if (req == kNullOp || req == kAddTo) return;
  std::fill_n(static_cast<char*>(array.dptr_),
              array.shape_.Size() * DTypeSizeBytes(array.type_flag_), char{0});
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ELEMENTS_H_
