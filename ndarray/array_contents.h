#ifndef TESSERA_NDARRAY_ARRAY_CONTENTS_H_
#define TESSERA_NDARRAY_ARRAY_CONTENTS_H_

#include <cstdint>
#include <memory>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// The elements of an array as of now, without keeping them alive: what is computed from them stays
/// valid while they are the same.
class ArrayContents {
 public:
  /// Constructs the elements of no array.
  ArrayContents() = default;
  /// Requires: the array is not none.
  explicit ArrayContents(const NDArray& array);

  /// Returns whether `array`, which is not none, has these elements still: it has the same memory,
  /// shape and type, and no operation was pushed since that writes the memory. Elements that not
  /// only operations may write are never the same (ArrayAccess::IsWrittenElsewhere).
  bool AreOf(const NDArray& array) const;

 private:
  std::weak_ptr<const void> memory_;
  Variable* var_ = nullptr;  // in the child of a fork, the memory has another one
  uint64_t version_ = 0;
  int64_t begin_ = 0;  // in bytes
  TShape shape_;
  DType dtype_ = DType::kFloat32;
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_ARRAY_CONTENTS_H_
