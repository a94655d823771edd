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

/// What an operation's function is told about where it runs.
struct RunContext {
  Device device;             ///< as given to the push
  void* stream = nullptr;    ///< the CUDA stream (a cudaStream_t) to enqueue on; null on a CPU
  Engine* engine = nullptr;  ///< the engine that runs the operation
  /// In a replay of a schedule what ReplayOptions::slots gave, valid until the operation is
  /// complete; else empty.
  std::span<void* const> slots = {};
};

/// An operation's function. A synchronous operation ends with its function (for a CUDA device, with
/// the work that the function enqueued), an asynchronous one when it calls the OnComplete.
using SyncFn = std::function<void(RunContext)>;
using AsyncFn = std::function<void(RunContext, OnComplete)>;

/// What kind of work an operation is.
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
  /// What kind of work it is.
  FnProperty property = FnProperty::kNormal;
  /// Among operations that are ready to run, those with the higher number go first.
  int priority = 0;
  /// Appears in errors, in DebugString and in traces. Copied.
  std::string_view name = {};
  /// Variables that the operation reads and writes in place, and that stand in no other list. They
  /// are ordered as written ones are; and as with those that are read, an error that one carries
  /// skips the operation. Borrowed for the call.
  VariableList updates = {};
  /// For an operation of a CUDA device: called with the same slots its function enqueues the same
  /// work each time and does nothing else, so that a replay of a schedule may do that work without
  /// calling it. See "Graphs" in schedule.h.
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

/// How an engine runs its operations.
enum class EngineKind {
  kDefault,   ///< TESSERA_ENGINE_TYPE: ThreadedEngine (also where it is not set) or NaiveEngine
  kThreaded,  ///< runs operations on worker threads
  /// Runs each operation at its push, on the pushing thread, or, where it has to wait for others,
  /// when the last of these is complete, on the thread that completes it; see OnComplete. Where 16
  /// of its operations lie on top of each other, those that they push run after the outermost. For
  /// debugging.
  kNaive,
};

/// The optional part of Engine::Create.
struct EngineOptions {
  /// How it runs operations.
  EngineKind kind = EngineKind::kDefault;
  /// Threads that run operations; 0 takes TESSERA_NUM_THREADS, or else the machine's threads. While
  /// some of them sleep in waits or block there are more: see "Parallel loops inside an operation".
  int workers = 0;
  /// Back-pressure: while so many operations pend a push waits for room. 0 never waits. Holds only
  /// threads that work for no engine: pushes of operations, of pieces of their parallel loops and
  /// in calls of OnComplete return at once. The operations of a replay count for what is pushed
  /// after it. Default: TESSERA_ENGINE_MAX_PENDING, or else 65536.
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
  std::source_location pushed_at;  ///< where it was pushed
};

