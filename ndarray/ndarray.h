#ifndef TESSERA_NDARRAY_NDARRAY_H_
#define TESSERA_NDARRAY_NDARRAY_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

namespace ndarray_internal {
struct ArrayMemory;
}  // namespace ndarray_internal

/// An n-dimensional array whose operations run asynchronously on the engine.
///
/// Copying an NDArray copies a handle: both name the same elements, which live until the last
/// handle is gone and the last operation on them is done. A call that computes returns at once; the
/// engine orders it after the pending writes of what it reads and the pending reads and writes of
/// what it writes. Only WaitToRead, WaitToWrite, SyncCopyFromCPU, SyncCopyToCPU and WaitAll block,
/// and they throw the Error of whichever operation failed on the way.
///
/// Threads: every member may be called from any thread; one handle is not to be assigned by one
/// thread while another uses it.
class NDArray {
 public:
  /// No array: is_none().
  NDArray() = default;

  /// An array with undefined contents. Memory is taken at once, or with `delay_alloc` when the
  /// first operation needs it; Storage::TagStats counts it under `tag`.
  ///
  /// Throws Error: kInvalidArgument unless shape and type are fully known and the size fits in 63
  /// bits; kUnimplemented for a GPU in a build without --config=cuda; what Storage::Alloc throws,
  /// at once or, with `delay_alloc`, at the first wait.
  explicit NDArray(const TShape& shape, Device device = Device::Cpu(),
                   DType dtype = DType::kFloat32, bool delay_alloc = false,
                   std::string_view tag = "NDArray");

  /// An array around memory that the caller keeps alive and does not touch while operations are
  /// pending on it. Two such arrays around the same memory are not ordered with each other.
  explicit NDArray(const TBlob& blob);

  /// A float32 CPU array with the given elements in row-major order.
  /// Throws Error(kInvalidArgument) unless there are as many as the shape has.
  static NDArray FromVector(std::span<const float> values, const TShape& shape);

  /// Whether the handle names no array. It then has a shape of unknown rank.
  bool is_none() const { return chunk_ == nullptr; }
  /// Known without waiting.
  const TShape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  /// Throws Error(kFailedPrecondition) for no array, as all members below do.
  Device device() const;
  /// The elements' engine variable: what an operation that uses them declares. Views of the same
  /// elements share it, and an operation names it once, among its writes if it writes at all.
  Variable* var() const;

  /// The elements, for use inside an engine operation that has declared var(), or after a wait.
  /// Takes the memory first if that was delayed.
  TBlob data() const;

  /// Block until all pending writes (and for WaitToWrite reads as well) are done. Nothing happens
  /// for no array.
  void WaitToRead() const;
  void WaitToWrite() const;
  /// Blocks until all that was pushed is done, as Engine::WaitForAll.
  static void WaitAll();

  /// Copies `size` elements of this array's type from or to host memory, in turn with the
  /// operations on the array, and blocks until `data` may be reused, or used. Copying from the host
  /// blocks for large arrays alone; small ones are buffered. Throws Error(kInvalidArgument) unless
  /// size is the array's number of elements.
  void SyncCopyFromCPU(const void* data, index_t size);
  void SyncCopyToCPU(void* data, index_t size) const;

  /// The elements as floats, whatever the type; blocks.
  std::vector<float> ToVector() const;

  /// Rows [begin, end) of the first dimension; the memory is shared.
  /// Throws Error: kOutOfRange unless 0 <= begin <= end <= shape()[0], kInvalidArgument for rank 0.
  NDArray Slice(index_t begin, index_t end) const;
  /// Row i of the first dimension, of rank one less. Throws as Slice(i, i + 1).
  NDArray At(index_t i) const;
  /// The same elements under another shape; one extent may be -1 for "the rest".
  /// Throws Error(kInvalidArgument) unless the shape has as many elements.
  NDArray Reshape(const TShape& shape) const;

  /// A copy on a device, made asynchronously.
  NDArray Copy(Device device) const;

  /// Sets every element to the value, without its fraction where the elements are integers.
  /// Throws Error(kInvalidArgument) if their type cannot hold it.
  NDArray& operator=(float value);

  /// Element by element, by the registered operators (elemwise_add, _plus_scalar, …): for
  /// floating-point types. Throw Error(kInvalidArgument) for other types, and where shapes or types
  /// differ; Error(kUnimplemented) for a device that the operator has no code for.
  NDArray& operator+=(const NDArray& other);
  NDArray& operator-=(const NDArray& other);
  NDArray& operator*=(const NDArray& other);
  NDArray& operator/=(const NDArray& other);
  NDArray& operator+=(float value);
  NDArray& operator-=(float value);
  NDArray& operator*=(float value);
  NDArray& operator/=(float value);

 private:
  class Chunk;
  friend struct ndarray_internal::ArrayMemory;

  Chunk& RequireChunk(std::string_view operation) const;
  NDArray View(const TShape& shape, index_t offset) const;

  std::shared_ptr<Chunk> chunk_;
  TShape shape_;
  index_t offset_ = 0;  // in elements
  DType dtype_ = DType::kFloat32;
};

/// New arrays, computed asynchronously; errors as for the members.
NDArray operator+(const NDArray& a, const NDArray& b);
NDArray operator-(const NDArray& a, const NDArray& b);
NDArray operator*(const NDArray& a, const NDArray& b);
NDArray operator/(const NDArray& a, const NDArray& b);
NDArray operator+(const NDArray& a, float b);
NDArray operator-(const NDArray& a, float b);
NDArray operator*(const NDArray& a, float b);
NDArray operator/(const NDArray& a, float b);

/// Copies all elements, across devices too. Asynchronous.
/// Throws Error(kInvalidArgument) if shapes or types differ, or if the two share some elements but
/// not all; copying an array to itself does nothing.
void CopyFromTo(const NDArray& from, const NDArray& to, int priority = 0);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_NDARRAY_H_
