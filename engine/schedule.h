#ifndef TESSERA_ENGINE_SCHEDULE_H_
#define TESSERA_ENGINE_SCHEDULE_H_

#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/dialect.h"
#include "tessera/engine/variable.h"

namespace tessera {

/// The optional part of Engine::Record.
struct RecordOptions {
  /// Appears in errors, in DebugString and in descriptions. Copied.
  std::string_view name = {};
  /// The number of pointers that each replay is given, for functions to take from
  /// RunContext::slots.
  size_t slots = 0;
};

/// A variable that stands in one replay for one of the recording.
struct VariableBinding {
  Variable* recorded = nullptr;  ///< one that the recording uses
  Variable* actual = nullptr;    ///< one of the same engine, in its place
};

/// The optional part of Schedule::Replay.
struct ReplayOptions {
  /// The pointers that this replay's functions find in RunContext::slots: as many as
  /// RecordOptions::slots says. The array is copied; what its pointers point to must live until the
  /// replay is complete.
  std::span<void* const> slots = {};
  /// Variables to take in the place of recorded ones. Borrowed for the call.
  std::span<const VariableBinding> variables = {};
  /// Added to the priority of every recorded operation.
  int priority = 0;
};

/// Pushes that Engine::Record has noted, to be run many times: their checks are made and their
/// order is resolved, so that a replay takes neither locks nor memory for each of them.
///
/// Order: to everything else on the engine a replay is one operation, which reads and writes what
/// its operations read and write. Inside, operations take effect on each variable in the order of
/// the recording. Replays of a schedule that writes something follow each other, unless
/// ReplayOptions::variables gives each of them variables of its own; replays of one that writes
/// nothing may run at once. Variables that the recording makes, writes before it reads them and
/// deletes belong to the schedule alone, and cost nothing.
///
/// Among ready operations of a replay the higher priority goes first, then the one with the longest
/// way to go (the most operations one after another until the end). Between two operations a worker
/// goes over to other work of the engine that has a higher priority, now and then also to work of
/// the same priority.
///
/// Errors, names, counters, traces and DebugString are those of the recorded pushes, as if each had
/// been pushed alone; counters and traces count the operations when the replay is over.
/// Variable::version() advances by one for each replay that writes the variable. A wait inside an
/// operation that needs the operation's own replay to end throws Error(kFailedPrecondition).
///
/// Graphs: a schedule whose operations are all PushOptions::capturable, synchronous and for one
/// CUDA device becomes a CUDA graph. The first replay calls the functions while the device only
/// notes what they enqueue; later ones launch that again, after another capture if slots have
/// changed. A replay is then one operation of the device's compute stream, and an error that the
/// device reports marks all variables that the schedule writes. The memory that the functions use
/// must not be given to others between replays. See "Schedules" in docs/engine.md for replays that
/// push each operation by itself.
///
/// Thread-safe: Replay, Describe and Graphviz may be called from any thread. The schedule may be
/// destroyed while replays of it pend: they end. It must not outlive its engine.
class Schedule {
 public:
  /// The recording is freed when the last replay is complete and the threads that ran it have left
  /// it, which may be a little after a wait for it has returned. Variables whose DeleteVariable was
  /// recorded are deleted now.
  virtual ~Schedule() = default;

  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Runs the operations once more; returns at once, like a push, and waits for room as one does.
  /// Allocates when more replays pend than ever before, for bindings of variables, and for each
  /// asynchronous operation.
  ///
  /// Throws Error(kInvalidArgument), and runs nothing, if a variable was deleted, if the number of
  /// slots is not the recording's, or if a binding names a variable that the recording does not
  /// use, or has bound already, or one that the replay has in another place;
  /// Error(kFailedPrecondition) after Engine::Shutdown and while this thread records.
  virtual void Replay(const ReplayOptions& options = {},
                      std::source_location site = std::source_location::current()) = 0;

  /// The number of operations that a replay runs.
  virtual size_t size() const = 0;

  /// For people: how many operations and dependencies there are, the longest path, how wide the
  /// schedule is, and what it reads, writes and updates.
  virtual std::string Describe() const = 0;

  /// The operations and their dependencies in Graphviz's DOT language, with the longest path in
  /// bold. A dependency that follows from others on the same variable is left out.
  virtual std::string Graphviz() const = 0;

 protected:
  Schedule() = default;
};

}  // namespace tessera

#endif  // TESSERA_ENGINE_SCHEDULE_H_
