#ifndef TESSERA_ENGINE_INTERNAL_RECORDING_H_
#define TESSERA_ENGINE_INTERNAL_RECORDING_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "tessera/engine/internal/schedule_plan.h"

namespace tessera::engine_internal {

/// While it lives, pushes of its thread on an engine are noted in it. Those of several engines
/// nest.
class Recording {
 public:
  explicit Recording(uint64_t engine_id) : engine_id_(engine_id), outer_(top_) { top_ = this; }
  ~Recording() { top_ = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// This thread's recording of the engine; null if there is none.
  static Recording* Of(uint64_t engine_id) {
    for (Recording* recording = top_; recording != nullptr; recording = recording->outer_) {
      if (recording->engine_id_ == engine_id) return recording;
    }
    return nullptr;
  }

  /// Those that were made here and deleted here: nobody else has ever used them.
  std::vector<DependencyVariable*> Own() const {
    std::vector<DependencyVariable*> own;
    std::copy_if(deleted.begin(), deleted.end(), std::back_inserter(own),
                 [this](DependencyVariable* variable) { return made.contains(variable); });
    return own;
  }

  std::vector<RecordedPush> pushes;
  absl::flat_hash_set<DependencyVariable*> made;
  std::vector<DependencyVariable*> deleted;  ///< to be deleted with the schedule

 private:
  static inline thread_local Recording* top_ = nullptr;

  const uint64_t engine_id_;
  Recording* const outer_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_RECORDING_H_
