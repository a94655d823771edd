#include "tessera/engine/observe/stall_report.h"

#include "absl/strings/str_cat.h"
#include "tessera/engine/observe/describe.h"

namespace tessera::engine_internal {

void StallReporter::Sleep(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                          std::string_view what, absl::FunctionRef<bool()> done, StallClock& clock,
                          DependencyVariable* awaited) const {
  while (clock.pending()) {
    if (condition.wait_until(lock, clock.due(), done)) return;
    lock.unlock();  // DebugString takes its time, and those who could wake us need the mutex
    if (clock.TakeDue()) Report(what, awaited);
    lock.lock();
  }
  condition.wait(lock, done);
}

void StallReporter::Report(std::string_view what, DependencyVariable* awaited) const noexcept {
  try {
    report_(absl::StrCat(
        "tessera engine: ", std::string(what), " has lasted longer than ", limit_ms_, " ms\n",
        awaited == nullptr ? std::string() : DescribeAwaited(awaited), describe_()));
  } catch (...) {
    // No memory for it, perhaps. The wait has to go on, for others have pointers to it.
  }
}

}  // namespace tessera::engine_internal
