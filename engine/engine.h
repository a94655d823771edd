#ifndef TESSERA_ENGINE_ENGINE_H_
#define TESSERA_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/device.h"
#include "tessera/engine/on_complete.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/variable.h"

namespace tessera {

class Engine;

/// Tells an operation's function where it runs.
struct RunContext {
  Device device;             ///< as given to the push
  void* stream = nullptr;    ///< the CUDA stream (a cudaStream_t) to enqueue on; null on a CPU
  Engine* engine = nullptr;  ///< the engine that runs the operation
  /// The pointers that ReplayOptions::slots gave, valid until the operation is complete; empty if
  /// the operation is not part of a replay.
  std::span<void* const> slots = {};
};

/// An operation's function. A synchronous operation is complete when its function has returned (for
/// a CUDA device, when the work that it enqueued is done), an asynchronous one when it calls the
/// OnComplete.
using SyncFn = std::function<void(RunContext)>;
using AsyncFn = std::function<void(RunContext, OnComplete)>;

/// The kind of work that an operation does.
enum class FnProperty : uint8_t {
  kNormal,
  kCopyFromGpu,     ///< copies from a CUDA device, on its copy-out stream
  kCopyToGpu,       ///< copies to a CUDA device, on its copy-in stream
  kCpuPrioritized,  ///< runs before every operation that is not, whatever their priorities
  kAsync,           ///< may block (IO, a request): a compensating thread works meanwhile
  kDeleteVariable,  ///< releases what a variable stands for: runs like kNoSkip
  kGpuPrioritized,  ///< on a CUDA device, a stream that goes before the others
  kNoSkip,          ///< runs even if what it reads carries an error, and does not inherit it
};

/// The optional part of a push.
struct PushOptions {
  /// The kind of work.
  FnProperty property = FnProperty::kNormal;
  /// Among operations that are ready to run, those with the higher number go first.
  int priority = 0;
  /// Appears in errors, in DebugString and in traces. Copied.
  std::string_view name = {};
  /// Variables that the operation reads and writes in place. They are ordered as written ones are,
  /// and an error that one carries skips the operation. Borrowed for the call.
  VariableList updates = {};
  /// Lets lists name a variable several times, within one and in two: the operation then uses it
  /// once, and updates it if it is named for more than one use. Otherwise that is an error.
  bool merge_duplicates = false;
  /// The function, for a CUDA device, enqueues the same work each time that it is called with the
  /// same slots, and does nothing else. See "Graphs" in schedule.h.
  bool capturable = false;
};

/// A function with its variables, checked once and pushed many times; made by Engine::NewOperator.
class EngineOperator {
 public:
  EngineOperator(const EngineOperator&) = delete;
  EngineOperator& operator=(const EngineOperator&) = delete;

