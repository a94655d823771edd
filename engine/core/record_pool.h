#ifndef TESSERA_ENGINE_CORE_RECORD_POOL_H_
#define TESSERA_ENGINE_CORE_RECORD_POOL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/engine/core/futex_lock.h"

namespace tessera::engine_internal {

/// Recycles records of one type: taken by the threads that push, given back by those that run.
///
/// A record is constructed once and keeps what it owns (buffers) between uses. Its memory stays a
/// `Record` until the pool ends, so that a stale pointer may be looked at under the record's own
/// lock. `Record` has a member `Record* next`, which is the pool's while the record is free.
///
/// Take and Give may overlap in any number of threads. A thread that takes a record sees everything
/// that was done to it before Give.
template <typename Record, typename Memory = StdMemory>
class RecordPool {
 public:
  RecordPool() = default;
  RecordPool(const RecordPool&) = delete;
  RecordPool& operator=(const RecordPool&) = delete;

  Record* Take() {
    std::lock_guard<Lock> hold(lock_);
    if (free_ == nullptr) Refill();
    Record* record = free_;
    free_ = record->next;
    PrefetchToWrite(free_);
    return record;
  }

  void Give(Record* record) {
    // Relaxed load: only a guess for the exchange below, and never dereferenced.
    Record* head = returned_.load(std::memory_order_relaxed);
    do {
      record->next = head;
      // Release: pairs with the acquire in Refill. ABA cannot hurt: nobody removes single records
      // from this list, Refill takes all of it.
    } while (!returned_.compare_exchange_weak(head, record, std::memory_order_release,
                                              std::memory_order_relaxed));
  }

  /// Calls fn(record) for every record, free ones too, in no order. Records made meanwhile may be
  /// left out.
  template <typename Fn>
  void ForEach(Fn&& fn) {
    std::vector<Record*> slabs;
    {
      std::lock_guard<Lock> hold(lock_);
      for (const auto& slab : slabs_) slabs.push_back(slab.get());
    }
    for (Record* slab : slabs) {
      for (size_t i = 0; i < kSlabRecords; ++i) fn(slab[i]);
    }
  }

 private:
  using Lock = BasicFutexLock<Memory>;

  /// Prefetches the next record, which may be null: if very many are in use it has left the caches.
  static void PrefetchToWrite(const Record* record) {
    constexpr size_t kLine = 64;
    for (size_t i = 0; i < sizeof(Record); i += kLine) {
      __builtin_prefetch(reinterpret_cast<const char*>(record) + i, /*rw=*/1);
    }
  }

  static constexpr size_t kSlabRecords = 64;

  void Refill() {
    free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    if (free_ != nullptr) return;
    slabs_.push_back(std::make_unique<Record[]>(kSlabRecords));
    Record* slab = slabs_.back().get();
    for (size_t i = 0; i < kSlabRecords; ++i) {
      slab[i].next = i + 1 < kSlabRecords ? &slab[i + 1] : nullptr;
    }
    free_ = slab;
  }

  Lock lock_;
  typename Memory::template Plain<Record*> free_ = nullptr;  // guarded by lock_
  std::vector<std::unique_ptr<Record[]>> slabs_;             // guarded by lock_

  // On a cache line of its own: those who give would otherwise slow down those who take.
  alignas(64) typename Memory::template Atomic<Record*> returned_{nullptr};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_RECORD_POOL_H_
