#ifndef TESSERA_ENGINE_TESTING_RANDOM_PROGRAM_H_
#define TESSERA_ENGINE_TESTING_RANDOM_PROGRAM_H_

#include <cstdint>
#include <random>
#include <vector>

#include "tessera/engine/engine.h"

namespace tessera::engine_internal {

// Random programs for an engine, and what they come to if their operations run one at a time.
//
// Each write stores a hash of what the operation read, wrote over and is, so that any other order
// of two operations that share a variable shows in the end.

/// The error that a failing operation throws: its number tells who began a chain.
struct PlannedFailure {
  int operation;
};

struct PlannedOperation {
  std::vector<int> reads, writes, updates;  // indices of variables
  int priority = 0;
  FnProperty property = FnProperty::kNormal;  // or kAsync, or kNoSkip
  bool async = false;                         // completes from a foreign thread
  bool cached = false;                        // goes through NewOperator
  bool fails = false;                         // throws, or hands its error to the callback
  int deletes = -1;   // a variable that is deleted after the push, and not used again
  int wait_for = -1;  // a variable for which the pusher waits afterwards
  // At the begin of a schedule: the operations up to `schedule_end` are recorded and replayed, and
  // neither delete nor wait. The others of them have no number here.
  int schedule_end = -1;
  int replays = 0;
  bool keeps_schedule = false;  // until the program has ended
  int replays_again = -1;  // where a kept schedule begins that is replayed once before this push
  // Later operations that its function pushes before all else, and nobody else does.
  std::vector<int> pushes;
  int pushed_by = -1;
};

struct Program {
  int variables = 0;
  int pushing_threads = 1;  // they take turns, so that the order of pushes is the program's
  std::vector<PlannedOperation> operations;
};

Program MakeProgram(std::mt19937_64& random, int operations, int failing_per_mille);

/// Leaves an operation's push alone of what MakeProgram has planned around it, and has some pushed
/// by the functions of others. The order of the pushes is then the threads'.
void PlanNestedPushes(std::mt19937_64& random, Program& program);

/// The result of a program.
struct Outcome {
  explicit Outcome(const Program& program)
      : values(program.variables), calls(program.operations.size()) {}

  std::vector<uint64_t> values;       // of the variables
  std::vector<int> calls;             // of each operation's function
  std::vector<int> order_of_reports;  // failed operations, as waits reported them
  uint64_t skipped = 0;
};

/// Does the work of an operation's function. Throws PlannedFailure if it is to fail.
void Call(const Program& program, int index, Outcome& outcome);

/// The operations as they take effect, with those of schedules as often as these are replayed.
std::vector<int> SerialOrder(const Program& program);

/// Runs the program one operation at a time in that order, with the engine's rules about errors
/// written out plainly: the oracle.
Outcome RunSerially(const Program& program, const std::vector<int>& order);

/// Returns whether one of the two operations writes a variable that the other one uses.
bool Conflict(const PlannedOperation& a, const PlannedOperation& b);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_RANDOM_PROGRAM_H_
