#ifndef TESSERA_NDARRAY_NDARRAY_H_
#define TESSERA_NDARRAY_NDARRAY_H_

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/number.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

namespace ndarray_internal {
struct ArrayAccess;
/// The result type of a deleted assignment; see NDArray::operator=.
struct RebindingATemporaryChangesNoElement_UseCopyFromTo;
}  // namespace ndarray_internal

namespace autograd {
/// Options of Backward.
struct BackwardOptions {
  /// Keeps the values on the tape, for another Backward through the same calls.
  bool retain_graph = false;
};
}  // namespace autograd

/// The indices begin, begin + step, … before end along an axis. As in Python, negative positions
/// count from the end, positions outside the axis are moved to its ends, and a missing position is
/// an end.
struct AxisSlice {
  std::optional<index_t> begin = std::nullopt;  ///< the first index
  std::optional<index_t> end = std::nullopt;    ///< the index after the last
  index_t step = 1;                             ///< not 0
};

/// The part of one axis: an index, which removes the axis, or a range.
using AxisIndex = std::variant<index_t, AxisSlice>;

/// An n-dimensional array whose operations run asynchronously on the engine.
///
/// Copying an NDArray copies a handle to one array: elements, and with autograd the place on the
/// tape and the gradient. Elements live until the last handle is destroyed and the last operation
/// on them is done. Slice, At, Reshape and Detach return other arrays over the same elements. A
/// call that computes returns at once. The engine orders it after the pending writes of arrays that
/// it reads, and after the pending reads and writes of arrays that it writes. Only WaitToRead,
/// WaitToWrite, SyncCopyFromCPU, SyncCopyToCPU and WaitAll block. They throw the Error of an
/// operation that failed.
///
/// Forks: the child has a copy of each array. One that was being written at the fork throws
/// Error(kFailedPrecondition) at each use there, so call WaitAll before the fork.
///
/// Threads: every member may be called from any thread, except that a handle must not be assigned
/// while another thread uses it.
class NDArray {
 public:
  /// Constructs a handle without an array: is_none().
  NDArray() = default;

  /// Constructs an array with undefined contents. Memory is allocated at once, or with
  /// `delay_alloc` when the first operation needs it. Storage::TagStats counts it under `tag`.
  ///
  /// Throws Error(kInvalidArgument) unless shape and type are fully known and the size fits in 63
  /// bits. Throws Error(kUnimplemented) for a GPU in a build without --config=cuda. Throws what
  /// Storage::Alloc throws, at once or with `delay_alloc` at the first wait.
  explicit NDArray(const TShape& shape, Device device = Device::Cpu(),
                   DType dtype = DType::kFloat32, bool delay_alloc = false,
                   std::string_view tag = "NDArray");

  /// Constructs an array over memory that the caller keeps alive and does not access while
  /// operations on the array are pending. Operations on two such arrays over the same memory are
  /// not ordered with each other.
  explicit NDArray(const TBlob& blob);
  /// Constructs an array over memory that `owner` keeps alive. The owner is released after the last
  /// operation on the array, in any thread.
  NDArray(const TBlob& blob, std::shared_ptr<void> owner);

  /// Returns a float32 CPU array with the given elements in row-major order. Throws
  /// Error(kInvalidArgument) unless their number is the shape's size.
  static NDArray FromVector(std::span<const float> values, const TShape& shape);

  /// Returns whether the handle names no array. Its shape then has an unknown rank.
  bool is_none() const { return body_ == nullptr; }
  /// Return the shape and type without waiting.
  const TShape& shape() const;
  DType dtype() const;
  /// Returns the device. Throws Error(kFailedPrecondition) if is_none(), as all members below do.
  Device device() const;
  /// Returns the elements' engine variable, which an operation that uses them declares. Views of
  /// the same elements share it. An operation names it once, among its writes if it writes any of
  /// them.
  Variable* var() const;

  /// Returns the elements, for use inside an engine operation that has declared var(), or after a
  /// wait. Allocates the memory first if that was delayed.
  TBlob data() const;

