#ifndef TESSERA_COMPAT_MXNET_CORE_HANDLE_TABLE_H_
#define TESSERA_COMPAT_MXNET_CORE_HANDLE_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace tessera::mxnet {

/// The objects behind the handles of one kind. A handle is a number: the object's slot and how
/// often the slot was used before. A null handle, one of another kind, a pointer and a freed handle
/// are therefore told apart from every live one.
///
/// Calls hold the object that they use, so a handle may be freed meanwhile. No lock is held for
/// longer than it takes to copy a pointer. An object that calls change either guards itself, or is
/// replaced by another one, or is used by one call at a time (ExclusiveUse).
///
/// Threads: every member may be called from any thread. The child of a fork has the handles of its
/// parent.
class HandleTable {
 public:
  /// `kind` is the kind's name for errors, and `number`, from 1 to 63, tells it from other kinds.
  HandleTable(const char* kind, uint64_t number);
  ~HandleTable();
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// Keeps an object, and returns its handle. Throws Error(kResourceExhausted) if some 67 million
  /// handles exist.
  void* Add(std::shared_ptr<void> object);
  /// Returns the object of a handle. Throws Error(kInvalidArgument) for any other value.
  std::shared_ptr<void> Get(const void* handle) const;
  /// Lets the handle stand for `after`. Throws as Get does, and Error(kFailedPrecondition) if it
  /// does not stand for `before` any more: another call has replaced that.
  void Replace(const void* handle, const std::shared_ptr<void>& before,
               std::shared_ptr<void> after);
  /// Lets the object go. Throws as Get does.
  void Remove(const void* handle);

  /// Take and release all locks, around a fork.
  void LockForFork();
  void UnlockAfterFork();

 private:
  struct Slot {
    uint64_t uses = 0;             // guarded by the slot's lock, as object
    std::shared_ptr<void> object;  // null while the slot is free
    size_t next_free = 0;          // guarded by mutex_
  };
  /// A lock for every sixteenth slot, held for the copy of a pointer alone.
  struct alignas(64) SlotLock {
    std::atomic_flag flag = ATOMIC_FLAG_INIT;
    void lock();
    void unlock() { flag.clear(std::memory_order_release); }
  };
  // Each block of slots has twice as many as the one before.
  static constexpr size_t kFirstBlockSlots = 64;
  static constexpr size_t kNumBlocks = 20;
  static constexpr size_t kMaxSlots = kFirstBlockSlots * ((size_t{1} << kNumBlocks) - 1);
  static constexpr size_t kNumLocks = 16;

  /// Returns the slot of a number below kMaxSlots; null if there is none yet.
  Slot* FindSlot(size_t index) const;
  /// Returns the slot of a handle of this kind, and what the handle tells of it.
  Slot& SlotOf(const void* handle, size_t* index, uint64_t* uses) const;
  SlotLock& LockOf(size_t index) const { return slot_locks_[index % kNumLocks]; }
  size_t TakeFreeSlot();
  void PutFreeSlot(size_t index);
  [[noreturn]] void ThrowNoHandle(const void* handle) const;

  const char* const kind_;
  const uint64_t number_;
  std::array<std::atomic<Slot*>, kNumBlocks> blocks_ = {};
  mutable std::array<SlotLock, kNumLocks> slot_locks_;

  std::mutex mutex_;
  size_t num_slots_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t first_free_ ABSL_GUARDED_BY(mutex_) = kMaxSlots;  // kMaxSlots ends the list
};

/// The handles of objects of type T, all of one kind.
template <typename T>
class Handles {
 public:
  Handles(const char* kind, uint64_t number) : table_(kind, number) {}

  void* Add(T object) { return table_.Add(std::make_shared<T>(std::move(object))); }
  void* Add(std::shared_ptr<T> object) { return table_.Add(std::move(object)); }
  /// Returns the object, which lives as long as the result.
  std::shared_ptr<T> Get(const void* handle) const {
    return std::static_pointer_cast<T>(table_.Get(handle));
  }
  /// Lets the handle stand for a new object in place of `before`, which calls that overlap go on
  /// using. Of two calls that replace one object, the second throws Error(kFailedPrecondition).
  void Replace(const void* handle, const std::shared_ptr<T>& before, T after) {
    table_.Replace(handle, before, std::make_shared<T>(std::move(after)));
  }
  void Remove(const void* handle) { table_.Remove(handle); }

 private:
  HandleTable table_;
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_HANDLE_TABLE_H_
