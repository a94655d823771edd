#ifndef TESSERA_COMPAT_MXNET_PROFILING_TRACE_H_
#define TESSERA_COMPAT_MXNET_PROFILING_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tessera::mxnet {

/// The kind of a trace's event.
enum class TraceEventKind : uint8_t {
  kCall,      ///< a function's call: calls of one thread lie inside of each other or apart
  kDuration,  ///< a time that a client measured
  kCounter,   ///< a counter's new value
  kMarker,    ///< a moment
};

/// The events of a process by time, for the trace viewers of Chrome and Perfetto.
///
/// Threads: calls must not overlap.
class ProfileTrace {
 public:
  /// Adds an event of the calling thread, from `begin_ns` to `end_ns` of
  /// std::chrono::steady_clock. A counter's value, or a marker's scope ('g' for global, 'p'
  /// process, 't' thread), stands in `value`. Beyond a million events, counts it as dropped.
  void Add(TraceEventKind kind, std::string_view category, std::string_view name, int64_t begin_ns,
           int64_t end_ns, int64_t value = 0);

  /// Returns the events as JSON (the "Trace Event Format"), as MXNet writes them: each category is
  /// a process, and times are microseconds since 1970. Viewers ignore two of MXNet's phases, for
  /// which the format's own stand here: frames are durations, and markers are instant events.
  std::string ToJson() const;

  size_t size() const { return events_.size(); }
  void Clear();

 private:
  struct Event {
    TraceEventKind kind;
    int category;  // in names_, as is the name
    int name;
    int thread;
    int64_t begin_ns;
    int64_t end_ns;
    int64_t value;
  };

  int NumberOf(std::string_view name);
  void Write(const Event& event, std::string* json) const;
  void WriteHalf(const Event& event, std::string_view phase, int64_t time_ns,
                 const std::string& fields, std::string* json) const;

  std::vector<Event> events_;
  int64_t dropped_ = 0;
  std::map<std::string, int, std::less<>> numbers_;
  std::vector<std::string> names_;
  std::map<std::thread::id, int> threads_;
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_PROFILING_TRACE_H_