/// Runs functions in the order that their declared reads and writes demand, and in parallel where
/// they allow.
///
/// ### Order
/// On each variable operations take effect in the order of their pushes: reads between two writes
/// may run together, a write runs alone. Pushes from several threads are ordered as if each were
/// one instant. What an operation did is visible to every operation that is ordered after it and to
/// every thread whose wait covered it. Among ready operations the higher priority goes first, then
/// about the earlier push; priorities never break the order on a variable.
///
/// ### Errors
/// What a function throws, or gives to its OnComplete, marks the variables that the operation
/// writes. An operation that reads or updates a marked variable is skipped and its written
/// variables carry the same error (of several, that of the earliest pushed failure): one chain
/// together. The first wait on any variable of a chain rethrows the original exception, once for
/// the chain. The exception keeps its type; the operation's name and the place of its push are
/// added to the message of an Error (same code) and of the standard library's exceptions that hold
/// a message, if there is memory for that, and are in LastFailure() for every type. A variable
/// stays marked until an operation whose inputs are sound writes it (being written is not being
/// read, so a marked output is no obstacle; what is read and written belongs in
/// PushOptions::updates). An operation that is pushed after the chain was reported and still reads
/// a marked variable is skipped too and starts a chain of its own, which is again reported once: no
/// skipped work goes unnoticed. WaitForAll finds chains that no other wait has reported, also those
/// whose variables are written afresh or deleted meanwhile.
///
/// ### Waiting inside an operation
/// An operation may push and wait. While it waits, another operation runs on a compensating thread;
/// what the wait needs goes first. A lock must not be held across a wait. A wait that needs its own
/// operation to complete throws Error(kFailedPrecondition). At most 1,024 operations wait at once:
/// a wait beyond that, or one for which the system refuses a thread, throws
/// Error(kResourceExhausted). A wait for another engine, in a piece of a parallel loop, or by other
/// means (a condition variable, a future) holds its worker. A function that blocks by other means
/// gets a compensating thread if its push says FnProperty::kAsync. An operation that somebody else
/// completes is best pushed with PushAsync, which needs no thread.
///
/// ### What functions hold
/// What a synchronous function has captured is destroyed at the end of its operation, as a part of
/// it: after a wait that covers the operation it is gone. What an asynchronous function, an
/// operator or a schedule holds, and an error that nobody needs any more, goes a little later, in
/// whatever thread comes to it, when those that waited for the operation are on their way.
/// Destructors in all of these may push, and wait as an operation may. (With NaiveEngine a schedule
/// that is gone ends with the last operation of its last replay, as a part of it.)
///
/// ### Parallel loops inside an operation
/// Workers are threads of one TBB arena; each compensating thread has an arena of its own, for
/// loops of as many threads. Operations run isolated (tbb::this_task_arena::isolate): a thread that
/// waits for its own loop to end takes up no piece of another operation and no other operation,
/// hence thread-local scratch memory is safe. TBB does not tell which operation a piece of a loop
/// belongs to: a piece that waits holds its thread, and one that waits for what its own operation
/// writes never ends.
///
/// ### Devices
/// The function of an operation for a CUDA device enqueues its work on RunContext::stream and
/// returns; the device does it later. An engine has four streams for a device, which FnProperty
/// chooses from: kCopyToGpu, kCopyFromGpu, kGpuPrioritized, and one for all else. What comes after
/// the operation on the same stream follows in the stream's order, what is on another waits there
/// for an event, and what runs on the host begins when the device is done: no thread waits for the
/// device, except in the calls that wait. The operation is complete, and what its function holds is
/// released, when the device is done. An error that the device reports then marks the variables as
/// an exception would, and those of the operations that depend on it; what was enqueued of these
/// before that has run, on whatever was there.
///
/// ### Threads and life
/// Every member may be called from any thread at any time, unless it says otherwise; the engine
/// must outlive the calls. Variables, operators and engines belong together: using them across
/// engines throws Error(kInvalidArgument).
class Engine {
 public:
  /// A new engine, independent of all others. Throws Error(kInvalidArgument) for options or
  /// environment settings that are out of range, Error(kResourceExhausted) where the system has not
  /// as many threads, and std::bad_alloc where there is no memory.
  static std::unique_ptr<Engine> Create(const EngineOptions& options = {});

  /// The process's default engine, made at the first call from the environment's settings. It lives
  /// until the process ends: at exit() operations that run are waited for, with their waits for
  /// what pends broken off, and others are dropped. With TESSERA_ENGINE_TRACE=FILE it traces from
  /// the beginning and then writes FILE. Static objects that operations use must be older than the
  /// engine, hence made before the first call of Get(), or never be destroyed: younger ones are
  /// destroyed while operations still run. No operation may call exit(), since TBB cannot end its
  /// threads from one of them: once there is a default engine, a worker of any engine that does so
  /// ends the process with a message on stderr and EXIT_FAILURE. std::quick_exit is safe.
  ///
  /// In the child of a fork it is a fresh one, and older engines throw Error(kFailedPrecondition)
  /// there; they may be destroyed. If the parent had several threads (ThreadsLostInFork), the
  /// child's engines are of the kind that has none, Tessera's own loops run in one thread, and a
  /// program may not use TBB itself there, not in operations either: a lock of TBB's that a thread
  /// of the parent held at the fork is never released.
  static Engine* Get();

