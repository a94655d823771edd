#include "tessera/graph/passes/memory_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "tessera/base/at.h"

namespace tessera::graph {
namespace {

using base_internal::At;

int64_t Aligned(int64_t size_bytes) {
  return (size_bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment *
         MemoryPlan::kAlignment;
}

/// The free ranges of an arena, which grows.
class FreeRanges {
 public:
  /// Returns the offset of `size` bytes: in the smallest free range that is large enough, else at
  /// the end.
  int64_t Take(int64_t size) {
    const auto best = by_size_.lower_bound({size, 0});
    if (best != by_size_.end()) {
      const auto [range_size, offset] = *best;
      Remove(offset, range_size);
      if (range_size > size) Insert(offset + size, range_size - size);
      return offset;
    }
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [last, last_size] = *std::prev(by_offset_.end());
      if (last + last_size == end_) {
        Remove(last, last_size);
        offset = last;
      }
    }
    end_ = offset + size;
    return offset;
  }

  /// Frees a range, which joins its neighbours.
  void Give(int64_t offset, int64_t size) {
    const auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      const auto [before, before_size] = *std::prev(next);
      if (before + before_size == offset) {
        Remove(before, before_size);
        offset = before;
        size += before_size;
      }
    }
    const auto after = by_offset_.find(offset + size);
    if (after != by_offset_.end()) {
      const int64_t after_size = after->second;
      Remove(offset + size, after_size);
      size += after_size;
    }
    Insert(offset, size);
  }

  /// Returns the arena's size.
  int64_t end() const { return end_; }

 private:
  void Insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

/// For each byte of an arena, the value that used it last.
class Occupancy {
 public:
  /// Gives bytes [begin, end) to a value. Adds the values that had some of them to `previous`,
  /// unless it is null.
  void Occupy(int64_t begin, int64_t end, int value, std::vector<int>* previous) {
    auto it = ranges_.upper_bound(begin);
    if (it != ranges_.begin()) --it;
    while (it != ranges_.end() && it->first < end) {
      const auto [range_begin, range] = *it;
      if (range.end <= begin) {
        ++it;
        continue;
      }
      if (previous != nullptr && range.value != value) previous->push_back(range.value);
      it = ranges_.erase(it);
      if (range_begin < begin) ranges_.emplace(range_begin, Range{begin, range.value});
      if (range.end > end) it = ranges_.emplace(end, Range{range.end, range.value}).first;
    }
    ranges_[begin] = {end, value};
  }

 private:
  struct Range {
    int64_t end;
    int value;
  };
  std::map<int64_t, Range> ranges_;  // by begin
};

class Planner {
 public:
  Planner(Program* program, MemorySharing sharing) : program_(*program), sharing_(sharing) {
    plan_.value_arena.assign(program_.values.size(), kNoValue);
    plan_.value_offset.assign(program_.values.size(), 0);
    plan_.previous.resize(program_.values.size());
    taken_over_.assign(program_.values.size(), false);
    FindLastUses();
  }

  MemoryPlan Plan() {
    for (int i = 0; i < program_.num_steps(); ++i) {
      if (i == program_.num_forward_steps) num_forward_values_ = placed_.size();
      PlanStep(i);
    }
    if (program_.num_steps() == program_.num_forward_steps) num_forward_values_ = placed_.size();
    for (size_t i = 0; i < plan_.arenas.size(); ++i) plan_.arenas[i].size_bytes = free_[i].end();
    FindPrevious();
    return std::move(plan_);
  }

 private:
  bool IsIntermediate(int value) const {
    return program_.values[At(value)].kind == ValueKind::kIntermediate;
  }
  int64_t SizeOf(int value) const { return Aligned(program_.values[At(value)].SizeBytes()); }

  void FindLastUses() {
    last_use_.assign(program_.values.size(), kNoValue);
    dying_.resize(program_.steps.size());
    for (int i = 0; i < program_.num_steps(); ++i) {
      const Step& step = program_.steps[At(i)];
      for (const int value : step.Reads()) last_use_[At(value)] = i;
      for (const int value : step.Writes()) last_use_[At(value)] = i;
    }
    for (int value = 0; value < program_.num_values(); ++value) {
      if (last_use_[At(value)] != kNoValue && IsIntermediate(value)) {
        dying_[At(last_use_[At(value)])].push_back(value);
      }
    }
  }

  void PlanStep(int i) {
    Step& step = program_.steps[At(i)];
    const int arena = ArenaOf(step.device, i >= program_.num_forward_steps);
    if (sharing_ != MemorySharing::kNone) PlanInplace(i, arena, &step);
    for (const int value : step.Writes()) {
      if (!IsIntermediate(value) || plan_.value_arena[At(value)] != kNoValue) continue;
      Place(value, arena, free_[At(arena)].Take(SizeOf(value)));
    }
    if (sharing_ == MemorySharing::kNone) return;
    for (const int value : dying_[At(i)]) {
      if (taken_over_[At(value)] || SizeOf(value) == 0) continue;
      free_[At(plan_.value_arena[At(value)])].Give(plan_.value_offset[At(value)], SizeOf(value));
    }
  }

