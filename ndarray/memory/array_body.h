#ifndef TESSERA_NDARRAY_MEMORY_ARRAY_BODY_H_
#define TESSERA_NDARRAY_MEMORY_ARRAY_BODY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/graph/node.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/shared_file.h"
#include "tessera/storage/storage.h"

namespace tessera {

/// The memory behind one or more arrays, with the variable that orders its users: in the child of a
/// fork another one, of the child's engine.
class NDArray::Chunk {
 public:
  Chunk(int64_t size_bytes, Device device, bool delay_alloc, std::string_view tag);
  /// Uses memory that `owner` keeps alive, or the caller if it is null.
  Chunk(void* external, int64_t size_bytes, Device device, std::shared_ptr<void> owner);
  /// Uses a file as memory of Device::CpuShared().
  explicit Chunk(std::shared_ptr<SharedFile> file);
  /// Frees the memory. Operations that hold an array hold its chunk; if others may pend, an
  /// operation that writes the variable frees it.
  ~Chunk();
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  Device device() const { return device_; }
  /// Returns the file that is the memory, or null for other memory.
  const std::shared_ptr<SharedFile>& file() const { return file_; }
  /// Returns the variable of this process's engine. Throws Error(kFailedPrecondition) in the child
  /// of a fork during which the memory was written, and rethrows the error of an earlier operation
  /// that no wait has reported.
  Variable* var() {
    Engine* const engine = Engine::Get();
    // Acquire: pairs with the exchange of the thread that renewed it.
    const EngineVariable* const current = current_.load(std::memory_order_acquire);
    return current->engine == engine ? current->var : RenewAfterFork(engine, current)->var;
  }
  /// Returns the memory, allocated on first use.
  void* Data() {
    // Pairs with the release store of Allocate: a thread that sees the flag sees the pointer.
    return has_data_.load(std::memory_order_acquire) ? data_ : Allocate();
  }

  /// States that operations may use the memory that do not hold the chunk.
  void Expose() {
    // Relaxed: the destructor runs after every use of a handle.
    if (!exposed_.load(std::memory_order_relaxed)) {
      exposed_.store(true, std::memory_order_relaxed);
    }
  }

  /// Return, and state, that code outside of operations may write the memory.
  bool is_written_elsewhere() const {
    // Relaxed: the flag orders nothing.
    return is_written_elsewhere_.load(std::memory_order_relaxed);
  }
  void NoteOtherWriters() { is_written_elsewhere_.store(true, std::memory_order_relaxed); }

  /// Replaces external memory by a copy in memory of its own. Requires: no operation uses it.
  void CopyExternal();

 private:
  /// The variable in one process.
  struct EngineVariable {
    Engine* engine = nullptr;
    Variable* var = nullptr;
    const EngineVariable* of_parent = nullptr;
  };

  void* Allocate();
  const EngineVariable* RenewAfterFork(Engine* engine, const EngineVariable* of_parent);

  const int64_t size_bytes_;
  const Device device_;
  const std::string tag_;
  EngineVariable first_;
  std::atomic<const EngineVariable*> current_{&first_};

  std::mutex mutex_;                                // also guards the writes to data_ and has_data_
  Storage::Handle handle_ ABSL_GUARDED_BY(mutex_);  // empty for external memory
  std::shared_ptr<void> owner_;                     // of external memory
  std::shared_ptr<SharedFile> file_ ABSL_GUARDED_BY(mutex_);
  void* data_ = nullptr;
  std::atomic<bool> has_data_{false};
  std::atomic<bool> exposed_{false};
  std::atomic<bool> is_written_elsewhere_;
};

/// The array that the copies of a handle share.
struct NDArray::Body {
  std::shared_ptr<Chunk> chunk;
  TShape shape;
  index_t offset = 0;  ///< in elements
  DType dtype = DType::kFloat32;
  /// What a sparse array stores; null for a dense one. The chunk then has no memory, but the
  /// variable.
  std::shared_ptr<ndarray_internal::SparseStore> sparse = nullptr;
  /// The array's value on the tape: an output of a RecordedNode, or no node.
  graph::NodeEntry entry = {};
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_MEMORY_ARRAY_BODY_H_