 protected:
  EngineOperator() = default;
  ~EngineOperator() = default;
};

/// MXNet's name for it.
using Opr = EngineOperator;

/// The way in which an engine runs its operations.
enum class EngineKind {
  kDefault,   ///< TESSERA_ENGINE_TYPE: ThreadedEngine (also if it is not set) or NaiveEngine
  kThreaded,  ///< runs operations on worker threads
  kNaive,     ///< runs each operation in its push, for debugging; see docs/engine.md
};

/// The optional part of Engine::Create.
struct EngineOptions {
  /// The way in which it runs operations.
  EngineKind kind = EngineKind::kDefault;
  /// Threads that run operations; 0 takes TESSERA_NUM_THREADS, or else the machine's threads,
  /// divided by the processes that mpirun has started on it.
  int workers = 0;
  /// Back-pressure: while so many operations pend, a push waits. 0 never waits. Operations and
  /// their parallel loops push without waiting. Default: TESSERA_ENGINE_MAX_PENDING, or else 65536.
  std::optional<int64_t> max_pending = std::nullopt;
  /// Each wait that lasts longer reports DebugString(), once; 0 never does. Default:
  /// TESSERA_ENGINE_STALL_REPORT_MS, or else 0.
  std::optional<int64_t> stall_report_ms = std::nullopt;
  /// Receives these reports, in the waiting thread; must not throw. Default: stderr.
  std::function<void(const std::string&)> stall_report = nullptr;
};

/// Totals since the engine was made. Each operation of a replay counts.
struct EngineCounters {
  uint64_t pushed = 0;   ///< operations that were pushed
  uint64_t run = 0;      ///< functions that were called and are complete, failed ones included
  uint64_t skipped = 0;  ///< operations that were not called because an input carried an error
  uint64_t pending = 0;  ///< pushed - run - skipped
};

/// The operation that failed in the way that a wait has just rethrown.
struct FailedOperation {
  std::string name;                ///< as given to the push
  std::source_location pushed_at;  ///< the place of the push
};

/// Runs functions in the order that their declared reads and writes demand, and in parallel where
/// they allow.
///
/// Order: on each variable operations take effect in the order of their pushes. Reads between two
/// writes may run together; a write runs alone. Pushes of several threads are ordered as if each
/// were one instant. The effects of an operation are visible to every operation that is ordered
/// after it and to every thread whose wait covered it. Among ready operations the higher priority
/// goes first, then about the earlier push.
///
/// Errors: an exception of a function marks the variables that the operation writes. An operation
/// that reads or updates a marked variable is skipped, and marks its own outputs with the same
/// error. The first wait on any of these variables rethrows the exception, once, with the
/// operation's name and the place of its push in its message (for Error and the standard library's
/// types) and in LastFailure(). A write whose inputs are sound clears the mark.
///
/// Waits inside an operation: another operation runs meanwhile on a compensating thread, and what
/// the wait needs goes first. Hold no lock across a wait. A wait that needs its own operation to
/// complete throws Error(kFailedPrecondition). At most 1,024 operations wait at once: beyond that,
/// or if the system refuses a thread, a wait throws Error(kResourceExhausted). A wait for another
/// engine, or in a piece of a parallel loop, holds its worker.
///
/// Lifetime of captures: a synchronous function's captures are destroyed before its operation is
/// complete. An asynchronous function's, an operator's and a schedule's go a little later, in any
/// thread. Their destructors may push and wait.
///
/// Parallel loops: workers are threads of one TBB arena. Operations run isolated
/// (tbb::this_task_arena::isolate): a thread that waits for its own loop runs nothing else. No
/// cancelled task of the program cancels loops in operations, which NaiveEngine runs in the task.
///
/// Devices: a function for a CUDA device enqueues its work on RunContext::stream and returns. The
/// operations that depend on it follow on their streams without waiting on the host. The operation
/// is complete when the device is done; an error that the device reports then marks the variables.
///
/// Thread-safe: every member may be called from any thread at any time, unless it says otherwise.
/// The engine must outlive the calls. Variables and operators of another engine throw
/// Error(kInvalidArgument). The edge cases of all this are in docs/engine.md.
class Engine {
 public:
  /// Makes an engine, independent of all others. Throws Error(kInvalidArgument) for options or
  /// environment settings that are out of range, Error(kResourceExhausted) if the system has no
  /// threads for the workers.
  static std::unique_ptr<Engine> Create(const EngineOptions& options = {});

  /// Returns the process's default engine, made at the first call from the environment's settings.
  /// It lives until the process ends. At exit() operations that run are waited for and others are
  /// dropped; no operation may call exit() itself. The child of a fork has one of its own. See
  /// "Beginning and end" in docs/engine.md.
  static Engine* Get();

  /// The default engine for those who hold their engine by shared_ptr.
  static std::shared_ptr<Engine> GetShared();

  /// Calls Shutdown.
  virtual ~Engine() = default;

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Makes a variable that nothing has written. The name appears in messages; it is copied.
  virtual Variable* NewVariable(std::string_view name = {}) = 0;

  /// Deletes the variable after the last operation that was pushed on it. Returns at once, and
  /// takes no memory except inside a recording. The caller must not use the variable again.
  virtual void DeleteVariable(Variable* variable) = 0;

  /// Calls `fn` once all earlier writes of `reads` and all earlier operations on `writes` and
  /// `options.updates` are complete. Returns at once, unless EngineOptions::max_pending pend.
  ///
  /// Throws, and pushes nothing: Error(kInvalidArgument) if a variable is null, deleted or named
  /// twice (see PushOptions::merge_duplicates), or there is no such device; Error(kUnimplemented)
  /// for a CUDA device in a build without CUDA; Error(kFailedPrecondition) after Shutdown;
  /// std::bad_alloc.
  virtual void PushSync(SyncFn fn, Device device, VariableList reads, VariableList writes,
                        const PushOptions& options = {},
                        std::source_location site = std::source_location::current()) = 0;

  /// Like PushSync, but the operation is complete when its OnComplete is called, or when `fn`
  /// throws. It holds no worker after `fn` has returned.
  virtual void PushAsync(AsyncFn fn, Device device, VariableList reads, VariableList writes,
                         const PushOptions& options = {},
                         std::source_location site = std::source_location::current()) = 0;

