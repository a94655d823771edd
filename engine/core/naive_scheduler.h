#ifndef TESSERA_ENGINE_CORE_NAIVE_SCHEDULER_H_
#define TESSERA_ENGINE_CORE_NAIVE_SCHEDULER_H_

#include <cstdint>

#include "tessera/engine/core/scheduler.h"

namespace tessera::engine_internal {

/// Runs each operation in the thread that makes it ready: at its push, or where the last operation
/// that it waits for is complete. If a completion makes several ready, all except the first stand
/// in the queue, which threads come to that wait in operations or are through with their outermost
/// one.
class NaiveScheduler final : public Scheduler {
 public:
  /// `woken` is called when something new stands in the queue.
  NaiveScheduler(OperationRunner* runner, const ForkWatch& watch, const StallReporter& stall,
                 uint64_t engine_id, std::function<void()> woken)
      : Scheduler(runner, watch, stall), engine_id_(engine_id), woken_(std::move(woken)) {}

  void Dispatch(ReadyList& ready) override;
  bool is_naive() const override { return true; }
  int num_workers() const override { return 1; }
  void Call(const SyncFn& fn, const RunContext& context) override;
  void Call(const AsyncFn& fn, const RunContext& context, OnComplete on_complete) override;
  void CallIsolated(const std::function<void()>& fn) override;
  void RunOnTop() override;
  bool HasWorkOnTop() override;

 private:
  // A function that pushes or completes others has the first of them run inside itself, as at any
  // push; but not deeper than this, where all go to the queue for the outermost call, or a long
  // chain would exhaust the stack.
  static constexpr int kMaxDepth = 16;
  // The number of operations on top of each other that waits on the thread do not need.
  static constexpr int kMaxOnTop = 64;

  void Queue(ReadyList& ready);
  Execution* TakeBest(ReadyList& ready);
  Execution* TakeReady();

  static inline thread_local int on_top_ = 0;

  const uint64_t engine_id_;
  const std::function<void()> woken_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_NAIVE_SCHEDULER_H_
