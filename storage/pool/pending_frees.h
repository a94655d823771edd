#ifndef TESSERA_STORAGE_POOL_PENDING_FREES_H_
#define TESSERA_STORAGE_POOL_PENDING_FREES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/storage/device/stream_events.h"
#include "tessera/storage/pool/block.h"

namespace tessera::storage_internal {

/// Keeps blocks that were freed in the order of a stream, whose work may still use them. Not
/// thread-safe: the pool calls it under its lock.
class PendingFrees {
 public:
  explicit PendingFrees(std::shared_ptr<StreamEvents> events) : events_(std::move(events)) {}
  ~PendingFrees() {
    WaitForAll([](Block*) {});
    for (Queue& queue : queues_) {
      while (!queue.frees.empty()) PopFront(&queue);
    }
  }
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  /// Returns false if the device has no streams. No block then pends.
  bool HasStreams() const { return events_ != nullptr; }
  bool empty() const { return bytes_ == 0; }
  int64_t bytes() const { return bytes_; }

  /// Keeps the block until the stream has done all work submitted so far. Keeps it for ever if the
  /// device fails and cannot tell.
  /// Throws std::bad_alloc and the errors of StreamEvents. The block is then not kept.
  void Add(Block* block, void* stream);

  /// Removes a block of at least that size, and little more, that was freed on the stream, and
  /// returns it, or null. Work that is submitted to the stream from now on runs after the work that
  /// used the block.
  /// Throws the errors of StreamEvents::Identify.
  Block* TakeOnStream(void* stream, int64_t rounded_bytes);

  /// Removes each block whose work is done and calls `put(block)`. Each stream's events happen in
  /// order, so one query more than there are such blocks is enough.
  template <typename PutBlock>
  void CollectDone(const PutBlock& put) {
    for (Queue& queue : queues_) {
      while (!queue.frees.empty() && events_->HasHappened(queue.frees.front().event)) {
        put(PopFront(&queue));
      }
    }
  }

  /// Waits for the oldest block of each stream in turn, removes it and calls `put(block)`. Stops
  /// when that returns true or no block is left to wait for.
  template <typename PutBlock>
  void WaitUntil(const PutBlock& put) {
    for (bool waited = true; waited;) {
      waited = false;
      for (Queue& queue : queues_) {
        if (queue.frees.empty() || !events_->Wait(queue.frees.front().event)) continue;
        waited = true;
        if (put(PopFront(&queue))) return;
      }
    }
  }
  template <typename PutBlock>
  void WaitForAll(const PutBlock& put) {
    WaitUntil([&put](Block* block) {
      put(block);
      return false;
    });
  }

 private:
  struct Free {
    Block* block = nullptr;
    void* event = nullptr;
  };
  struct Queue {
    uint64_t stream = 0;     // the result of StreamEvents::Identify
    std::deque<Free> frees;  // in the stream's order
  };

  Queue* FindQueue(uint64_t stream);
  Block* PopFront(Queue* queue);
  Block* Forget(const Free& free);

  const std::shared_ptr<StreamEvents> events_;
  std::vector<Queue> queues_;
  int64_t bytes_ = 0;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_PENDING_FREES_H_