  /// Makes an operation to push many times. Throws what PushSync throws for its lists. Each Push
  /// has a priority of its own in place of the one in `options`.
  virtual EngineOperator* NewOperator(
      SyncFn fn, VariableList reads, VariableList writes, const PushOptions& options = {},
      std::source_location site = std::source_location::current()) = 0;
  virtual EngineOperator* NewOperator(
      AsyncFn fn, VariableList reads, VariableList writes, const PushOptions& options = {},
      std::source_location site = std::source_location::current()) = 0;

  /// Pushes the operator. It may be pushed again while earlier pushes of it pend.
  virtual void Push(EngineOperator* op, Device device, int priority = 0,
                    std::source_location site = std::source_location::current()) = 0;

  /// Deletes the operator after its last pushed use; returns at once.
  virtual void DeleteOperator(EngineOperator* op) = 0;

  /// Calls `pushes` in this thread, and keeps what it pushes on this engine as a schedule to
  /// replay; nothing of that runs yet. `pushes` may make variables, and delete them: such a
  /// deletion takes place with the schedule's. Waits and replays inside `pushes` throw
  /// Error(kFailedPrecondition). Throws what `pushes` throws, with nothing recorded;
  /// Error(kFailedPrecondition) after Shutdown and inside another recording of this engine.
  virtual std::unique_ptr<Schedule> Record(const std::function<void()>& pushes,
                                           const RecordOptions& options = {}) = 0;

  /// Blocks until every write of `variable` that was pushed before the call is complete. Rethrows
  /// the error that the variable carries, if no wait has reported it. Throws
  /// Error(kFailedPrecondition) while the engine is stopped and writes pend, inside an operation
  /// unless the write that it needs runs already; see also "Waits inside an operation".
  virtual void WaitForVar(Variable* variable) = 0;

  /// Blocks until nothing pends. Then rethrows the oldest error that no wait has reported, also one
  /// whose variables are deleted or written afresh. When all are reported, unmarks every variable.
  /// Throws Error(kFailedPrecondition) inside an operation, and while the engine is stopped.
  virtual void WaitForAll() = 0;

  /// Rethrows the error that the variable holds and no wait has reported; does not wait. In the
  /// child of a fork it may be called for a variable from before the fork that is idle.
  virtual void Throw(Variable* variable) = 0;

  /// Returns whether nothing that was pushed on the variable pends, also on a device. Does not
  /// wait, and may be called with locks held. In the child of a fork, where nothing more happens on
  /// an engine from before, returns whether no write pended on the variable at the fork.
  virtual bool IsIdle([[maybe_unused]] Variable* variable) { return false; }

  /// Lets no operation begin from here on. Returns when those that run are complete, or when
  /// somebody calls Start. Pushes are accepted and keep. Does nothing once Shutdown has begun.
  /// Throws Error(kFailedPrecondition) inside an operation.
  virtual void Stop() = 0;

  /// Goes on after Stop.
  virtual void Start() = 0;

  /// Finishes everything that was pushed (starting the engine if it is stopped), then takes no
  /// further pushes. Idempotent. Reports no errors: call WaitForAll first to see them. Throws
  /// Error(kFailedPrecondition) inside an operation.
  virtual void Shutdown() = 0;

  /// The number of threads that run operations; 1 for NaiveEngine.
  virtual int num_workers() const = 0;

  /// The totals so far.
  virtual EngineCounters counters() const = 0;

  /// Describes for people: the counters, what is ready, what has begun without a variable, and each
  /// variable on which operations pend, with those that hold it and those that queue for it.
  virtual std::string DebugString() const = 0;

  /// Records from here on what each operation does and when, and drops what an earlier trace has
  /// recorded. While no trace is on, the engine only looks at a flag.
  virtual void StartTrace() = 0;

  /// Ends the trace and returns it in the JSON that Perfetto and chrome://tracing open; "Trace" in
  /// docs/engine.md has its rows and slices. The first million events of each thread are kept.
  virtual std::string StopTrace() = 0;

  /// The operation behind the exception that a wait on this thread has rethrown last; empty if none
  /// has. For exception types that take no text.
  static std::optional<FailedOperation> LastFailure();

 protected:
  Engine() = default;
};

}  // namespace tessera

#endif  // TESSERA_ENGINE_ENGINE_H_
