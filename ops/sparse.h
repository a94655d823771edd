#ifndef TESSERA_OPS_SPARSE_H_
#define TESSERA_OPS_SPARSE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

/// How an array stores its elements. The numbers are MXNet's, which its files hold.
enum class StorageType : int {
  kUndefined = -1,  ///< not known yet; also that of no array
  kDefault = 0,     ///< dense: every element
  kRowSparse = 1,   ///< some rows of the first axis; the elements of the others are 0
  kCsr = 2,         ///< some elements of a matrix, row by row; the others are 0
};

/// Returns "default", "row_sparse", "csr", or "undefined".
std::string_view StorageTypeName(StorageType type);
/// Prints StorageTypeName(type).
std::ostream& operator<<(std::ostream& os, StorageType type);

struct SparseBlob;

/// Provides the memory of a sparse output's parts.
class PartsAllocator {
 public:
  virtual ~PartsAllocator() = default;
  /// Points the blob to new parts of `count` rows (row_sparse) or elements (csr), whose contents
  /// are undefined. Throws Error(kResourceExhausted).
  virtual void Allocate(index_t count, SparseBlob* blob) = 0;
};

/// An array of any storage type in an operator's call. Like a TBlob, it is a handle to memory.
///
/// A row_sparse array of shape (n, …) stores rows `indices`, which rise, each below n: `values` has
/// the shape (count, …). A csr array of shape (m, n) stores `values` (count): those of row i are
/// [indptr[i], indptr[i + 1]), and their columns `indices` rise, each below n. Operators need not
/// check that: the caller has.
struct SparseBlob {
  StorageType storage = StorageType::kDefault;
  TShape shape;                         ///< the extents of the array
  TBlob values;                         ///< the stored elements; of a dense array, all of them
  std::span<int64_t> indices;           ///< empty for a dense array
  std::span<int64_t> indptr;            ///< m + 1 numbers; empty unless csr
  PartsAllocator* allocator = nullptr;  ///< of a sparse array that the call may write

  /// Returns the number of stored rows or elements of a sparse array.
  index_t count() const { return static_cast<index_t>(indices.size()); }
  /// Returns the number of elements in a row of the first axis.
  index_t width() const { return shape.ProdShape(1, shape.ndim()); }
  /// Replaces the parts of an output by new ones; see PartsAllocator. Blobs of the old parts, such
  /// as a copy made before, stay valid during the call.
  void Allocate(index_t count) { allocator->Allocate(count, this); }
  /// Points the blob to parts: memory for `count` rows or elements, as many indices, and, if it is
  /// csr, shape[0] + 1 numbers.
  void SetParts(index_t count, void* values_data, int64_t* indices_data, int64_t* indptr_data);
};

/// Throws Error(kInvalidArgument) that names the part, the place and the number if the parts of a
/// sparse blob are not as SparseBlob states. Without `full`, looks only at sizes and at the first
/// and last of indptr.
void CheckParts(const SparseBlob& blob, bool full);

/// Storage types, one for each array.
using StorageTypes = std::vector<StorageType>;

/// The storage types in a call of an operator's gradient. Values that the gradient does not read
/// are kUndefined, as are, in `in_grad`, gradients that have no array yet.
struct BackwardStorage {
  std::span<const StorageType> out_grad, in_data, out_data;
  std::span<const StorageType> in_grad;  ///< of the arrays that wait for the gradients
};

/// The values in a call of an operator's gradient, as in Operator::Backward.
struct BackwardBlobs {
  std::span<const SparseBlob> out_grad, in_data, out_data;
};

/// What an operator does with sparse arrays. A call for which its form states no storage types runs
/// on dense copies of its sparse arrays.
///
/// A form computes on the CPU, for any element type that the operator's property accepts. It finds
/// memory for sparse outputs by SparseBlob::Allocate; a sparse output that it does not allocate
/// keeps its parts. Outputs have the storage types that Infer returned. Threads: all members may be
/// called from any thread.
class SparseForm {
 public:
  virtual ~SparseForm() = default;

  /// Returns whether a call with dense inputs alone can have sparse outputs.
  virtual bool MakesSparse(const OperatorProperty& property) const;

  /// Returns the storage types of the outputs of a call, or nothing if the form does not compute
  /// such a call. `out` has the types of arrays that wait for the results, or kUndefined; the
  /// result may differ from them, and is then converted. A call with a csr output that is no matrix
  /// runs on dense copies.
  virtual std::optional<StorageTypes> Infer(const OperatorProperty& property,
                                            std::span<const StorageType> in,
                                            std::span<const StorageType> out) const = 0;

  /// Computes the outputs. Inputs that the property changes have an allocator if they are sparse.
  /// `req` is that of Operator::Forward, but never kAddTo for a sparse output: the caller adds.
  virtual void Forward(const OperatorProperty& property, std::span<SparseBlob> in,
                       std::span<const OpReqType> req, std::span<SparseBlob> out) const = 0;

  /// Returns the storage types of the gradients, or nothing: Operator::Backward then computes them
  /// on dense arrays. By default, nothing.
  virtual std::optional<StorageTypes> InferBackward(const OperatorProperty& property,
                                                    const BackwardStorage& types) const;

  /// Computes the gradients. Requests are kWriteTo or kNullOp.
  virtual void Backward(const OperatorProperty& property, const BackwardBlobs& values,
                        std::span<const OpReqType> req, std::span<SparseBlob> in_grad) const;
};

/// Gives the operator registered under `op` a form. Returns true, for a statement at namespace
/// scope. A second form of one name is dropped: it is a copy in another library.
bool RegisterSparseForm(std::string_view op, std::unique_ptr<const SparseForm> form);

/// Returns the form of the operator registered under `op`, or null. It lives as long as the
/// process.
const SparseForm* FindSparseForm(std::string_view op);

}  // namespace tessera

#endif  // TESSERA_OPS_SPARSE_H_
