#ifndef TESSERA_STORAGE_TESTING_FAKE_SYSTEM_ALLOCATOR_H_
#define TESSERA_STORAGE_TESTING_FAKE_SYSTEM_ALLOCATOR_H_

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>

#include "tessera/storage/device/system_allocator.h"

namespace tessera {

/// An allocator for tests. It fails on request and remembers its live allocations. Thread-safe.
class FakeSystemAllocator final : public SystemAllocator {
 public:
  /// Makes one call of Allocate fail: the n-th from now, counted from 0.
  void FailCall(int64_t n) { FailCalls(n, 1); }
  /// Makes `count` calls of Allocate fail, beginning with the n-th from now. Fails none if it is 0.
  void FailCalls(int64_t n, int64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_until_failure_ = n;
    failures_ = count;
    has_failed_ = false;
  }
  /// Simulates a machine with that much memory.
  void SetCapacity(int64_t capacity_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    capacity_bytes_ = capacity_bytes;
  }
  /// Returns true once a requested failure has happened.
  bool has_failed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return has_failed_;
  }
  int64_t outstanding_bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return outstanding_bytes_;
  }
  int64_t outstanding() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(sizes_.size());
  }
  /// The number of releases with a wrong pointer or size.
  int64_t wrong_releases() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return wrong_releases_;
  }

  void* Allocate(int64_t size_bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (IsToFail()) return nullptr;
    if (size_bytes > capacity_bytes_ - outstanding_bytes_) return nullptr;
    void* ptr = std::aligned_alloc(64, static_cast<size_t>((size_bytes + 63) / 64 * 64));
    if (ptr == nullptr) return nullptr;
    try {
      sizes_.emplace(ptr, size_bytes);
    } catch (const std::bad_alloc&) {
      std::free(ptr);
      return nullptr;
    }
    outstanding_bytes_ += size_bytes;
    return ptr;
  }

  void Release(void* ptr, int64_t size_bytes) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = sizes_.find(ptr);
    if (found == sizes_.end() || found->second != size_bytes) {
      ++wrong_releases_;
      return;
    }
    outstanding_bytes_ -= size_bytes;
    sizes_.erase(found);
    std::free(ptr);
  }

 private:
  bool IsToFail() {
    if (failures_ == 0 || calls_until_failure_-- > 0) return false;
    --failures_;
    has_failed_ = true;
    return true;
  }

  mutable std::mutex mutex_;
  int64_t calls_until_failure_ = 0;
  int64_t failures_ = 0;
  bool has_failed_ = false;
  int64_t capacity_bytes_ = int64_t{1} << 50;
  int64_t outstanding_bytes_ = 0;
  int64_t wrong_releases_ = 0;
  std::map<void*, int64_t> sizes_;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_TESTING_FAKE_SYSTEM_ALLOCATOR_H_