  /// The default engine for those who hold their engine by shared_ptr.
  static std::shared_ptr<Engine> GetShared();

  /// Calls Shutdown.
  virtual ~Engine() = default;

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// A variable that nothing has written. The name appears in messages; it is copied.
  virtual Variable* NewVariable(std::string_view name = {}) = 0;

  /// Deletes the variable after the last operation that was pushed on it; returns at once. The
  /// caller must not use it again, which the engine reports where it can. Needs no memory; but a
  /// recording has to note it, and may throw std::bad_alloc, with nothing deleted.
  virtual void DeleteVariable(Variable* variable) = 0;

  /// Calls `fn` once all earlier writes of `reads` and all earlier operations on `writes` and
  /// `options.updates` are complete; the operation is complete when `fn` returns. Returns at once,
  /// except where EngineOptions::max_pending pend.
  ///
  /// Throws Error(kInvalidArgument), and pushes nothing, if a variable is null, deleted, of another
  /// engine or named twice, inside a list or across the lists; Error(kUnimplemented) for a CUDA
  /// device in a build without CUDA; Error(kInvalidArgument or kFailedPrecondition) for one that is
  /// not there; Error(kFailedPrecondition) after Shutdown.
  virtual void PushSync(SyncFn fn, Device device, VariableList reads, VariableList writes,
                        const PushOptions& options = {},
                        std::source_location site = std::source_location::current()) = 0;

  /// Like PushSync, but the operation is complete when its OnComplete is called, or when `fn`
  /// throws. It holds no worker after `fn` has returned.
  virtual void PushAsync(AsyncFn fn, Device device, VariableList reads, VariableList writes,
                         const PushOptions& options = {},
                         std::source_location site = std::source_location::current()) = 0;

  /// Makes an operation to push many times: the checks of a push happen here, once. The priority in
  /// `options` is not used; each Push has its own. Throws what PushSync throws for its lists.
  virtual EngineOperator* NewOperator(
      SyncFn fn, VariableList reads, VariableList writes, const PushOptions& options = {},
      std::source_location site = std::source_location::current()) = 0;
  virtual EngineOperator* NewOperator(
      AsyncFn fn, VariableList reads, VariableList writes, const PushOptions& options = {},
      std::source_location site = std::source_location::current()) = 0;

  /// Pushes the operator. It may be pushed again while earlier pushes of it pend: each is an
  /// operation of its own, and where the operator writes nothing its function may run several times
  /// at once.
  virtual void Push(EngineOperator* op, Device device, int priority = 0,
                    std::source_location site = std::source_location::current()) = 0;

  /// Deletes the operator after its last pushed use; returns at once.
  virtual void DeleteOperator(EngineOperator* op) = 0;

  /// Calls `pushes`, once and in this thread, and keeps what it pushes on this engine as a schedule
  /// to replay; nothing of that runs yet. What other threads push meanwhile is pushed as ever.
  /// `pushes` may make variables, and delete them: such a deletion takes place with the schedule's.
  ///
  /// Throws what `pushes` throws, then with nothing recorded; Error(kFailedPrecondition) after
  /// Shutdown and inside another recording of this engine. Inside a recording pushes and deletions
  /// throw what they always throw; waits and replays on this engine throw
  /// Error(kFailedPrecondition), for nothing would have run. Operations that run on this thread
  /// meanwhile push as ever.
  virtual std::unique_ptr<Schedule> Record(const std::function<void()>& pushes,
                                           const RecordOptions& options = {}) = 0;

  /// Returns when the writes of the variable that were pushed before the call are complete (other
  /// readers are not waited for), and rethrows the error that they left, see above. Blocks without
  /// spinning longer than some microseconds.
  /// Throws Error(kFailedPrecondition) if the wait never could end: see "Waiting inside an
  /// operation"; also, outside of operations, while the engine is stopped and writes pend, and
  /// inside of them when the process ends. (Then a thread that waits outside of them and is not the
  /// one that ends the process just sleeps on.)
  virtual void WaitForVar(Variable* variable) = 0;