  int ArenaOf(int device, bool is_backward) {
    const bool backward = is_backward && sharing_ == MemorySharing::kWithinDirection;
    for (size_t i = 0; i < plan_.arenas.size(); ++i) {
      const MemoryPlan::Arena& arena = plan_.arenas[i];
      if (arena.device == device && arena.backward == backward) return static_cast<int>(i);
    }
    plan_.arenas.push_back({device, backward, 0});
    free_.emplace_back();
    return static_cast<int>(plan_.arenas.size()) - 1;
  }

  void Place(int value, int arena, int64_t offset) {
    plan_.value_arena[At(value)] = arena;
    plan_.value_offset[At(value)] = offset;
    plan_.unplanned_bytes += program_.values[At(value)].SizeBytes();
    placed_.push_back(value);
  }

  /// What a step does with values, to be looked up for each of its pairs.
  struct StepUses {
    std::unordered_map<int, int> reads;     // by value, how often the step reads it
    std::unordered_map<int, size_t> slots;  // by value, its position among the outputs
  };

  void PlanInplace(int i, int arena, Step* step) {
    const std::vector<InplacePair> pairs =
        step->node->property->ForwardInplaceOption(step->inputs, step->outputs);
    if (pairs.empty()) return;
    StepUses uses;
    for (const int value : step->Reads()) ++uses.reads[value];
    for (size_t k = 0; k < step->outputs.size(); ++k) uses.slots.emplace(step->outputs[k], k);
    for (const InplacePair& pair : pairs) TryInplace(i, arena, step, uses, pair);
  }

  void TryInplace(int i, int arena, Step* step, const StepUses& uses, const InplacePair& pair) {
    if (pair.source == kNoValue || pair.target == kNoValue) return;
    if (!IsIntermediate(pair.source) || !IsIntermediate(pair.target)) return;
    if (last_use_[At(pair.source)] != i || taken_over_[At(pair.source)]) return;
    if (plan_.value_arena[At(pair.target)] != kNoValue) return;  // is placed, or is added to
    if (plan_.value_arena[At(pair.source)] != arena) return;
    if (program_.values[At(pair.source)].SizeBytes() !=
        program_.values[At(pair.target)].SizeBytes()) {
      return;
    }
    // An input that the step reads in two roles may still be needed in the other role.
    if (uses.reads.at(pair.source) != 1) return;
    OpReqType& req = step->req[uses.slots.at(pair.target)];
    if (req != kWriteTo) return;
    req = kWriteInplace;
    taken_over_[At(pair.source)] = true;
    Place(pair.target, arena, plan_.value_offset[At(pair.source)]);
    ++plan_.inplace;
  }

  /// Lets the values placed in [begin, end) take their bytes in turn.
  void Walk(size_t begin, size_t end, bool note_previous, std::vector<Occupancy>* occupancy) {
    for (size_t i = begin; i < end; ++i) {
      const int value = placed_[i];
      const int64_t offset = plan_.value_offset[At(value)];
      if (SizeOf(value) == 0) continue;
      (*occupancy)[At(plan_.value_arena[At(value)])].Occupy(
          offset, offset + SizeOf(value), value,
          note_previous ? &plan_.previous[At(value)] : nullptr);
    }
  }

  /// A forward run follows either a forward run or a run of all steps.
  void FindPrevious() {
    std::vector<Occupancy> after_forward(plan_.arenas.size());
    Walk(0, num_forward_values_, false, &after_forward);
    std::vector<Occupancy> after_all = after_forward;
    Walk(num_forward_values_, placed_.size(), false, &after_all);
    Walk(0, num_forward_values_, true, &after_forward);
    Walk(0, placed_.size(), true, &after_all);
    for (std::vector<int>& values : plan_.previous) {
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    }
  }

  Program& program_;
  const MemorySharing sharing_;
  MemoryPlan plan_;
  std::vector<int> last_use_;
  std::vector<std::vector<int>> dying_;  // for each step, the intermediate values used last there
  std::vector<bool> taken_over_;         // for each value
  std::vector<FreeRanges> free_;         // for each arena
  std::vector<int> placed_;              // the intermediate values in the order of their writes
  size_t num_forward_values_ = 0;        // those among them that forward steps write
};

}  // namespace

int64_t MemoryPlan::SizeBytes() const {
  int64_t size_bytes = 0;
  for (const Arena& arena : arenas) size_bytes += arena.size_bytes;
  return size_bytes;
}

MemoryPlan PlanMemory(Program* program, MemorySharing sharing) {
  return Planner(program, sharing).Plan();
}

}  // namespace tessera::graph
