#ifndef TESSERA_STORAGE_TESTING_SIMULATED_STREAMS_H_
#define TESSERA_STORAGE_TESTING_SIMULATED_STREAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "tessera/base/error.h"
#include "tessera/storage/device/stream_events.h"

namespace tessera {

/// Simulates streams for tests, which do their work when the test says so. A stream's handle is any
/// pointer. Thread-safe.
class SimulatedStreams final : public StreamEvents {
 public:
  /// Submits a piece of work to a stream.
  void Enqueue(void* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++streams_[IdentityOf(stream)].enqueued;
  }
  /// Lets the stream do its next `count` pieces of work.
  void Run(void* stream, int64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_[IdentityOf(stream)].done += count;
  }
  /// Destroys the stream with its work undone. A new stream gets its handle.
  void Replace(void* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    identities_[stream] = ++last_identity_;
  }
  /// Fails the device: its events cannot be queried any more.
  void Fail() {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
  }
  void FailNextRecord() {
    const std::lock_guard<std::mutex> lock(mutex_);
    fail_next_record_ = true;
  }
  /// The number of times that the host had to wait.
  int64_t waits() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return waits_;
  }
  int64_t live_events() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(events_.size());
  }

  void* Record(void* stream) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (fail_next_record_) {
      fail_next_record_ = false;
      throw FailedPrecondition("SimulatedStreams: no event, on purpose");
    }
    const uint64_t identity = IdentityOf(stream);
    auto event = std::make_unique<Event>(Event{identity, streams_[identity].enqueued});
    events_.insert(event.get());
    return event.release();
  }
  uint64_t Identify(void* stream) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return IdentityOf(stream);
  }
  bool HasHappened(void* event) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto* const known = static_cast<Event*>(event);
    return !failed_ && streams_[known->stream].done >= known->after;
  }
  bool Wait(void* event) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failed_) return false;
    const auto* const known = static_cast<Event*>(event);
    Stream& stream = streams_[known->stream];
    if (stream.done >= known->after) return true;
    ++waits_;
    stream.done = known->after;
    return true;
  }
  void Release(void* event) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto* const known = static_cast<Event*>(event);
    events_.erase(known);
    delete known;
  }

 private:
  struct Stream {
    int64_t enqueued = 0;
    int64_t done = 0;
  };
  struct Event {
    uint64_t stream = 0;
    int64_t after = 0;  // the number of pieces after which it happens
  };

  uint64_t IdentityOf(void* stream) {
    uint64_t& identity = identities_[stream];
    if (identity == 0) identity = ++last_identity_;
    return identity;
  }

  mutable std::mutex mutex_;
  bool fail_next_record_ = false;
  bool failed_ = false;
  int64_t waits_ = 0;
  std::map<void*, uint64_t> identities_;  // from a stream's handle to its identity
  uint64_t last_identity_ = 0;
  std::map<uint64_t, Stream> streams_;  // from identity to stream
  std::set<Event*> events_;
};

}  // namespace tessera

#endif  // TESSERA_STORAGE_TESTING_SIMULATED_STREAMS_H_