  /// Block until all pending writes are done, and for WaitToWrite all pending reads too. Return at
  /// once if is_none().
  void WaitToRead() const;
  void WaitToWrite() const;
  /// Blocks until all pushed operations are done, as Engine::WaitForAll does.
  static void WaitAll();

  /// Copy `size` elements of this array's type from or to host memory, in order with the operations
  /// on the array, and block until `data` may be reused, or used. Copying from the host blocks only
  /// for large arrays; small ones are buffered. Throw Error(kInvalidArgument) unless size is the
  /// array's number of elements.
  void SyncCopyFromCPU(const void* data, index_t size);
  void SyncCopyToCPU(void* data, index_t size) const;

  /// Returns the elements as floats, converted from any type. Blocks.
  std::vector<float> ToVector() const;

  /// Returns rows [begin, end) of the first dimension; the memory is shared. Throws
  /// Error(kOutOfRange) unless 0 <= begin <= end <= shape()[0], and Error(kInvalidArgument) for
  /// rank 0.
  NDArray Slice(index_t begin, index_t end) const;
  /// Returns row i of the first dimension, with one dimension less. Throws as Slice(i, i + 1) does.
  NDArray At(index_t i) const;
  /// Returns the same elements with another shape; one extent may be -1 and is then computed.
  /// Throws Error(kInvalidArgument) unless the shape has as many elements.
  NDArray Reshape(const TShape& shape) const;
  /// Returns the same elements with the shape that the codes of the operator Reshape give: 0 copies
  /// an extent, -1 is computed, -2 copies the remaining ones, -3 joins two and -4 splits one.
  /// With `reverse`, codes are matched from the right. Throws Error(kInvalidArgument).
  NDArray Reshape(std::initializer_list<index_t> codes, bool reverse = false) const {
    return Reshape(std::span<const index_t>(codes.begin(), codes.size()), reverse);
  }
  NDArray Reshape(std::span<const index_t> codes, bool reverse = false) const;

  /// Returns a part of the array, for example row 1 and columns 0, 2, …:
  /// `a.Index({1, AxisSlice{.step = 2}})`. Missing axes are taken whole. The memory is shared if
  /// the part is contiguous; otherwise the result is a copy. Throws Error(kOutOfRange) for an index
  /// outside its axis, and Error(kInvalidArgument) for too many axes or a step of 0.
  NDArray Index(std::span<const AxisIndex> indices) const;
  NDArray Index(std::initializer_list<AxisIndex> indices) const {
    return Index(std::span<const AxisIndex>(indices.begin(), indices.size()));
  }
  /// Writes a part of the array: a number, or values that are broadcast to the part's shape and
  /// converted to this array's type. Throws as Index does, and Error(kInvalidArgument) for values
  /// that do not fit.
  void Assign(std::initializer_list<AxisIndex> indices, const NDArray& values);
  void Assign(std::initializer_list<AxisIndex> indices, const Number& value);

  /// Returns a copy on a device, made asynchronously.
  NDArray Copy(Device device) const;
  /// Returns the array if it lies on the device, and otherwise a copy there.
  NDArray AsInContext(Device device) const;
  /// Returns a copy with another element type, converted as by the operator Cast.
  NDArray AsType(DType dtype) const;
  /// Copies the elements to another array of the same shape, converted to its type. Throws
  /// Error(kInvalidArgument) as CopyFromTo does.
  void CopyTo(const NDArray& other) const;

  /// Returns another array over the same elements, which has no place on the tape and no gradient.
  NDArray Detach() const;
  /// Makes the array a variable of autograd: calls that use it are recorded, and Backward writes
  /// its gradient to an array of the same shape and type, zero at first, or adds to it (kAddTo).
  /// With kNullOp it has no gradient. An earlier place on the tape is given up. Must not overlap
  /// with other uses of the array.
  void AttachGrad(OpReqType req = kWriteTo);
  /// Returns the gradient of AttachGrad or autograd::MarkVariables; is_none() without one.
  NDArray grad() const;
  /// Calls autograd::Backward for this array. Without a head gradient, that is 1 for each element.
  void Backward(const NDArray& head_grad = {}, autograd::BackwardOptions options = {}) const;

