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

/// Blocks that were freed in the order of a stream whose work may still use them. Not thread-safe;
/// the pool calls it under its lock.
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

  /// False where all work is done when its call returns, so that nothing ever pends.
  bool HasStreams() const { return events_ != nullptr; }
  bool empty() const { return bytes_ == 0; }
  int64_t bytes() const { return bytes_; }

  /// Keeps the block until the stream has done what it was given so far; for ever, if the device
  /// cannot tell that.
  /// Throws std::bad_alloc and what StreamEvents throws; the block is then not kept.
  void Add(Block* block, void* stream);

  /// A block of at least that size, and hardly more, that was freed on the stream, or null. What
  /// the stream is given next runs after the work that used the block.
  /// Throws what StreamEvents::Identify throws.
  Block* TakeOnStream(void* stream, int64_t rounded_bytes);

  /// Calls `put(block)` for each block whose work is done. On each stream events happen in order,
  /// so this costs one question more than blocks.
  template <typename PutBlock>
  void CollectDone(const PutBlock& put) {
    for (Queue& queue : queues_) {
      while (!queue.frees.empty() && events_->HasHappened(queue.frees.front().event)) {
        put(PopFront(&queue));
      }
    }
  }

  /// Waits, the earliest block of each stream in turn, and calls `put(block)`, until that returns
  /// true or nothing pends that could be waited for.
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
    uint64_t stream = 0;     // as StreamEvents::Identify says
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
