#ifndef TESSERA_ENGINE_SCHEDULE_RECORDING_H_
#define TESSERA_ENGINE_SCHEDULE_RECORDING_H_

#include <cstdint>
#include <source_location>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tessera/engine/schedule/schedule_plan.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// A variable that is to be deleted with a schedule; by number too, for what may come in its place.
struct RecordedDeletion {
  DependencyVariable* variable;
  uint64_t id;
};

/// While it lives, pushes of its thread on an engine are noted in it. Those of several engines
/// nest. Operations that run on the thread meanwhile push as ever.
class Recording {
 public:
  explicit Recording(uint64_t engine_id)
      : engine_id_(engine_id), frame_(ThreadFrame::Innermost()), outer_(top_) {
    top_ = this;
  }
  ~Recording() { top_ = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// The recording of the engine that this thread's calls belong to; null if there is none.
  static Recording* Of(uint64_t engine_id) {
    for (Recording* recording = top_; recording != nullptr; recording = recording->outer_) {
      if (recording->engine_id_ != engine_id) continue;
      return recording->frame_ == ThreadFrame::Innermost() ? recording : nullptr;
    }
    return nullptr;
  }

  /// Throws Error(kFailedPrecondition) if there is one, in which `call` has no place.
  static void CheckNone(uint64_t engine_id, std::string_view call);

  /// Notes a push. Takes over the caller's reference to `op`. Throws Error(kInvalidArgument) if one
  /// of its variables is deleted.
  void Note(OperatorRecord* op, Device device, int priority, std::source_location site);
  /// Notes a deletion. Throws Error(kInvalidArgument) if the variable is deleted.
  void NoteDeletion(DependencyVariable* variable);

  std::vector<RecordedPush> pushes;
  std::unordered_set<const DependencyVariable*> made;
  std::unordered_set<const DependencyVariable*> deleted;
  std::vector<RecordedDeletion> deletions;  ///< those of `deleted`, in their order

 private:
  static inline thread_local Recording* top_ = nullptr;

  const uint64_t engine_id_;
  const ThreadFrame* const frame_;
  Recording* const outer_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_SCHEDULE_RECORDING_H_
