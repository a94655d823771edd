// Engine::Record: how pushes become a schedule.

#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/schedule/recording.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/schedule/schedule_plan.h"

namespace tessera::engine_internal {

/// The schedule that Record returns.
class DependencyEngine::RecordedSchedule final : public Schedule {
 public:
  RecordedSchedule(DependencyEngine* engine, std::unique_ptr<const SchedulePlan> plan,
                   std::vector<RecordedDeletion> deletions)
      : engine_(engine),
        pool_(new ReplayPool(std::move(plan), engine->num_workers())),
        deletions_(std::move(deletions)) {}

  ~RecordedSchedule() override {
    engine_->DeleteRecorded(deletions_);
    ReplayPool::Drop(pool_);
  }

  void Replay(const ReplayOptions& options, std::source_location site) override {
    engine_->Replay(*pool_, options, site);
  }
  size_t size() const override { return pool_->plan().size(); }
  std::string Describe() const override { return pool_->plan().Describe(); }
  std::string Graphviz() const override { return pool_->plan().Graphviz(); }

 private:
  DependencyEngine* const engine_;
  ReplayPool* const pool_;
  const std::vector<RecordedDeletion> deletions_;
};

std::unique_ptr<Schedule> DependencyEngine::Record(const std::function<void()>& pushes,
                                                   const RecordOptions& options) {
  const std::string name(options.name.empty() ? "(unnamed)" : options.name);
  CheckAccepting(name);
  Recording::CheckNone(state_.id, "Record");
  if (pushes == nullptr) {
    throw InvalidArgument("Engine::Record: \"", name,
                          "\": the function is empty; expected one that can be called");
  }
  std::vector<RecordedPush> recorded;
  std::vector<RecordedDeletion> deletions;
  std::unordered_set<const DependencyVariable*> own;  // nobody else has ever used them
  // A recording that fails leaves only the variables that it asked to delete.
  absl::Cleanup give_back = [&] { DeleteRecorded(deletions); };
  {
    Recording recording(state_.id);
    absl::Cleanup keep = [&] {
      recorded = std::move(recording.pushes);
      deletions = std::move(recording.deletions);
      // In place, for in a cleanup nothing may throw.
      std::erase_if(recording.made, [&](const DependencyVariable* variable) {
        return !recording.deleted.contains(variable);
      });
      own = std::move(recording.made);
    };
    pushes();
  }
  auto plan = std::make_unique<const SchedulePlan>(name, options.slots, std::move(recorded), own);
  auto schedule = std::make_unique<RecordedSchedule>(this, std::move(plan), deletions);
  std::move(give_back).Cancel();
  return schedule;
}

void Recording::CheckNone(uint64_t engine_id, std::string_view call) {
  if (Of(engine_id) == nullptr) return;
  throw FailedPrecondition("Engine: ", call,
                           " was called while this thread records a schedule, in which it has no "
                           "place; expected pushes, and new and deleted variables");
}

void Recording::Note(OperatorRecord* op, Device device, int priority, std::source_location site) {
  RecordedPush push{OperatorRef(op), device, priority, site};
  for (size_t i = 0; i < op->edges.size(); ++i) {
    DependencyVariable& variable = *op->edges[i].variable();
    const bool is_deleted = deleted.contains(&variable);
    std::lock_guard<FutexLock> hold(variable.lock);
    if (variable.alive && variable.id == op->variable_ids[i] && !is_deleted) continue;
    throw InvalidArgument("Engine: operation \"", op->name, "\": ", variable.ToString(),
                          " was deleted; expected a living variable");
  }
  pushes.push_back(std::move(push));
}

void Recording::NoteDeletion(DependencyVariable* variable) {
  bool alive;
  {
    std::lock_guard<FutexLock> hold(variable->lock);
    alive = variable->alive;
  }
  if (!alive || !deleted.insert(variable).second) {
    throw InvalidArgument("Engine: \"DeleteVariable\": ", variable->ToString(),
                          " was deleted already");
  }
  absl::Cleanup forget = [&] { deleted.erase(variable); };
  deletions.push_back({variable, variable->id});
  std::move(forget).Cancel();
}

/// Deletes what is still there: somebody may have deleted it without waiting for the schedule.
void DependencyEngine::DeleteRecorded(std::span<const RecordedDeletion> deletions) {
  if (forked()) return;
  for (const RecordedDeletion& deletion : deletions)
    operations_.Delete(deletion.variable, deletion.id);
}

void DependencyEngine::Replay(ReplayPool& pool, const ReplayOptions& options,
                              std::source_location site) {
  CheckAccepting(pool.plan().name());
  Recording::CheckNone(state_.id, "Schedule::Replay");
  replays_.Submit(pool, options, site);
}

}  // namespace tessera::engine_internal
