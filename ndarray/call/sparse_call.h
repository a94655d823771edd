#ifndef TESSERA_NDARRAY_CALL_SPARSE_CALL_H_
#define TESSERA_NDARRAY_CALL_SPARSE_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/number.h"
#include "tessera/ndarray/call/call_plan.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"

namespace tessera::ndarray_internal {

/// An engine operation on arrays of any storage types.
struct BlobCall {
  std::string name;
  std::vector<NDArray> inputs;
  std::vector<int> mutated = {};  ///< positions of the inputs that change
  std::vector<NDArray> outputs;   ///< is_none() where the request is kNullOp
  std::vector<OpReqType> req;     ///< of the outputs
  int priority = 0;
  /// Computes on the arrays' blobs, which have allocators where it may write parts. An array that
  /// is_none() has an empty blob.
  std::function<void(std::span<SparseBlob> inputs, std::span<SparseBlob> outputs)> run;
};

/// Pushes the operation. An Error of `run` gets the name and the inputs' storage and shapes.
void PushBlobCall(BlobCall call);

/// Returns whether one of the arrays is sparse.
bool AnySparse(std::span<const NDArray> arrays);

/// Calls an operator if an array is sparse, or if its form makes sparse outputs, as CallOperator
/// does: by its form, or on dense copies. Returns nothing for a dense call.
std::optional<std::vector<NDArray>> CallSparse(const std::shared_ptr<const CallPlan>& plan,
                                               std::span<const NDArray> inputs,
                                               std::span<const NDArray> outputs, OpReqType req);

/// The gradients of a call that its form computes, in new arrays; is_none() where the request is
/// kNullOp. `inputs` are those of the plan's graph::BackwardProperty, and `targets` the storage
/// types of the arrays that wait for the gradients, or kUndefined. Returns nothing if the form
/// computes no such call, or if no gradient would be sparse and no input is.
std::optional<std::vector<NDArray>> CallSparseBackward(const CallPlan& plan,
                                                       std::span<const NDArray> inputs,
                                                       std::span<const StorageType> targets,
                                                       std::span<const OpReqType> req);

/// Returns the array if it is dense, and otherwise a dense copy.
NDArray AsDense(const NDArray& array);

/// Copies an array of any storage type to another one, or adds it (kAddTo), as `req` says; `to`
/// keeps its storage type.
void CopySparse(const NDArray& from, const NDArray& to, OpReqType req, int priority = 0);

/// Sets a sparse array to 0, or every row of a row_sparse array to a value. Throws
/// Error(kUnimplemented) for other values in a csr array.
void FillSparse(const NDArray& array, const Number& value);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_CALL_SPARSE_CALL_H_
