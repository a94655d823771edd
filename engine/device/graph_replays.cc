#include "tessera/engine/device/graph_replays.h"

#include <exception>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/schedule/schedule_plan.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

void GraphReplays::Run(Execution* execution, IssuedBefore before, ReadyList& ready) {
  Replay& replay = *execution->replay;
  replay.first_sequence = execution->sequence;
  replays_.TakeMarks(replay);
  replay.references.fetch_add(1, std::memory_order_relaxed);  // this function's
  WatchedStream& watched = devices_.StreamOf(*execution);
  DeviceStream& stream = watched.stream();
  execution->below = ThreadFrame::Current(state_.id);
  const int64_t begin_ns = state_.trace.on() ? state_.trace.Now() : kNotTraced;
  try {
    const ThreadFrame frame(state_.id, execution);
    const CurrentDeviceOf current(stream);
    for (const FenceRef& fence : before.pending) {
      if (fence->stream != &watched) stream.WaitFor(*fence->event);
    }
    const auto enqueue = [&] { EnqueueReplay(replay, stream); };
    state_.scheduler->CallIsolated(std::ref(enqueue));
  } catch (const std::exception&) {
    MarkAll(replay, operations_.NewFailure(*execution, std::current_exception()));
  }
  if (begin_ns != kNotTraced) operations_.TraceRun(*execution, begin_ns, /*skipped=*/false);
  Issue(replay, watched, std::move(before.inputs), ready);
  replays_.DropReplay(replay, ready);
}

/// Has the stream do the operations, as a graph if it can. Throws Error if the device refuses work.
void GraphReplays::EnqueueReplay(Replay& replay, DeviceStream& stream) {
  GraphLaunch launch = GraphLaunch::kTaken;
  if (!replay.failed.load(std::memory_order_relaxed)) launch = LaunchGraph(replay, stream);
  if (launch == GraphLaunch::kDone) return;
  RunContext context{replay.execution->device, stream.handle(), state_.engine, replay.slots};
  for (uint32_t i = 0; i < replay.plan.size(); ++i) replays_.RunWatched(replay, i, context);
  // There is no need to try again if the functions can be called, but not while their work is only
  // noted.
  if (launch == GraphLaunch::kRefused && !replay.failed.load(std::memory_order_relaxed)) {
    replay.pool->graph().refused.store(true, std::memory_order_relaxed);
  }
}

/// Unless it returns kDone nothing is enqueued.
GraphReplays::GraphLaunch GraphReplays::LaunchGraph(Replay& replay, DeviceStream& stream) {
  GraphOfSchedule& own = replay.pool->graph();
  // Acquire and release: the flag hands on what it guards.
  if (own.taken.exchange(true, std::memory_order_acquire)) return GraphLaunch::kTaken;
  const absl::Cleanup give = [&own] { own.taken.store(false, std::memory_order_release); };
  if (!own.captured || own.slots != replay.slots) {
    RunContext context{replay.execution->device, nullptr, state_.engine, replay.slots};
    own.captured = false;
    try {
      if (own.graph == nullptr) own.graph = stream.NewGraph();
      own.graph->Capture(replay.plan.Predecessors(), [&](uint32_t node, void* capturing) {
        context.stream = capturing;
        (*replay.plan.operation(node).sync)(context);
      });
    } catch (...) {
      // Whatever it was: called on the stream itself the functions show whether it is theirs.
      return GraphLaunch::kRefused;
    }
    own.slots = replay.slots;
    own.captured = true;
  }
  own.graph->Launch();
  return GraphLaunch::kDone;
}

/// The replay as a whole has failed; what carries an error of its own keeps it.
void GraphReplays::MarkAll(Replay& replay, const FailureRef& failure) {
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    FailureRef& mark = replay.marks[edge.variable];
    if (edge.edge.write() && mark == nullptr) mark = failure;
  }
  replay.failed.store(true, std::memory_order_relaxed);
}

/// Issues the replay, whose work is enqueued.
void GraphReplays::Issue(Replay& replay, WatchedStream& stream, std::vector<FenceRef> inputs,
                         ReadyList& ready) {
  Execution* const execution = replay.execution;
  FenceRef fence;
  try {
    fence = devices_.NewFence(stream, *execution);
    fence->inputs = std::move(inputs);
    fence->skipped =
        replay.skipped.load(std::memory_order_relaxed) == static_cast<uint64_t>(replay.plan.size());
    if (state_.trace.on()) fence->issued_ns = state_.trace.Now();
  } catch (const std::exception&) {
    MarkAll(replay, operations_.NewFailure(*execution, std::current_exception()));
  }
  if (fence == nullptr) {
    replays_.EndReplay(replay, ready);
    return;
  }
  // Until its fence is reached it is at work, as an operation in a thread is.
  state_.scheduler->Activate();
  Leftovers leftovers;
  replays_.ReleaseMarked(replay, ready, leftovers, fence);
  operations_.FinishInline(ready);
  stream.Watch(std::move(fence), execution);
  if (!leftovers.empty()) operations_.DispatchAll(ready);
}

void GraphReplays::End(Execution* execution) {
  Replay& replay = *execution->replay;
  replay.SwapEdgeBuffer();
  execution->replay = nullptr;
  const size_t operations = replay.plan.size();
  const uint64_t skipped = replay.skipped.load(std::memory_order_relaxed);
  operations_.GiveExecution(execution);
  ReadyList none;
  replays_.DropReplay(replay, none);
  // Both at the end, so that what counts as run never becomes less.
  if (skipped > 0) state_.progress.CountSkipped(skipped);
  state_.progress.CountComplete(operations);
}

}  // namespace tessera::engine_internal
