#ifndef TESSERA_ENGINE_OBSERVE_STALL_REPORT_H_
#define TESSERA_ENGINE_OBSERVE_STALL_REPORT_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace tessera::engine_internal {

class DependencyVariable;

/// Tells when a wait is to be reported, which happens once.
class StallClock {
 public:
  /// Never reports if `limit_ms` is 0.
  explicit StallClock(int64_t limit_ms) : pending_(limit_ms > 0) {
    if (pending_) due_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  }

  bool pending() const { return pending_; }
  std::chrono::steady_clock::time_point due() const { return due_; }
  /// Returns true once, when the report is due.
  bool TakeDue() {
    if (!pending_ || std::chrono::steady_clock::now() < due_) return false;
    pending_ = false;
    return true;
  }

 private:
  bool pending_;
  std::chrono::steady_clock::time_point due_;
};

/// Sleeps for an engine's waits, and reports those that last too long.
///
/// Threads: every member may be called from any thread.
class StallReporter {
 public:
  /// `report` receives a text that ends with what `describe` returns.
  StallReporter(int64_t limit_ms, std::function<void(const std::string&)> report,
                std::function<std::string()> describe)
      : limit_ms_(limit_ms), report_(std::move(report)), describe_(std::move(describe)) {}

  StallClock NewClock() const { return StallClock(limit_ms_); }

  /// Sleeps on the condition until done() holds, which is asked with the lock held. A report names
  /// the wait by `what`, and the queue of `awaited` unless that is null.
  void Sleep(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
             std::string_view what, absl::FunctionRef<bool()> done, StallClock& clock,
             DependencyVariable* awaited) const;
  void Sleep(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
             std::string_view what, absl::FunctionRef<bool()> done,
             DependencyVariable* awaited = nullptr) const {
    StallClock clock = NewClock();
    Sleep(condition, lock, what, done, clock, awaited);
  }

 private:
  void Report(std::string_view what, DependencyVariable* awaited) const noexcept;

  const int64_t limit_ms_;
  const std::function<void(const std::string&)> report_;
  const std::function<std::string()> describe_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_OBSERVE_STALL_REPORT_H_
