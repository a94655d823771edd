#include "tessera/storage/pool/pending_frees.h"

namespace tessera::storage_internal {
namespace {

// A block may exceed the request by this share of the block. Splitting it would need another event.
constexpr int64_t kMaxWasteShare = 8;

}  // namespace

PendingFrees::Queue* PendingFrees::FindQueue(uint64_t stream) {
  for (Queue& queue : queues_) {
    if (queue.stream == stream) return &queue;
  }
  return nullptr;
}

void PendingFrees::Add(Block* block, void* stream) {
  const uint64_t identity = events_->Identify(stream);
  // Programs create and destroy streams, so an empty queue is reused for another stream.
  Queue* queue = FindQueue(identity);
  for (size_t i = 0; queue == nullptr && i < queues_.size(); ++i) {
    if (queues_[i].frees.empty()) queue = &queues_[i];
  }
  if (queue == nullptr) queue = &queues_.emplace_back();
  queue->stream = identity;
  Free& free = queue->frees.emplace_back();
  try {
    free.event = events_->Record(stream);
  } catch (...) {
    queue->frees.pop_back();
    throw;
  }
  free.block = block;
  bytes_ += block->size_bytes;
}

Block* PendingFrees::TakeOnStream(void* stream, int64_t rounded_bytes) {
  if (empty()) return nullptr;
  Queue* const queue = FindQueue(events_->Identify(stream));
  if (queue == nullptr) return nullptr;
  // The newest comes first, because it is the likeliest to be in the device's caches.
  for (auto free = queue->frees.rbegin(); free != queue->frees.rend(); ++free) {
    const int64_t size_bytes = free->block->size_bytes;
    if (size_bytes < rounded_bytes || size_bytes - rounded_bytes > size_bytes / kMaxWasteShare) {
      continue;
    }
    Block* const block = Forget(*free);
    queue->frees.erase(std::next(free).base());
    return block;
  }
  return nullptr;
}

Block* PendingFrees::PopFront(Queue* queue) {
  Block* const block = Forget(queue->frees.front());
  queue->frees.pop_front();
  return block;
}

Block* PendingFrees::Forget(const Free& free) {
  events_->Release(free.event);
  bytes_ -= free.block->size_bytes;
  return free.block;
}

}  // namespace tessera::storage_internal
