#include "tessera/engine/device/devices.h"

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

void Devices::Check(Device device, FnProperty property, std::string_view operation) {
  if (device.type != DeviceType::kGpu) return;
  try {
    streams_->For(device, property);
  } catch (const Error& error) {
    throw Error(error.code(),
                absl::StrCat("Engine: operation \"", std::string(operation), "\": ", error.what()));
  }
  state_.uses_devices.store(true, std::memory_order_relaxed);
}

bool Devices::Defer(Execution* execution, const std::vector<FenceRef>& fences) {
  // Its turn has come, so nobody else uses the count. One is ours, so that it cannot go meanwhile.
  execution->blocked_edges.store(static_cast<int32_t>(fences.size()) + 1,
                                 std::memory_order_relaxed);
  int32_t done = 1;
  for (const FenceRef& fence : fences) {
    done += OrTerminate([&] { return fence->AddBlocked(execution); }) ? 0 : 1;
  }
  // Acquire and release: as where edges are granted, see variable_queue.cc.
  return execution->blocked_edges.fetch_sub(done, std::memory_order_acq_rel) != done;
}

void Devices::RunOnDevice(Execution* execution, IssuedBefore before, ReadyList& ready) {
  FailureRef failure = operations_.FailureOfInputs(*execution, before.failure);
  const bool skip = failure != nullptr;
  if (skip) state_.progress.CountSkipped();
  WatchedStream& watched = StreamOf(*execution);
  DeviceStream& stream = watched.stream();
  execution->below = ThreadFrame::Current(state_.id);
  const ThreadFrame frame(state_.id, execution);
  try {
    const CurrentDeviceOf current(stream);
    // Skipped ones as well: the next operation comes after their fence alone.
    for (const FenceRef& fence : before.pending) {
      if (fence->stream != &watched) stream.WaitFor(*fence->event);
    }
    if (skip) {
      if (state_.trace.on()) operations_.TraceRun(*execution, state_.trace.Now(), /*skipped=*/true);
    } else {
      execution->running.store(true, std::memory_order_relaxed);
      const AnyFn& fn = execution->op != nullptr ? execution->op->fn : execution->fn;
      const RunContext context{execution->device, stream.handle(), state_.engine};
      if (const auto* async = std::get_if<AsyncFn>(&fn)) {
        operations_.RunAsync(execution, operations_.NewCompletion(execution), *async, context);
        return;
      }
      const int64_t begin_ns = state_.trace.on() ? state_.trace.Now() : kNotTraced;
      state_.scheduler->Call(std::get<SyncFn>(fn), context);
      if (begin_ns != kNotTraced) operations_.TraceRun(*execution, begin_ns, /*skipped=*/false);
    }
  } catch (...) {
    if (failure == nullptr) failure = operations_.NewFailure(*execution, std::current_exception());
  }
  // A copy: the last one outlives the frame, as in RunOnHost.
  Issue(execution, std::move(before.inputs), failure, skip, ready);
}

void Devices::CompleteAsync(Execution* execution, std::exception_ptr error, ReadyList& ready) {
  FailureRef failure;
  if (error != nullptr) failure = operations_.NewFailure(*execution, std::move(error));
  // Its inputs may have become done or failed since its function was called.
  IssuedBefore before = OrTerminate([&] { return FencesBefore(*execution); });
  if (failure == nullptr) failure = operations_.FailureOfInputs(*execution, before.failure);
  Issue(execution, std::move(before.inputs), failure, /*skipped=*/false, ready);
}

FenceRef Devices::NewFence(WatchedStream& stream, Execution& execution) {
  if (!state_.scheduler->is_naive()) {
    OrTerminate([&] { ReserveForFence(execution, stream.number()); });
  }
  return OrTerminate([&] { return stream.NewFence(execution); });
}

/// The operation has enqueued its work, or was skipped. Also where it failed: it may have enqueued
/// some.
void Devices::Issue(Execution* execution, std::vector<FenceRef> inputs, FailureRef failure,
                    bool skipped, ReadyList& ready) {
  WatchedStream& stream = StreamOf(*execution);
  FenceRef fence;
  try {
    fence = NewFence(stream, *execution);
    fence->skipped = skipped;
    if (!RunsInAnyCase(execution->property)) fence->inputs = std::move(inputs);
    if (state_.trace.on()) fence->issued_ns = state_.trace.Now();
    if (state_.scheduler->is_naive()) std::exchange(fence, nullptr)->event->Synchronize();
  } catch (const std::exception&) {
    fence = nullptr;
    if (failure == nullptr) failure = operations_.NewFailure(*execution, std::current_exception());
  }
  if (fence == nullptr) {
    operations_.Complete(execution, failure, ready);
    return;
  }
  // Until its fence is reached it is at work, as an operation in a thread is.
  state_.scheduler->Activate();
  Leftovers leftovers;
  operations_.ReleaseVariables(*execution, failure, ready, leftovers, fence);
  operations_.FinishInline(ready);
  stream.Watch(std::move(fence), execution);
  if (!leftovers.empty()) operations_.DispatchAll(ready);
}

FailureRef Devices::ResolveFence(const FenceRef& last) {
  // The device has come past the fences of the inputs too, and theirs, though those who watch them
  // may not have heard. There may be as many as operations pend, more than calls fit on a stack.
  std::vector<FenceRef> path = OrTerminate([&] { return std::vector<FenceRef>{last}; });
  for (;;) {
    const FenceRef fence = path.back();
    const bool resolved = OrTerminate([&] {
      std::lock_guard<std::mutex> hold(fence->resolve_mutex);
      if (!fence->resolved && !AppendUnresolved(fence->inputs, path)) ResolveAfterInputs(*fence);
      return fence->resolved;
    });
    if (!resolved) continue;
    path.pop_back();
    if (path.empty()) return fence->resolution;  // which does not change any more
  }
}

/// Appends those of the fences that are not resolved. Returns whether there are any.
bool Devices::AppendUnresolved(const std::vector<FenceRef>& fences, std::vector<FenceRef>& path) {
  const size_t before = path.size();
  path.reserve(before + fences.size());
  for (const FenceRef& fence : fences) {
    std::lock_guard<std::mutex> hold(fence->resolve_mutex);
    if (!fence->resolved) path.push_back(fence);
  }
  return path.size() != before;
}

/// Requires the fence's resolve_mutex, and that all of its inputs are resolved.
void Devices::ResolveAfterInputs(Fence& fence) {
  std::exception_ptr error;
  try {
    fence.event->Synchronize();
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const FailureRef* earliest = nullptr;
  for (const FenceRef& input : fence.inputs) {
    std::lock_guard<std::mutex> hold(input->resolve_mutex);
    Consider(input->resolution, earliest);
  }
  if (earliest != nullptr) {
    fence.resolution = state_.failures.Inherit(*earliest, fence.sequence);
  } else if (error != nullptr && !fence.skipped) {
    fence.resolution =
        state_.failures.Begin(std::move(error), fence.operation, fence.site, fence.sequence);
  }
  fence.inputs.clear();  // or each fence would keep all before it
  fence.resolved = true;
}

}  // namespace tessera::engine_internal
