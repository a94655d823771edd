#include "tessera/graph/passes/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/graph/passes/buffer_placement.h"

namespace tessera::graph {
namespace {

using base_internal::At;

static_assert(MemoryPlan::kAlignment == BufferPlacement::kAlignment);

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
    buffer_.assign(program_.values.size(), kNoValue);
    FindLastUses();
  }

  MemoryPlan Plan() {
    for (int i = 0; i < program_.num_steps(); ++i) {
      if (i == program_.num_forward_steps) num_forward_values_ = values_.size();
      PlanStep(i);
    }
    if (program_.num_steps() == program_.num_forward_steps) num_forward_values_ = values_.size();
    for (size_t i = 0; i < plan_.arenas.size(); ++i) PlaceArena(static_cast<int>(i));
    for (const int value : values_) {
      const Buffer& buffer = buffers_[At(buffer_[At(value)])];
      plan_.value_arena[At(value)] = buffer.arena;
      plan_.value_offset[At(value)] = buffer.offset;
    }
    FindLivenessBound();
    FindPrevious();
    return std::move(plan_);
  }

 private:
  /// The bytes of a value, or of several that are written over each other.
  struct Buffer {
    BufferUse use;
    int value;           // the one that holds the bytes after the steps so far
    int arena;           // of the step that writes it first, until it is placed
    int64_t offset = 0;  // in bytes
  };

  bool IsIntermediate(int value) const {
    return program_.values[At(value)].kind == ValueKind::kIntermediate;
  }
  int64_t SizeOf(int value) const { return program_.values[At(value)].SizeBytes(); }

  void FindLastUses() {
    last_use_.assign(program_.values.size(), kNoValue);
    for (int i = 0; i < program_.num_steps(); ++i) {
      const Step& step = program_.steps[At(i)];
      for (const int value : step.Reads()) last_use_[At(value)] = i;
      for (const int value : step.Writes()) last_use_[At(value)] = i;
    }
  }

