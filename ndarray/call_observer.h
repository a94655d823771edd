#ifndef TESSERA_NDARRAY_CALL_OBSERVER_H_
#define TESSERA_NDARRAY_CALL_OBSERVER_H_

#include <cstdint>
#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera {

/// Receives the operators' calls, for a profiler.
class CallObserver {
 public:
  CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;

  /// Receives a call that has succeeded: the operator's name, or "_backward_" and its name, and the
  /// times in nanoseconds of std::chrono::steady_clock. On a GPU, the times are those of enqueuing
  /// the work. Runs in the thread that ran the operator; calls may overlap.
  virtual void OnCall(std::string_view op, int64_t begin_ns, int64_t end_ns) noexcept = 0;

 protected:
  ~CallObserver() = default;
};

/// Lets `observer` receive the process's calls that begin from here on, or nobody if it is null.
/// Calls that run may still report to the observer before, which must therefore live until the
/// process ends. Without an observer, a call only looks at a pointer. Thread-safe.
void SetCallObserver(CallObserver* observer);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_CALL_OBSERVER_H_
