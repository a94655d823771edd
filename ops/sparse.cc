#include "tessera/ops/sparse.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "tessera/base/at.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

using base_internal::At;

/// The forms of all operators. Entries are never removed.
class Forms {
 public:
  static Forms& Get() {
    static auto* const forms = new Forms();
    return *forms;
  }

  void Add(std::string_view op, std::unique_ptr<const SparseForm> form) {
    const std::lock_guard<std::mutex> lock(mutex_);
    forms_.emplace(op, std::move(form));
  }

  const SparseForm* Find(std::string_view op) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = forms_.find(op);
    return found == forms_.end() ? nullptr : found->second.get();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const SparseForm>, std::less<>> forms_
      ABSL_GUARDED_BY(mutex_);
};

/// Throws unless numbers [begin, end) of `indices` rise and lie in [0, extent).
void CheckIndices(const SparseBlob& blob, index_t begin, index_t end, index_t extent) {
  const std::span<const int64_t> indices = blob.indices;
  for (index_t i = begin; i < end; ++i) {
    const int64_t index = indices[At(i)];
    if (index < 0 || index >= extent) {
      throw InvalidArgument(blob.storage, " array of shape ", blob.shape, ": indices[", i, "] is ",
                            index, ", expected 0 <= index < ", extent);
    }
    if (i > begin && indices[At(i - 1)] >= index) {
      throw InvalidArgument(blob.storage, " array of shape ", blob.shape, ": indices[", i, "] is ",
                            index, " after ", indices[At(i - 1)], ", expected indices that rise");
    }
  }
}

void CheckIndptr(const SparseBlob& blob, bool full) {
  const std::span<const int64_t> indptr = blob.indptr;
  const auto fail = [&blob](index_t i, int64_t found, const auto&... expected) {
    throw InvalidArgument("csr array of shape ", blob.shape, ": indptr[", i, "] is ", found,
                          ", expected ", expected...);
  };
  const index_t rows = blob.shape[0];
  if (indptr[0] != 0) fail(0, indptr[0], "0");
  if (indptr[At(rows)] != blob.count()) {
    fail(rows, indptr[At(rows)], blob.count(), ", the number of elements");
  }
  if (!full) return;
  for (index_t i = 0; i < rows; ++i) {
    if (indptr[At(i)] > indptr[At(i + 1)]) {
      fail(i + 1, indptr[At(i + 1)], indptr[At(i)], " or more");
    }
  }
}

}  // namespace

std::string_view StorageTypeName(StorageType type) {
  switch (type) {
    case StorageType::kDefault:
      return "default";
    case StorageType::kRowSparse:
      return "row_sparse";
    case StorageType::kCsr:
      return "csr";
    case StorageType::kUndefined:
      break;
  }
  return "undefined";
}

std::ostream& operator<<(std::ostream& os, StorageType type) { return os << StorageTypeName(type); }

void SparseBlob::SetParts(index_t count, void* values_data, int64_t* indices_data,
                          int64_t* indptr_data) {
  TShape stored{count};
  if (storage == StorageType::kRowSparse) {
    stored = shape;
    stored[0] = count;
  }
  values = TBlob(values_data, stored, values.type_flag_, values.device_);
  indices = {indices_data, At(count)};
  indptr = {};
  if (storage == StorageType::kCsr) indptr = {indptr_data, At(shape[0]) + 1};
}

void CheckParts(const SparseBlob& blob, bool full) {
  if (blob.storage == StorageType::kDefault) return;
  if (blob.values.size(0) != blob.count()) {
    throw InvalidArgument(blob.storage, " array of shape ", blob.shape, ": ", blob.values.size(0),
                          " values and ", blob.count(), " indices, expected as many of both");
  }
  if (blob.storage == StorageType::kRowSparse) {
    if (full) CheckIndices(blob, 0, blob.count(), blob.shape[0]);
    return;
  }
  if (blob.indptr.size() != At(blob.shape[0]) + 1) {
    throw InvalidArgument("csr array of shape ", blob.shape, ": indptr has ", blob.indptr.size(),
                          " numbers, expected ", At(blob.shape[0]) + 1);
  }
  CheckIndptr(blob, full);
  if (!full) return;
  for (index_t i = 0; i < blob.shape[0]; ++i) {
    CheckIndices(blob, blob.indptr[At(i)], blob.indptr[At(i + 1)], blob.shape[1]);
  }
}

bool SparseForm::MakesSparse(const OperatorProperty&) const { return false; }

std::optional<StorageTypes> SparseForm::InferBackward(const OperatorProperty&,
                                                      const BackwardStorage&) const {
  return std::nullopt;
}

void SparseForm::Backward(const OperatorProperty& property, const BackwardBlobs&,
                          std::span<const OpReqType>, std::span<SparseBlob>) const {
  throw Unimplemented(property.TypeString(), ": its sparse form has no gradient");
}

bool RegisterSparseForm(std::string_view op, std::unique_ptr<const SparseForm> form) {
  Forms::Get().Add(op, std::move(form));
  return true;
}

const SparseForm* FindSparseForm(std::string_view op) { return Forms::Get().Find(op); }

}  // namespace tessera
