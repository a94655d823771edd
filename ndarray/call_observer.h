#ifndef TESSERA_NDARRAY_CALL_OBSERVER_H_
#define TESSERA_NDARRAY_CALL_OBSERVER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera {

/// Receives the operators' calls, for a profiler.
class CallObserver {
 public:
  CallObserver() = default;
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;

  /// Receives a call that has succeeded: the operator's name, or "_backward_" and its name, the
  /// caller's (CallerScope), and the times in nanoseconds of std::chrono::steady_clock. On a GPU,
  /// the times are those of enqueuing the work. Runs in the thread that ran the operator; calls may
  /// overlap.
  virtual void OnCall(std::string_view op, std::string_view caller, int64_t begin_ns,
                      int64_t end_ns) noexcept = 0;

 protected:
  ~CallObserver() = default;
};

/// Names the caller of the operators that the thread calls while the object lives, for an observer.
/// Without one, the name is empty, as it is for the operators of an Executor. Scopes of a thread
/// end in the reverse order of their beginning.
class CallerScope {
 public:
  /// The name must live until the process ends: calls may be pending when the scope has ended.
  explicit CallerScope(const std::string& caller);
  explicit CallerScope(std::string&& caller) = delete;
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  const std::string* const outer_;  // the thread's caller before, or null
};

/// Lets `observer` receive the process's calls that begin from here on, or nobody if it is null.
/// Calls that run may still report to the observer before, which must therefore live until the
/// process ends. Without an observer, a call only looks at a pointer. Thread-safe.
void SetCallObserver(CallObserver* observer);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_CALL_OBSERVER_H_
