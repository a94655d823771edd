#include "tessera/engine/observe/describe.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/variable_queue.h"
#include "tessera/engine/device/stream_set.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/schedule/schedule_plan.h"

namespace tessera::engine_internal {
namespace {

// A line per variable and a few names in it keep a report readable, however much pends.
constexpr int kMaxVariables = 100;
constexpr int kMaxListed = 8;

std::string DescribePush(std::string_view name, uint64_t sequence,
                         const std::source_location& site) {
  return absl::StrCat("\"", std::string(name), "\" (push ", sequence, " at ", site.file_name(), ":",
                      site.line(), ")");
}

std::string Describe(const Execution& execution) {
  switch (execution.kind) {
    case ExecutionKind::kWait:
      return "(a wait)";
    case ExecutionKind::kDelete:
      return "(the deletion)";
    default:
      break;
  }
  return absl::StrCat(execution.is_replay() ? "replay of " : "",
                      DescribePush(execution.display_name(), execution.sequence, execution.site));
}

/// Describes the operation that runs, of something in a BegunList; empty for a visit that runs
/// none.
std::string DescribeBegun(const Execution& execution) {
  const Replay* replay = nullptr;
  std::string text;
  if (execution.kind == ExecutionKind::kVisit) {
    const auto& visit = static_cast<const VisitExecution&>(execution);
    const RecordedPush* push = visit.push.load(std::memory_order_relaxed);
    // An asynchronous one is in the list itself.
    if (push == nullptr || std::holds_alternative<AsyncFn>(push->op->fn)) return text;
    replay = visit.visited;
    text = DescribePush(push->display_name(),
                        replay->first_sequence + (push - &replay->plan.push(0)), push->site);
  } else {
    if (execution.kind == ExecutionKind::kStep) {
      replay = static_cast<const AsyncStep&>(execution).of;
    }
    text = Describe(execution);
  }
  if (replay != nullptr) absl::StrAppend(&text, " in a replay of \"", replay->plan.name(), "\"");
  return text;
}

const char* AccessName(Access access) {
  switch (access) {
    case Access::kRead:
      return "read ";
    case Access::kWrite:
      return "write ";
    case Access::kUpdate:
      break;
  }
  return "update ";
}

/// Lists the executions from `edge` on, after `title`. Requires the variable's lock.
void AppendList(const Edge* edge, const char* title, std::string* text) {
  int count = 0;
  for (; edge != nullptr; edge = edge->next) {
    if (++count > kMaxListed) continue;
    absl::StrAppend(text, count == 1 ? title : ", ", AccessName(edge->access()),
                    Describe(*edge->execution));
  }
  if (count > kMaxListed) absl::StrAppend(text, " and ", count - kMaxListed, " more");
}

bool IsPending(const FenceRef& fence) { return fence != nullptr && !fence->done.load(); }

/// Returns whether a device may still use the variable. Requires the variable's lock.
bool IsIssued(const DependencyVariable& variable) {
  if (variable.device_uses == nullptr) return false;
  const DeviceUses& uses = *variable.device_uses;
  return IsPending(uses.write) || std::any_of(uses.reads.begin(), uses.reads.end(), IsPending);
}

void AppendFence(const FenceRef& fence, const char* access, std::string* text) {
  if (!IsPending(fence)) return;
  absl::StrAppend(text, "; on stream ", fence->stream->name(), ": ", access,
                  DescribePush(fence->operation, fence->sequence, fence->site));
}

/// Requires the variable's lock, which keeps the executions at it from completing.
std::string DescribePending(const DependencyVariable& variable) {
  std::string text = absl::StrCat("  ", variable.ToString(), ": ");
  if (variable.writer != nullptr) {
    absl::StrAppend(&text, "held for writing by ", Describe(*variable.writer));
  } else if (variable.readers != nullptr) {
    AppendList(variable.readers, "held by ", &text);
  }
  if (variable.device_uses != nullptr) {
    AppendFence(variable.device_uses->write, "write ", &text);
    for (const FenceRef& read : variable.device_uses->reads) AppendFence(read, "read ", &text);
  }
  AppendList(variable.head, "; queued: ", &text);
  return text + "\n";
}

bool IsQueued(DependencyVariable& variable, const Execution* execution) {
  std::lock_guard<FutexLock> hold(variable.lock);
  for (const Edge* edge = variable.head; edge != nullptr; edge = edge->next) {
    if (edge->execution == execution) return true;
  }
  return false;
}

}  // namespace

std::string DescribeAwaited(DependencyVariable* variable) {
  std::string text;
  for (int depth = 0; variable != nullptr && depth < kMaxListed; ++depth) {
    const Execution* holder;  // only compared: it may be complete and reused
    std::vector<DependencyVariable*> others;
    {
      // Its memory stays even if it is deleted: see RecordPool.
      std::lock_guard<FutexLock> hold(variable->lock);
      absl::StrAppend(&text, depth == 0 ? "awaited:\n" : "which needs its turn on:\n",
                      DescribePending(*variable));
      Execution* first = variable->writer;
      if (first == nullptr && variable->readers != nullptr) first = variable->readers->execution;
      if (first != nullptr) {
        // It cannot complete while the lock is held.
        for (const Edge& edge : first->edges()) {
          if (edge.variable() != variable) others.push_back(edge.variable());
        }
      }
      holder = first;
    }
    const auto next = std::find_if(others.begin(), others.end(), [&](DependencyVariable* other) {
      return IsQueued(*other, holder);
    });
    variable = next == others.end() ? nullptr : *next;
  }
  return text;
}

std::string DescribeEngine(const EngineState& state) {
  if (state.fork_watch.forked()) return absl::StrCat("engine ", state.id, ", made before a fork\n");
  const EngineCounters totals = state.progress.counters();
  std::string text = absl::StrCat("engine ", state.id, " with ", state.scheduler->num_workers(),
                                  " worker(s)", state.scheduler->stopped() ? ", stopped" : "",
                                  ": pushed ", totals.pushed, ", run ", totals.run, ", skipped ",
                                  totals.skipped, ", pending ", totals.pending, "\n");
  // Also those on no variable, which the lists below have not.
  text += state.scheduler->Describe([](const Execution& execution) { return Describe(execution); });
  int begun = 0;
  state.begun.ForEach([&](const Execution& execution) {
    const std::string operation = begun > kMaxListed ? "" : DescribeBegun(execution);
    if (operation.empty() || ++begun > kMaxListed) return;
    absl::StrAppend(&text, begun == 1 ? "  begun, on no variable's queue: " : ", ", operation);
  });
  if (begun > 0) absl::StrAppend(&text, begun > kMaxListed ? ", …" : "", "\n");
  int listed = 0;
  state.variables.ForEach([&](DependencyVariable& variable) {
    std::lock_guard<FutexLock> hold(variable.lock);
    const bool pending = variable.writer != nullptr || variable.readers != nullptr ||
                         variable.head != nullptr || IsIssued(variable);
    if (pending && ++listed <= kMaxVariables) text += DescribePending(variable);
  });
  if (listed > kMaxVariables) {
    absl::StrAppend(&text, "  and ", listed - kMaxVariables, " more variables\n");
  }
  return text;
}

}  // namespace tessera::engine_internal
