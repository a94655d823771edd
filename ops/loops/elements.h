#ifndef TESSERA_OPS_LOOPS_ELEMENTS_H_
#define TESSERA_OPS_LOOPS_ELEMENTS_H_

#include <algorithm>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {

/// An array's elements as T, which is float or double: the array's own memory if it has that type,
/// else a converted copy.
template <typename T>
class Elements {
 public:
  explicit Elements(const TBlob& array) {
    constexpr DType kOwn = DTypeOf<T>::value;
    if (array.type_flag_ == kOwn) {
      data_ = static_cast<const T*>(array.dptr_);
      return;
    }
    const index_t size = array.shape_.Size();
    copy_.resize(static_cast<size_t>(size));
    LoadRow(array.dptr_, array.type_flag_, 1, size, copy_.data());
    data_ = copy_.data();
  }
  Elements(const Elements&) = delete;
  Elements& operator=(const Elements&) = delete;

  const T* data() const { return data_; }

 private:
  std::vector<T> copy_;
  const T* data_;
};

/// Returns the address of an array's element i.
inline void* ElementAt(const TBlob& array, index_t i) {
  return static_cast<char*>(array.dptr_) + i * DTypeSizeBytes(array.type_flag_);
}

/// Writes zeros, or leaves the array unchanged if zeros are to be added or nothing is wanted.
inline void StoreZeros(OpReqType req, const TBlob& array) {
  if (req == kNullOp || req == kAddTo) return;
  std::fill_n(static_cast<char*>(array.dptr_),
              array.shape_.Size() * DTypeSizeBytes(array.type_flag_), char{0});
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ELEMENTS_H_
