#ifndef TESSERA_ENGINE_OBSERVE_TRACE_RECORDER_H_
#define TESSERA_ENGINE_OBSERVE_TRACE_RECORDER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/core/execution.h"

namespace tessera::engine_internal {

/// An operation's push: what it waits for follows from the lists of all pushes, so nothing has to
/// be noted where operations make each other ready.
struct TracedPush {
  uint64_t sequence = 0;
  int64_t time_ns = 0;
  std::string name;
  std::source_location site;
  std::vector<std::pair<uint64_t, Access>> variables;  // by id
};

/// A call of an operation's function in some thread; without one where the
/// operation was skipped.
struct TracedRun {
  uint64_t sequence = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int row = 0;
  bool skipped = false;
  std::string name;
};

/// An operation that goes on after its function has returned: issued to a
/// stream, or asynchronous.
struct TracedEnd {
  uint64_t sequence = 0;
  int64_t issued_ns = 0;  ///< to the stream; not used without one
  int64_t end_ns = 0;
  int stream = -1;  ///< number of the stream; -1: asynchronous on the host
  std::string name;
};

/// The events of a trace, in no order.
struct TraceEvents {
  std::vector<TracedPush> pushes;
  std::vector<TracedRun> runs;
  std::vector<TracedEnd> ends;
  uint64_t dropped = 0;  ///< events for which there was no room
};

/// In the place of a time, where no trace was on.
inline constexpr int64_t kNotTraced = -1;

/// Rows from here on are those of threads that are not workers.
inline constexpr int kFirstOutsideRow = 10000;

/// Notes what the operations of one engine do, while it is on.
///
/// Threads: everything may be called from any thread. Each thread notes into a
/// buffer of its own, whose lock nobody else wants until the trace ends.
class TraceRecorder {
 public:
  /// `number` is this recorder's for as long as the process lives.
  explicit TraceRecorder(uint64_t number) : number_(number) {}

  /// Returns whether to call the others: one relaxed load, since nothing is ordered by it.
  bool on() const { return on_.load(std::memory_order_relaxed); }

  void Start();
  /// Returns what was noted since Start, with times in nanoseconds since then.
  TraceEvents Stop();

  /// Nanoseconds since some time that is the same for all traces, as what begins under one of them
  /// may end under the next. Positive.
  int64_t Now() const;

  // An event for which there is no memory counts as dropped: the push stands in its queues already,
  // and the operation has run.
  void Add(TracedPush push) noexcept;
  /// Adds the run with that name; `worker` is the row, or -1 for the calling thread's own.
  void Add(TracedRun run, std::string_view name, int worker) noexcept;
  /// Adds the end with that name.
  void Add(TracedEnd end, std::string_view name) noexcept;

 private:
  struct Buffer {
    FutexLock lock;
    int row = 0;
    TraceEvents events ABSL_GUARDED_BY(lock);
  };

  Buffer& OwnBuffer();
  template <typename AddToBuffer>
  void AddOrDrop(const AddToBuffer& add) noexcept;
  template <typename Event>
  static void AddTo(Buffer& buffer, std::vector<Event>& events, Event event);

  const uint64_t number_;
  std::atomic<bool> on_{false};
  std::atomic<int64_t> start_ns_{0};
  std::atomic<uint64_t> lost_{0};  // events for which there was no memory
  std::mutex mutex_;
  std::map<std::thread::id, std::unique_ptr<Buffer>> buffers_
      ABSL_GUARDED_BY(mutex_);  // only grows
};

/// The events in the JSON of Chrome's trace viewer and of Perfetto (the "Trace
/// Event Format").
std::string TraceToJson(TraceEvents events, uint64_t engine_id, int workers,
                        const std::vector<std::string>& streams);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_OBSERVE_TRACE_RECORDER_H_
