#ifndef TESSERA_NDARRAY_MEMORY_SPARSE_STORE_H_
#define TESSERA_NDARRAY_MEMORY_SPARSE_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/sparse.h"
#include "tessera/storage/storage.h"

namespace tessera::ndarray_internal {

/// The memory of a sparse array's parts. The number of stored rows or elements never changes:
/// another number takes other memory.
class PartsMemory {
 public:
  /// Allocates parts like those of `blob`, with undefined contents. Throws what Storage::Alloc
  /// throws.
  PartsMemory(const SparseBlob& blob, index_t count);
  ~PartsMemory();
  PartsMemory(const PartsMemory&) = delete;
  PartsMemory& operator=(const PartsMemory&) = delete;

  index_t count() const { return count_; }
  /// Points the blob to the parts.
  void PointTo(SparseBlob* blob) const;

  /// Return, and state, whether the parts are as SparseBlob describes them. Parts that an operator
  /// has written are; those that came from elsewhere are checked before an operator reads them.
  bool is_checked() const {
    // Relaxed: whoever reads the parts is ordered after their last write.
    return is_checked_.load(std::memory_order_relaxed);
  }
  void set_checked(bool checked) { is_checked_.store(checked, std::memory_order_relaxed); }

 private:
  Storage::Handle values_, indices_, indptr_;
  const index_t count_;
  std::atomic<bool> is_checked_{true};
};

/// What a sparse array stores. The array's engine variable orders reads and writes of the parts, as
/// it orders those of a dense array's elements.
class SparseStore {
 public:
  /// Constructs a store without rows or elements. Throws Error(kUnimplemented) for a device other
  /// than the CPU, and Error(kInvalidArgument) for a rank that the storage type cannot have.
  SparseStore(StorageType type, const TShape& shape, DType dtype, Device device);

  StorageType type() const { return type_; }

  /// Returns the parts for an operation that has declared the array's variable, or after a wait.
  /// They are valid until an operation writes the array. Parts that came from elsewhere may have
  /// the columns of a csr row in any order, as in MXNet, and are then returned as sorted copies.
  /// Throws Error(kInvalidArgument) if they are wrong otherwise; see CheckParts.
  SparseBlob Blob();
  /// Returns the parts without a look at what they hold.
  SparseBlob UncheckedBlob();

  /// States that the parts are to be checked before an operator reads them. For an operation that
  /// writes them.
  void SetUnchecked();

  /// Replaces the parts. For an operation that has declared a write of the array's variable, or
  /// where none pends.
  void Replace(std::shared_ptr<PartsMemory> memory);
  /// Returns new parts of that size, for Replace.
  std::shared_ptr<PartsMemory> NewParts(index_t count) const;

 private:
  SparseBlob EmptyBlob() const;
  std::shared_ptr<PartsMemory> Memory();
  /// Returns what is in order of parts that came from elsewhere: these, or sorted copies.
  std::shared_ptr<PartsMemory> Check(const std::shared_ptr<PartsMemory>& memory);

  const StorageType type_;
  const TShape shape_;
  const DType dtype_;
  std::mutex mutex_;
  /// Null until the first use: an array that an operation is to write needs none before.
  std::shared_ptr<PartsMemory> memory_ ABSL_GUARDED_BY(mutex_);
  /// Copies of parts whose columns are not sorted, made when an operation first reads them.
  std::shared_ptr<PartsMemory> sorted_ ABSL_GUARDED_BY(mutex_);
};

/// The parts that an operation writes in place of a sparse array's: they replace those by Commit.
class NewSparseParts final : public PartsAllocator {
 public:
  explicit NewSparseParts(SparseStore* store) : store_(store) {}

  void Allocate(index_t count, SparseBlob* blob) override;
  /// Makes what was allocated last the array's parts. If nothing was, the array keeps its own.
  void Commit();

 private:
  SparseStore* const store_;
  std::vector<std::shared_ptr<PartsMemory>> memories_;  // an operation may read earlier ones
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_MEMORY_SPARSE_STORE_H_
