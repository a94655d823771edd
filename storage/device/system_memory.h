#ifndef TESSERA_STORAGE_DEVICE_SYSTEM_MEMORY_H_
#define TESSERA_STORAGE_DEVICE_SYSTEM_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "tessera/storage/device/poison.h"
#include "tessera/storage/device/system_allocator.h"

namespace tessera::storage_internal {

/// Allocates memory from the system for a pool: counts it, enforces the limit, and poisons new
/// memory, all of which is free at first. Not thread-safe.
class SystemMemory {
 public:
  SystemMemory(std::shared_ptr<SystemAllocator> allocator, int64_t limit_bytes)
      : allocator_(std::move(allocator)),
        poison_(allocator_->host_accessible()),
        copied_by_fork_(allocator_->copied_by_fork()),
        limit_bytes_(limit_bytes) {}

  /// Returns null if the system refuses or the limit forbids the allocation.
  char* Allocate(int64_t size_bytes) {
    if (size_bytes > limit_bytes_ - reserved_bytes()) return nullptr;
    void* ptr = allocator_->Allocate(size_bytes);
    if (ptr == nullptr) {
      ++failures_;
      return nullptr;
    }
    ++allocations_;
    AddReserved(size_bytes);
    peak_reserved_bytes_ = std::max(peak_reserved_bytes_, reserved_bytes());
    if (poison_) PoisonMemory(ptr, size_bytes);
    return static_cast<char*>(ptr);
  }

  void Release(char* ptr, int64_t size_bytes) noexcept {
    if (poison_) UnpoisonMemory(ptr, size_bytes);
    allocator_->Release(ptr, size_bytes);
    AddReserved(-size_bytes);
  }

  void set_limit_bytes(int64_t limit_bytes) { limit_bytes_ = limit_bytes; }
  int64_t limit_bytes() const { return limit_bytes_; }
  /// The bytes held from the system. Unlike the other members this one is thread-safe.
  int64_t reserved_bytes() const { return reserved_bytes_.load(std::memory_order_relaxed); }
  int64_t peak_reserved_bytes() const { return peak_reserved_bytes_; }
  int64_t allocations() const { return allocations_; }
  int64_t failures() const { return failures_; }
  bool poison() const { return poison_; }
  bool copied_by_fork() const { return copied_by_fork_; }

 private:
  void AddReserved(int64_t change) {
    reserved_bytes_.store(reserved_bytes() + change, std::memory_order_relaxed);
  }

  const std::shared_ptr<SystemAllocator> allocator_;
  const bool poison_;
  const bool copied_by_fork_;
  int64_t limit_bytes_;
  // The pool's lock guards writes. The timeline reads it without the lock. Relaxed: the number
  // orders nothing.
  std::atomic<int64_t> reserved_bytes_{0};
  int64_t peak_reserved_bytes_ = 0;
  int64_t allocations_ = 0;
  int64_t failures_ = 0;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_DEVICE_SYSTEM_MEMORY_H_
