// Stop, Start and Shutdown of an engine, and its end with the process.

#include <mutex>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/engine/core/dependency_engine.h"

namespace tessera::engine_internal {

void DependencyEngine::Stop() {
  CheckNotForked("Stop");
  CheckNotInOperation("Stop");
  HoldOperations(/*at_end=*/false);
}

/// Lets no operation begin. Returns when none runs, or when somebody has called Start. Does nothing
/// once Shutdown has begun, except at the end of that or of the process.
void DependencyEngine::HoldOperations(bool at_end) {
  if (!state_.scheduler->Stop(at_end)) return;
  state_.progress.WakePushers();  // pushers must not sleep until Start: their operations are kept
  waits_.NotifyInside();          // waits for what does not begin end with an error
  state_.scheduler->AwaitStop();
}

void DependencyEngine::Start() {
  CheckNotForked("Start");
  state_.scheduler->Start();
  waits_.NotifyInside();
}

void DependencyEngine::Shutdown() {
  if (forked()) return;  // what was pushed is finished in the parent
  CheckNotInOperation("Shutdown");
  // A static object's destructor: what exit() has dropped never comes to an end.
  if (waits_.ends_process()) return;
  if (!shutdown_.Enter()) return;
  absl::Cleanup let_others = [this] { shutdown_.Leave(/*shut_down=*/false); };
  state_.scheduler->BeginEnd();
  Start();
  state_.progress.AwaitIdle();  // operations may still push
  // Idle between two operations of a replay, a matter of instructions.
  while (state_.scheduler->HasPushes()) {
    std::this_thread::yield();
    state_.progress.AwaitIdle();
  }
  accepting_.store(false);
  do {
    state_.progress.AwaitIdle();  // what came in between
  } while (!state_.progress.Close());
  HoldOperations(/*at_end=*/true);
  // Acquire: pairs with the release at the end of OnExecutionComplete, a matter of instructions.
  while (completing_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  // Joins that came too late are all that can be left in the queue: the counter of pushes was
  // closed at the number of operations that are complete, and deletions and waits never stand
  // there.
  while (Execution* join = state_.scheduler->TakeLeft()) replays_.DropJoin(join);
  std::move(let_others).Cancel();
  shutdown_.Leave(/*shut_down=*/true);
}

void DependencyEngine::EndWithProcess() {
  CheckNotForked("Stop");
  CheckNotInOperation("Stop");
  waits_.EndWithProcess();
  HoldOperations(/*at_end=*/true);
}

}  // namespace tessera::engine_internal
