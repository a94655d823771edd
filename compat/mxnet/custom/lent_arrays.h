#ifndef TESSERA_COMPAT_MXNET_CUSTOM_LENT_ARRAYS_H_
#define TESSERA_COMPAT_MXNET_CUSTOM_LENT_ARRAYS_H_

#include <exception>
#include <vector>

#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tensor/tblob.h"

namespace tessera::mxnet {

/// The part of a client's operator that an array has, by MXNet's numbers.
enum class ArrayTag : int { kInData = 0, kOutData = 1, kInGrad = 2, kOutGrad = 3, kAux = 4 };

/// The arrays that a client's function works on: views of the memory of the operation that calls
/// it. Each has an engine variable of its own, because the operation holds the memory's.
class LentArrays {
 public:
  /// Add an array over a blob, one with undefined contents, or one without elements in place of
  /// values that the client has not asked for.
  void Add(ArrayTag tag, const TBlob& blob);
  void AddNew(ArrayTag tag, const TShape& shape, DType dtype, Device device);
  void AddUnread(ArrayTag tag);

  /// Returns new handles, which the client frees.
  std::vector<NDArrayHandle> MakeHandles() const;
  /// Returns the tags of the arrays, by number.
  const std::vector<int>& tags() const { return tags_; }

  /// Blocks until every operation on the arrays is complete, and returns the first error among
  /// them. Arrays that the client keeps are copies from then on.
  std::exception_ptr TakeBack();

 private:
  void AddArray(ArrayTag tag, NDArray array, bool is_view);

  std::vector<NDArray> arrays_;
  std::vector<bool> is_view_;
  std::vector<int> tags_;
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CUSTOM_LENT_ARRAYS_H_
