#ifndef TESSERA_COMPAT_MXNET_PROFILING_PROFILER_H_
#define TESSERA_COMPAT_MXNET_PROFILING_PROFILER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "tessera/compat/mxnet/profiling/statistics.h"
#include "tessera/compat/mxnet/profiling/trace.h"
#include "tessera/ndarray/call_observer.h"

namespace tessera::mxnet {

/// MXNet's options of a profile. As in MXNet 1.9.1, every kind of event is recorded, whatever the
/// options profile_symbolic and so on say.
struct ProfilerOptions {
  std::string filename = "profile.json";  ///< path of the trace
  bool aggregate_stats = false;           ///< whether statistics are kept
  bool continuous_dump = false;           ///< whether the trace is also written from time to time
  float dump_period = 1;                  ///< that time in seconds
};

/// The process's profiler: records the calls of operators and of the API, the host's memory, and
/// what clients measure, as a trace and as statistics.
///
/// At the process's end a trace that nobody has written is written. The child of a fork records
/// nothing until it starts the profiler itself.
///
/// Threads: every member may be called from any thread.
class Profiler final : public CallObserver {
 public:
  /// Returns the profiler, which is never destroyed.
  static Profiler& Get();
  /// Returns the time in nanoseconds of std::chrono::steady_clock.
  static int64_t NowNs();

  /// Sets the options, also of a running profile.
  void Configure(const ProfilerOptions& options);
  /// Starts or stops recording. Ends a pause, as in MXNet.
  void SetRunning(bool running);
  /// Leaves out, while `paused`, everything that happens.
  void SetPaused(bool paused);
  /// Returns whether events are recorded now.
  bool is_recording() const { return recording_.load(std::memory_order_relaxed); }

  /// Writes the trace since the profile's beginning to the file. With `finished`, also ends the
  /// profile, and the next begins with an empty trace. Throws Error(kFailedPrecondition) if the
  /// profiler has not run since, and what AtomicFile throws.
  void Dump(bool finished);

  /// Returns the statistics, or an empty text if none are kept. With `reset`, then forgets them.
  std::string Statistics(StatisticsFormat format, StatisticsOrder order, bool ascending,
                         bool reset);

  /// Record an event, if events are recorded.
  void AddDuration(std::string_view category, std::string_view name, int64_t begin_ns,
                   int64_t end_ns) noexcept;
  void AddCounter(std::string_view category, std::string_view name, int64_t value) noexcept;
  /// `scope` is 'g' for global, 'p' for process, 't' for thread.
  void AddMarker(std::string_view category, std::string_view name, char scope) noexcept;
  /// Records a call under its caller's name, "sigmoid::dot", in a category of clients' operators.
  /// As in MXNet, the operator "Custom" itself is left out: ClientCallTimer records it.
  void OnCall(std::string_view op, std::string_view caller, int64_t begin_ns,
              int64_t end_ns) noexcept override;
  void OnApiCall(std::string_view function, int64_t begin_ns, int64_t end_ns) noexcept;

 private:
  Profiler();
  void Update();
  void Write();
  void WriteAtPeriod();
  void WriteAtExit() noexcept;
  void StopInChild();
  void Record(TraceEventKind kind, std::string_view category, std::string_view name,
              int64_t begin_ns, int64_t end_ns, int64_t value = 0) noexcept;
  void AddStatistics(TraceEventKind kind, std::string_view category, std::string_view name,
                     int64_t duration_ns, int64_t value);

  std::atomic<bool> recording_{false};
  std::atomic<int64_t> memory_bytes_{-1};  // the last event's

  std::mutex mutex_;
  ProfilerOptions options_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_profile_ ABSL_GUARDED_BY(mutex_) = false;  // that Dump can write
  bool is_written_ ABSL_GUARDED_BY(mutex_) = true;    // has the file every event
  int64_t last_write_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  ProfileTrace trace_ ABSL_GUARDED_BY(mutex_);
  ProfileStatistics statistics_ ABSL_GUARDED_BY(mutex_);
};

/// Records the call of a client's operator as "NAME::pure_python" in the category of clients'
/// operators, and the calls that the thread makes meanwhile as calls of NAME. Does nothing if no
/// events are recorded when it begins.
class ClientCallTimer {
 public:
  /// `name` is the operator's, or "_backward_" and its name, and must live until the process ends.
  explicit ClientCallTimer(const std::string& name);
  ~ClientCallTimer();
  ClientCallTimer(const ClientCallTimer&) = delete;
  ClientCallTimer& operator=(const ClientCallTimer&) = delete;

 private:
  const std::string& name_;
  std::optional<CallerScope> caller_;  // while events are recorded
  int64_t begin_ns_ = 0;
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_PROFILING_PROFILER_H_