  /// Returns when nothing pends, which may be never while others go on pushing. Then rethrows the
  /// oldest error that no wait has reported and unmarks the variables of its chain; further chains
  /// keep for further calls. (Of errors that no variable carries any more the latest 4,096 keep;
  /// how many there were besides is reported after them.) When all are reported, unmarks every
  /// variable.
  /// Throws Error(kFailedPrecondition) inside an operation, which would wait for itself.
  virtual void WaitForAll() = 0;

  /// Rethrows the error that the variable holds and no wait has reported; does not wait.
  /// Throws Error(kInvalidArgument) for a deleted variable.
  virtual void Throw(Variable* variable) = 0;

  /// Whether nothing that was pushed on the variable pends, also on a device; does not wait, and
  /// may be called with locks held. What is pushed meanwhile is not seen: who relies on the answer
  /// keeps later operations from what the variable stands for, by a lock of their own. False in the
  /// child of a fork, and where an engine cannot tell. Throws Error(kInvalidArgument) for a deleted
  /// variable.
  virtual bool IsIdle([[maybe_unused]] Variable* variable) { return false; }

  /// Lets no operation begin from here on. Returns when those that run have returned and devices
  /// have done what was enqueued, or when somebody calls Start. Pushes are accepted and keep. While
  /// the engine is stopped WaitForVar throws Error(kFailedPrecondition) if writes pend, inside an
  /// operation unless the write that it needs runs already. Does nothing once Shutdown has begun.
  /// Throws Error(kFailedPrecondition) inside an operation.
  virtual void Stop() = 0;

  /// Goes on after Stop.
  virtual void Start() = 0;

  /// Finishes everything that was pushed (starting the engine if it is stopped), then takes no
  /// further pushes: one that overlaps with it is finished too, or throws. Idempotent. Reports no
  /// errors: call WaitForAll first to see them. Operations may go on pushing while it waits. Throws
  /// Error(kFailedPrecondition) inside an operation. After exit() it returns
  /// at once in the destructors of static objects.
  virtual void Shutdown() = 0;

  /// Threads that run operations; 1 for NaiveEngine.
  virtual int num_workers() const = 0;

  /// The totals so far: what pends is of one moment, except where operations complete all the time
  /// as fast as it is read. What was skipped may be of a moment shortly before.
  virtual EngineCounters counters() const = 0;

  /// For people: the counters, what is ready to run, what has begun without a place on a variable,
  /// then each variable on which operations pend, with those that hold it and those that queue for
  /// it. On variables a replay stands as a whole; of its operations those are named that run or,
  /// asynchronous, are not complete, but where it is a CUDA graph. Of what a device has yet to do
  /// on a variable the last write is named and what has read it since. Of each kind a few are
  /// named.
  virtual std::string DebugString() const = 0;

  /// Records from here on what each operation does and when, and drops what an earlier trace has
  /// recorded. While no trace is on, the engine only looks at a flag to know.
  virtual void StartTrace() = 0;

  /// Ends the trace and returns it in the JSON that Perfetto and chrome://tracing open: a row for
  /// each worker, stream and other thread that ran operations, those among them that worked in the
  /// place of a sleeping worker or at a piece of a loop; a slice for each call of a function, with
  /// its name, where it was pushed, how long it was queued and whether it was skipped; a slice
  /// on its stream's row for what a device did (from the later of its being issued and the end of
  /// the one before, to when the engine heard of its end); a span for what an asynchronous
  /// operation took after its function; and an arrow to each operation from those whose end its
  /// variables made it wait for. Of each thread the first million events are kept.
  virtual std::string StopTrace() = 0;

  /// The operation behind the exception that a wait on this thread has rethrown last; empty if none
  /// has. For exception types that take no text.
  static std::optional<FailedOperation> LastFailure();

 protected:
  Engine() = default;
};

}  // namespace tessera

#endif  // TESSERA_ENGINE_ENGINE_H_