  NDArray(const NDArray& other) = default;
  NDArray(NDArray&& other) = default;
  /// Make the handle name the other array.
  NDArray& operator=(const NDArray& other) & = default;
  NDArray& operator=(NDArray&& other) & = default;
  /// Deleted: `a.Slice(0, 2) = b` would make a temporary handle name b, and change no element.
  ndarray_internal::RebindingATemporaryChangesNoElement_UseCopyFromTo operator=(
      const NDArray& other) && = delete;

  /// Sets every element to the value, truncated if the elements are integers. Throws
  /// Error(kInvalidArgument) if their type cannot represent it.
  NDArray& operator=(const Number& value);

  /// Compute element by element with the registered operators (elemwise_add, _plus_scalar, …).
  /// Integers wrap around, and a number beside them is cut off to an integer, which is exact. Throw
  /// Error(kInvalidArgument) if shapes or types differ. Throw Error(kUnimplemented) for a device
  /// that the operator has no code for.
  NDArray& operator+=(const NDArray& other);
  NDArray& operator-=(const NDArray& other);
  NDArray& operator*=(const NDArray& other);
  NDArray& operator/=(const NDArray& other);
  NDArray& operator+=(const Number& value);
  NDArray& operator-=(const Number& value);
  NDArray& operator*=(const Number& value);
  NDArray& operator/=(const Number& value);

 private:
  class Chunk;
  struct Body;
  friend struct ndarray_internal::ArrayAccess;

  explicit NDArray(std::shared_ptr<Body> body) : body_(std::move(body)) {}
  Body& RequireBody(std::string_view operation) const;
  NDArray View(const TShape& shape, index_t offset) const;

  std::shared_ptr<Body> body_;
};

/// Return new arrays, computed asynchronously with the registered operators elemwise_add,
/// broadcast_add, _plus_scalar, … Shapes that differ are broadcast: from the last axis on, extents
/// are equal or one of them is 1. Throw Error(kInvalidArgument) for shapes that cannot be broadcast
/// and for different types.
NDArray operator+(const NDArray& a, const NDArray& b);
NDArray operator-(const NDArray& a, const NDArray& b);
NDArray operator*(const NDArray& a, const NDArray& b);
NDArray operator/(const NDArray& a, const NDArray& b);
NDArray operator+(const NDArray& a, const Number& b);
NDArray operator-(const NDArray& a, const Number& b);
NDArray operator*(const NDArray& a, const Number& b);
NDArray operator/(const NDArray& a, const Number& b);
NDArray operator+(const Number& a, const NDArray& b);
NDArray operator-(const Number& a, const NDArray& b);
NDArray operator*(const Number& a, const NDArray& b);
NDArray operator/(const Number& a, const NDArray& b);
NDArray operator-(const NDArray& a);

/// Return 1 where the comparison holds and 0 elsewhere, in the type of the arguments. Shapes are
/// broadcast. Integers are compared with a number exactly. Throw what operator+ throws.
NDArray operator==(const NDArray& a, const NDArray& b);
NDArray operator!=(const NDArray& a, const NDArray& b);
NDArray operator<(const NDArray& a, const NDArray& b);
NDArray operator<=(const NDArray& a, const NDArray& b);
NDArray operator>(const NDArray& a, const NDArray& b);
NDArray operator>=(const NDArray& a, const NDArray& b);
NDArray operator==(const NDArray& a, const Number& b);
NDArray operator!=(const NDArray& a, const Number& b);
NDArray operator<(const NDArray& a, const Number& b);
NDArray operator<=(const NDArray& a, const Number& b);
NDArray operator>(const NDArray& a, const Number& b);
NDArray operator>=(const NDArray& a, const Number& b);

/// Copies all elements asynchronously, across devices and converted to the type of `to`. Copying an
/// array to itself does nothing. Throws Error(kInvalidArgument) if shapes differ, or if the arrays
/// share some elements but not all.
void CopyFromTo(const NDArray& from, const NDArray& to, int priority = 0);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_NDARRAY_H_
