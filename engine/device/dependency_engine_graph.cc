// How DependencyEngine has a device do replays of schedules that are graphs.

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/schedule/schedule_plan.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// The replay as one push, as of now; its sequence is missing.
std::vector<TracedPush> DependencyEngine::TracedGraph(const Replay& replay) const {
  TracedPush push;
  push.time_ns = trace_.Now();
  push.name = replay.plan.name();
  push.site = replay.plan.push(0).site;
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    push.variables.emplace_back(edge.edge.variable()->id, edge.edge.access());
  }
  return {std::move(push)};
}

/// The replay's turn has come on all its variables; of what is issued on these `before` is pending.
void DependencyEngine::RunGraph(Execution* execution, IssuedBefore before, ReadyList& ready) {
  Replay& replay = *execution->replay;
  replay.first_sequence = execution->sequence;
  TakeMarks(replay);
  replay.references.fetch_add(1, std::memory_order_relaxed);  // this function's
  WatchedStream& watched = streams_->For(execution->device, execution->property);
  DeviceStream& stream = watched.stream();
  execution->below = ThreadFrame::Current(id_);
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  try {
    const ThreadFrame frame(id_, execution);
    const CurrentDeviceOf current(stream);
    for (const FenceRef& fence : before.pending) {
      if (fence->stream != &watched) stream.WaitFor(*fence->event);
    }
    const auto enqueue = [&] { EnqueueReplay(replay, stream); };
    scheduler_->CallIsolated(std::ref(enqueue));
  } catch (const std::exception&) {
    MarkAll(replay, NewFailure(*execution, std::current_exception()));
  }
  if (begin_ns != kNotTraced) TraceRun(*execution, begin_ns, /*skipped=*/false);
  IssueGraph(replay, watched, std::move(before.inputs), ready);
  DropReplay(replay, ready);
}

/// Has the stream do the operations, as a graph if it can. Throws Error if the device refuses work.
void DependencyEngine::EnqueueReplay(Replay& replay, DeviceStream& stream) {
  GraphLaunch launch = GraphLaunch::kTaken;
  if (!replay.failed.load(std::memory_order_relaxed)) launch = LaunchGraph(replay, stream);
  if (launch == GraphLaunch::kDone) return;
  RunContext context{replay.execution->device, stream.handle(), this, replay.slots};
  for (uint32_t i = 0; i < replay.plan.size(); ++i) RunWatched(replay, i, context);
  // Where the functions can be called, but not while their work is only noted, there is no need to
  // try again.
  if (launch == GraphLaunch::kRefused && !replay.failed.load(std::memory_order_relaxed)) {
    replay.pool->graph().refused.store(true, std::memory_order_relaxed);
  }
}

/// Unless it returns kDone nothing is enqueued.
DependencyEngine::GraphLaunch DependencyEngine::LaunchGraph(Replay& replay, DeviceStream& stream) {
  GraphOfSchedule& own = replay.pool->graph();
  // Acquire and release: the flag hands on what it guards.
  if (own.taken.exchange(true, std::memory_order_acquire)) return GraphLaunch::kTaken;
  const absl::Cleanup give = [&own] { own.taken.store(false, std::memory_order_release); };
  if (!own.captured || own.slots != replay.slots) {
    RunContext context{replay.execution->device, nullptr, this, replay.slots};
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
void DependencyEngine::MarkAll(Replay& replay, const FailureRef& failure) {
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    FailureRef& mark = replay.marks[edge.variable];
    if (edge.edge.write() && mark == nullptr) mark = failure;
  }
  replay.failed.store(true, std::memory_order_relaxed);
}

/// What there is to do is enqueued.
void DependencyEngine::IssueGraph(Replay& replay, WatchedStream& stream,
                                  std::vector<FenceRef> inputs, ReadyList& ready) {
  Execution* const execution = replay.execution;
  FenceRef fence;
  try {
    fence = NewFence(stream, *execution);
    fence->inputs = std::move(inputs);
    fence->skipped =
        replay.skipped.load(std::memory_order_relaxed) == static_cast<uint64_t>(replay.plan.size());
    if (trace_.on()) fence->issued_ns = trace_.Now();
  } catch (const std::exception&) {
    MarkAll(replay, NewFailure(*execution, std::current_exception()));
  }
  if (fence == nullptr) {
    EndReplay(replay, ready);
    return;
  }
  // Until its fence is reached it is at work, as an operation in a thread is.
  scheduler_->Activate();
  Leftovers leftovers;
  ReleaseMarked(replay, ready, leftovers, fence);
  FinishInline(ready);
  stream.Watch(std::move(fence), execution);
  if (!leftovers.empty()) DispatchAll(ready);
}

/// The device has done the replay's work.
void DependencyEngine::EndGraph(Execution* execution) {
  Replay& replay = *execution->replay;
  replay.SwapEdgeBuffer();
  execution->replay = nullptr;
  const size_t operations = replay.plan.size();
  const uint64_t skipped = replay.skipped.load(std::memory_order_relaxed);
  GiveExecution(execution);
  ReadyList none;
  DropReplay(replay, none);
  // Both at the end, so that what counts as run never becomes less.
  if (skipped > 0) progress_.CountSkipped(skipped);
  progress_.CountComplete(operations);
}

}  // namespace tessera::engine_internal
