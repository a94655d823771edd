#ifndef TESSERA_NDARRAY_ARRAY_MEMORY_H_
#define TESSERA_NDARRAY_ARRAY_MEMORY_H_

#include <cstdint>
#include <memory>

#include "tessera/engine/engine.h"
#include "tessera/graph/node.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/shared_file.h"

namespace tessera::ndarray_internal {

/// The location of an array's elements: bytes [begin, end) of the `size` bytes that `var` orders.
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
