#ifndef TESSERA_NDARRAY_ARRAY_MEMORY_H_
#define TESSERA_NDARRAY_ARRAY_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/graph/node.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/sparse.h"
#include "tessera/storage/shared_file.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ndarray_internal {

class SparseStore;

/// The location of an array's elements: bytes [begin, end) of the `size` bytes that `var` orders. A
/// sparse array, whose parts move, counts as one byte.
struct ArrayMemory {
  Variable* var = nullptr;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size = 0;

  /// Returns whether the variable also has other elements, which an operation that writes this
  /// array keeps.
  bool IsPart() const { return end - begin < size; }
  bool IsSame(const ArrayMemory& other) const {
    return var == other.var && begin == other.begin && end == other.end;
  }
  bool Overlaps(const ArrayMemory& other) const {
    return var == other.var && begin < other.end && other.begin < end;
  }
};

/// Access to arrays for the rest of the component. Requires: the array is not none.
struct ArrayAccess {
  /// Returns the location without allocating.
  static ArrayMemory Memory(const NDArray& array);
  /// Return NDArray::var() and NDArray::data() for an operation that holds the array.
  static Variable* Var(const NDArray& array);
  static TBlob Data(const NDArray& array);
  /// Returns the owner of the memory, which all arrays over it share.
  static std::shared_ptr<const void> Owner(const NDArray& array);
  /// Returns whether code outside of operations may write the memory: it is the caller's, another
  /// library's or shared by processes, or NoteOtherWriters was called for it.
  static bool IsWrittenElsewhere(const NDArray& array);
  /// States that code outside of operations may write the memory from here on.
  static void NoteOtherWriters(const NDArray& array);
  /// Returns an array over a file; the file is large enough for the shape.
  static NDArray OverFile(std::shared_ptr<SharedFile> file, const TShape& shape, DType dtype);
  /// Returns the file whose first bytes are the array's elements; null if there is none.
  static std::shared_ptr<SharedFile> File(const NDArray& array);
  /// Returns the parts of a sparse array; null for a dense one and for none.
  static SparseStore* Sparse(const NDArray& array);
  /// Returns a sparse array with nothing stored. Throws Error(kUnimplemented) for a device other
  /// than the CPU, and Error(kInvalidArgument) as NDArray's constructor does.
  static NDArray NewSparse(StorageType type, const TShape& shape, Device device, DType dtype,
                           std::string_view tag);
  /// Returns the array's value on the tape, which may have no node.
  static graph::NodeEntry& Entry(const NDArray& array);
  /// Returns another handle to the same elements, with a value on the tape or none.
  static NDArray WithEntry(const NDArray& array, graph::NodeEntry entry);
  /// Lets the caller reuse the memory of an array that was constructed over a blob without an
  /// owner: if other arrays or handles name the elements, they get a copy. Requires: no operation
  /// uses the memory.
  static void EndLoan(const NDArray& array);
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_ARRAY_MEMORY_H_
