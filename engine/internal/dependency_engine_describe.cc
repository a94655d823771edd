// What DependencyEngine tells about itself.

#include <algorithm>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "tessera/engine/internal/dependency_engine.h"

namespace tessera::engine_internal {
namespace {

// A line per variable and a few names in it keep a report readable, however much pends.
constexpr int kMaxVariables = 100;
constexpr int kMaxQueued = 8;

std::string Describe(const Execution& execution) {
  switch (execution.kind) {
    case ExecutionKind::kWait:
      return "(a wait)";
    case ExecutionKind::kDelete:
      return "(the deletion)";
    case ExecutionKind::kOperation:
      break;
  }
  return absl::StrCat("\"", std::string(execution.display_name()), "\" (push ", execution.sequence,
                      " at ", execution.site.file_name(), ":", execution.site.line(), ")");
}

/// Requires the variable's lock, which keeps the executions in its queue from completing.
std::string DescribePending(const DependencyVariable& variable) {
  std::string text = absl::StrCat("  ", variable.ToString(), ": ");
  if (variable.writer != nullptr) {
    absl::StrAppend(&text, "held for writing by ", Describe(*variable.writer));
  } else {
    absl::StrAppend(&text, "held by ", variable.readers, " reader(s)");
  }
  int queued = 0;
  for (const Edge* edge = variable.head; edge != nullptr; edge = edge->next) {
    if (++queued > kMaxQueued) continue;
    absl::StrAppend(&text, queued == 1 ? "; queued: " : ", ", edge->write() ? "write " : "read ",
                    Describe(*edge->execution));
  }
  if (queued > kMaxQueued) absl::StrAppend(&text, " and ", queued - kMaxQueued, " more");
  return text + "\n";
}

}  // namespace

EngineCounters DependencyEngine::counters() const {
  EngineCounters counters;
  // In this order, so that no difference becomes negative while operations complete.
  counters.skipped = skipped_.load();
  const uint64_t completed = completed_.load();
  counters.pushed = pushed_.load();
  counters.run = completed - std::min(completed, counters.skipped);
  counters.pending = counters.pushed - completed;
  return counters;
}

std::string DependencyEngine::DebugString() const {
  const EngineCounters totals = counters();
  std::string text =
      absl::StrCat("engine ", id_, " with ", num_workers(), " worker(s)",
                   stopped_.load() ? ", stopped" : "", ": pushed ", totals.pushed, ", run ",
                   totals.run, ", skipped ", totals.skipped, ", pending ", totals.pending, "\n");
  int listed = 0;
  variables_.ForEach([&](DependencyVariable& variable) {
    std::lock_guard<FutexLock> hold(variable.lock);
    const bool pending =
        variable.writer != nullptr || variable.readers > 0 || variable.head != nullptr;
    if (pending && ++listed <= kMaxVariables) text += DescribePending(variable);
  });
  if (listed > kMaxVariables) {
    absl::StrAppend(&text, "  and ", listed - kMaxVariables, " more variables\n");
  }
  return text;
}

}  // namespace tessera::engine_internal
