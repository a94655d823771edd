#include "tessera/compat/mxnet/core/handle_table.h"

#include <pthread.h>

#include <bit>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "tessera/base/error.h"

namespace tessera::mxnet {
namespace {

// A handle's bits from the lowest: 1, the kind (6 bits), the slot (26 bits), the uses (31 bits).
// Pointers are even, so none is a handle.
constexpr int kKindShift = 1;
constexpr int kSlotShift = 7;
constexpr int kUsesShift = 33;
constexpr uint64_t kKindMask = 63;
constexpr uint64_t kSlotMask = (uint64_t{1} << 26) - 1;
constexpr uint64_t kUsesMask = (uint64_t{1} << 31) - 1;

/// The tables of the process. The child of a fork has only the thread that forked, so a lock that
/// another thread held would stay locked there: a fork takes all locks, and releases them in both
/// processes.
struct Tables {
  std::mutex mutex;
  std::set<HandleTable*> all ABSL_GUARDED_BY(mutex);

  static Tables& Get() {
    // Never destroyed: forks may come at any time.
    static auto& tables = *new Tables;
    return tables;
  }
};

void BeforeFork() {
  Tables::Get().mutex.lock();
  for (HandleTable* const table : Tables::Get().all) table->LockForFork();
}

void AfterFork() {
  for (HandleTable* const table : Tables::Get().all) table->UnlockAfterFork();
  Tables::Get().mutex.unlock();
}

[[maybe_unused]] const int installed = pthread_atfork(BeforeFork, AfterFork, AfterFork);

}  // namespace

void HandleTable::SlotLock::lock() {
  while (flag.test_and_set(std::memory_order_acquire)) {
    // The holder has lost its core: nothing else takes so long.
    std::this_thread::yield();
  }
}

HandleTable::HandleTable(const char* kind, uint64_t number) : kind_(kind), number_(number) {
  const std::lock_guard<std::mutex> lock(Tables::Get().mutex);
  Tables::Get().all.insert(this);
}

HandleTable::~HandleTable() {
  {
    const std::lock_guard<std::mutex> lock(Tables::Get().mutex);
    Tables::Get().all.erase(this);
  }
  for (std::atomic<Slot*>& block : blocks_) delete[] block.load(std::memory_order_relaxed);
}

HandleTable::Slot* HandleTable::FindSlot(size_t index) const {
  const size_t number = index + kFirstBlockSlots;
  const size_t block = static_cast<size_t>(std::bit_width(number / kFirstBlockSlots)) - 1;
  // Acquire: pairs with the release store of TakeFreeSlot.
  Slot* const slots = blocks_[block].load(std::memory_order_acquire);
  return slots == nullptr ? nullptr : slots + (number - (kFirstBlockSlots << block));
}

size_t HandleTable::TakeFreeSlot() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t index = first_free_;
  if (index != kMaxSlots) {
    first_free_ = FindSlot(index)->next_free;
    return index;
  }
  if (num_slots_ == kMaxSlots) {
    throw ResourceExhausted(kind_, ": ", num_slots_, " handles exist already; free some");
  }
  if (FindSlot(num_slots_) == nullptr) {
    const auto block =
        static_cast<size_t>(std::bit_width((num_slots_ + kFirstBlockSlots) / kFirstBlockSlots) - 1);
    blocks_[block].store(new Slot[kFirstBlockSlots << block], std::memory_order_release);
  }
  return num_slots_++;
}

void HandleTable::PutFreeSlot(size_t index) {
  const std::lock_guard<std::mutex> lock(mutex_);
  FindSlot(index)->next_free = first_free_;
  first_free_ = index;
}

void* HandleTable::Add(std::shared_ptr<void> object) {
  const size_t index = TakeFreeSlot();
  Slot& slot = *FindSlot(index);
  const std::lock_guard<SlotLock> lock(LockOf(index));
  slot.object = std::move(object);
  const uint64_t handle = 1 | number_ << kKindShift | static_cast<uint64_t>(index) << kSlotShift |
                          (slot.uses & kUsesMask) << kUsesShift;
  return reinterpret_cast<void*>(handle);  // NOLINT: handles are numbers
}

HandleTable::Slot& HandleTable::SlotOf(const void* handle, size_t* index, uint64_t* uses) const {
  const auto number = reinterpret_cast<uint64_t>(handle);
  *index = (number >> kSlotShift) & kSlotMask;
  *uses = number >> kUsesShift;
  if ((number & 1) == 0 || ((number >> kKindShift) & kKindMask) != number_) ThrowNoHandle(handle);
  Slot* const slot = *index < kMaxSlots ? FindSlot(*index) : nullptr;
  if (slot == nullptr) ThrowNoHandle(handle);
  return *slot;
}

std::shared_ptr<void> HandleTable::Get(const void* handle) const {
  size_t index = 0;
  uint64_t uses = 0;
  const Slot& slot = SlotOf(handle, &index, &uses);
  {
    const std::lock_guard<SlotLock> lock(LockOf(index));
    if (slot.object != nullptr && (slot.uses & kUsesMask) == uses) return slot.object;
  }
  ThrowNoHandle(handle);
}

void HandleTable::Replace(const void* handle, const std::shared_ptr<void>& before,
                          std::shared_ptr<void> after) {
  size_t index = 0;
  uint64_t uses = 0;
  Slot& slot = SlotOf(handle, &index, &uses);
  bool exists = false;
  {
    const std::lock_guard<SlotLock> lock(LockOf(index));
    exists = slot.object != nullptr && (slot.uses & kUsesMask) == uses;
    // The old object is destroyed without a lock.
    if (exists && slot.object == before) {
      slot.object.swap(after);
      return;
    }
  }
  if (!exists) ThrowNoHandle(handle);
  throw FailedPrecondition(kind_, " was changed by another call meanwhile; expected calls that ",
                           "change one handle to follow each other");
}

void HandleTable::Remove(const void* handle) {
  size_t index = 0;
  uint64_t uses = 0;
  Slot& slot = SlotOf(handle, &index, &uses);
  std::shared_ptr<void> removed;  // destroyed without a lock
  {
    const std::lock_guard<SlotLock> lock(LockOf(index));
    if (slot.object != nullptr && (slot.uses & kUsesMask) == uses) {
      removed = std::move(slot.object);
      slot.object = nullptr;
      ++slot.uses;
    }
  }
  if (removed == nullptr) ThrowNoHandle(handle);
  PutFreeSlot(index);
}

void HandleTable::LockForFork() {
  mutex_.lock();
  for (SlotLock& lock : slot_locks_) lock.lock();
}

void HandleTable::UnlockAfterFork() {
  for (SlotLock& lock : slot_locks_) lock.unlock();
  mutex_.unlock();
}

void HandleTable::ThrowNoHandle(const void* handle) const {
  if (handle == nullptr) throw InvalidArgument("the handle of ", kind_, " is null");
  throw InvalidArgument(handle, " is no handle of ", kind_,
                        ": it was freed, or belongs to something else");
}

}  // namespace tessera::mxnet
