#ifndef TESSERA_ENGINE_CORE_ENGINE_STATE_H_
#define TESSERA_ENGINE_CORE_ENGINE_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/engine/core/begun_list.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/failure.h"
#include "tessera/engine/core/progress.h"
#include "tessera/engine/core/record_pool.h"
#include "tessera/engine/core/scheduler.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/observe/stall_report.h"
#include "tessera/engine/observe/trace_recorder.h"

namespace tessera::engine_internal {

/// EngineOptions with every default filled in.
struct ResolvedOptions {
  int workers = 1;
  int64_t max_pending = 0;
  int64_t stall_report_ms = 0;
  std::function<void(const std::string&)> stall_report;
};

/// The records and counters that the parts of an engine share. Each member has its own lock.
struct EngineState {
  /// `describe` returns the text of DebugString.
  EngineState(Engine* its_engine, const ResolvedOptions& options,
              std::function<std::string()> describe);

  Engine* const engine;
  const ForkWatch fork_watch;
  const uint64_t id;
  TraceRecorder trace;
  const StallReporter stall;
  Progress progress;
  FailureLog failures;
  // Mutable, because DebugString looks at records under their locks.
  mutable RecordPool<DependencyVariable> variables;
  RecordPool<Execution> executions;
  /// Operations and replays without variables, the visits and the asynchronous operations of
  /// replays, and operations that are complete before their functions have returned.
  BegunList begun;
  /// Set by the first push for a device. Relaxed everywhere: the fence that such an operation
  /// leaves with a variable is seen through the variable's lock, and the flag with it.
  std::atomic<bool> uses_devices{false};
  std::unique_ptr<Scheduler> scheduler;  ///< set once, before anyone else has the state
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_ENGINE_STATE_H_