  void PlanStep(int i) {
    Step& step = program_.steps[At(i)];
    // An earlier plan of the program may have had other pairs.
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.req[k] == kWriteInplace) step.req[k] = kWriteTo;
    }
    const int arena = ArenaOf(step.device, i >= program_.num_forward_steps);
    if (sharing_ != MemorySharing::kNone) PlanInplace(i, arena, &step);
    for (const int value : step.Writes()) {
      if (!IsIntermediate(value) || buffer_[At(value)] != kNoValue) continue;
      BufferUse use{SizeOf(value), i, last_use_[At(value)]};
      if (sharing_ == MemorySharing::kNone) use = {SizeOf(value), 0, program_.num_steps()};
      Assign(value, static_cast<int>(buffers_.size()));
      buffers_.push_back({use, value, arena});
    }
  }

  int ArenaOf(int device, bool is_backward) {
    const bool backward = is_backward && (sharing_ == MemorySharing::kForwardFirst ||
                                          sharing_ == MemorySharing::kWithinDirection);
    const int found = FindArena(device, backward);
    if (found != kNoValue) return found;
    plan_.arenas.push_back({device, backward, 0});
    return static_cast<int>(plan_.arenas.size()) - 1;
  }

  /// Returns the number of an arena, or kNoValue.
  int FindArena(int device, bool backward) const {
    for (size_t i = 0; i < plan_.arenas.size(); ++i) {
      const MemoryPlan::Arena& arena = plan_.arenas[i];
      if (arena.device == device && arena.backward == backward) return static_cast<int>(i);
    }
    return kNoValue;
  }

  void Assign(int value, int buffer) {
    buffer_[At(value)] = buffer;
    plan_.unplanned_bytes += SizeOf(value);
    values_.push_back(value);
  }

  /// Places the buffers of an arena. Those of the gradient lie beside forward ones if the sharing
  /// allows it, and move to the arena of these unless they lie behind them.
  void PlaceArena(int arena) {
    MemoryPlan::Arena& planned = plan_.arenas[At(arena)];
    const int forward = planned.backward && sharing_ == MemorySharing::kForwardFirst
                            ? FindArena(planned.device, /*backward=*/false)
                            : kNoValue;
    const int64_t border = forward == kNoValue ? 0 : plan_.arenas[At(forward)].size_bytes;
    std::vector<Buffer*> buffers;
    std::vector<BufferUse> uses, earlier_uses;
    std::vector<int64_t> earlier_offsets;
    for (Buffer& buffer : buffers_) {
      if (buffer.arena == arena) {
        buffers.push_back(&buffer);
        uses.push_back(buffer.use);
      } else if (buffer.arena == forward) {
        earlier_uses.push_back(buffer.use);
        earlier_offsets.push_back(buffer.offset);
      }
    }
    const BufferPlacement placement = PlaceBuffers(uses, {earlier_uses, earlier_offsets, border});
    for (size_t i = 0; i < buffers.size(); ++i) {
      const bool is_behind = placement.offsets[i] >= border;
      buffers[i]->offset = placement.offsets[i] - (is_behind ? border : 0);
      if (!is_behind) buffers[i]->arena = forward;
    }
    planned.size_bytes = placement.size_bytes - border;
  }

  void FindLivenessBound() {
    std::vector<std::vector<BufferUse>> uses(program_.devices.size());
    for (const Buffer& buffer : buffers_) {
      uses[At(plan_.arenas[At(buffer.arena)].device)].push_back(buffer.use);
    }
    for (const std::vector<BufferUse>& of_device : uses) {
      plan_.liveness_bytes += LivenessBound(of_device);
    }
  }

  /// A step's reads and outputs by value, to be looked up for each of its pairs.
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
    if (last_use_[At(pair.source)] != i || SizeOf(pair.source) != SizeOf(pair.target)) return;
    if (buffer_[At(pair.source)] == kNoValue) return;
    if (buffer_[At(pair.target)] != kNoValue) return;  // is written already, or is added to
    Buffer& buffer = buffers_[At(buffer_[At(pair.source)])];
    if (buffer.value != pair.source || !MayPass(buffer.arena, arena)) return;
    // An input that the step reads in two roles may still be needed in the other role.
    if (uses.reads.at(pair.source) != 1) return;
    OpReqType& req = step->req[uses.slots.at(pair.target)];
    if (req != kWriteTo) return;
    req = kWriteInplace;
    buffer.value = pair.target;
    buffer.use.last_step = last_use_[At(pair.target)];
    Assign(pair.target, buffer_[At(pair.source)]);
    ++plan_.inplace;
  }

  /// Returns whether a step of an arena may write over a value of another one.
  bool MayPass(int from, int to) const {
    if (sharing_ == MemorySharing::kWithinDirection) return from == to;
    return plan_.arenas[At(from)].device == plan_.arenas[At(to)].device;
  }

  /// Lets values_[begin, end) take their bytes in turn.
  void Walk(size_t begin, size_t end, bool note_previous, std::vector<Occupancy>* occupancy) {
    for (size_t i = begin; i < end; ++i) {
      const int value = values_[i];
      const int64_t offset = plan_.value_offset[At(value)];
      if (SizeOf(value) == 0) continue;
      (*occupancy)[At(plan_.value_arena[At(value)])].Occupy(
          offset, offset + BufferPlacement::Aligned(SizeOf(value)), value,
          note_previous ? &plan_.previous[At(value)] : nullptr);
    }
  }

  /// A forward run follows either a forward run or a run of all steps.
  void FindPrevious() {
    std::vector<Occupancy> after_forward(plan_.arenas.size());
    Walk(0, num_forward_values_, false, &after_forward);
    std::vector<Occupancy> after_all = after_forward;
    Walk(num_forward_values_, values_.size(), false, &after_all);
    Walk(0, num_forward_values_, true, &after_forward);
    Walk(0, values_.size(), true, &after_all);
    for (std::vector<int>& values : plan_.previous) {
      std::sort(values.begin(), values.end());
      values.erase(std::unique(values.begin(), values.end()), values.end());
    }
  }

  Program& program_;
  const MemorySharing sharing_;
  MemoryPlan plan_;
  std::vector<int> last_use_;
  std::vector<int> buffer_;        // for each intermediate value that a step writes
  std::vector<Buffer> buffers_;    // in the order of their first steps
  std::vector<int> values_;        // the intermediate values in the order of their writes
  size_t num_forward_values_ = 0;  // those among them that forward steps write
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
