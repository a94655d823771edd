#include "tessera/graph/passes/memory_plan.h"

#include <algorithm>

namespace tessera::graph {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

/// A free block is used for a value if their sizes differ by at most this factor. Otherwise a small
/// value would hold a large block, or a block would grow so much that sharing saves nothing.
constexpr int64_t kMatchRange = 16;

class Planner {
 public:
  explicit Planner(Program* program) : program_(*program) {
    plan_.value_block.assign(program_.values.size(), kNoValue);
    FindLastUses();
  }

  MemoryPlan Plan() {
    const int count = static_cast<int>(program_.steps.size());
    for (int i = 0; i < count; ++i) {
      Step& step = program_.steps[At(i)];
      std::vector<bool> taken_over(program_.values.size(), false);
      for (const InplacePair& pair :
           step.node->property->ForwardInplaceOption(step.inputs, step.outputs)) {
        TryInplace(i, &step, pair, &taken_over);
      }
      for (const int value : step.Writes()) {
        if (IsIntermediate(value) && plan_.value_block[At(value)] == kNoValue) {
          plan_.value_block[At(value)] = Allocate(program_.values[At(value)].SizeBytes());
          plan_.unplanned_bytes += program_.values[At(value)].SizeBytes();
        }
      }
      for (const int value : dying_[At(i)]) {
        if (!taken_over[At(value)]) free_.push_back(plan_.value_block[At(value)]);
      }
    }
    return std::move(plan_);
  }

 private:
  bool IsIntermediate(int value) const {
    return program_.values[At(value)].kind == ValueKind::kIntermediate;
  }

  void FindLastUses() {
    last_use_.assign(program_.values.size(), kNoValue);
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      for (const int value : program_.steps[i].Reads()) last_use_[At(value)] = static_cast<int>(i);
      for (const int value : program_.steps[i].Writes()) last_use_[At(value)] = static_cast<int>(i);
    }
    dying_.resize(program_.steps.size());
    for (size_t value = 0; value < last_use_.size(); ++value) {
      if (last_use_[value] != kNoValue && IsIntermediate(static_cast<int>(value))) {
        dying_[At(last_use_[value])].push_back(static_cast<int>(value));
      }
    }
  }

  void TryInplace(int i, Step* step, const InplacePair& pair, std::vector<bool>* taken_over) {
    if (pair.source == kNoValue || pair.target == kNoValue) return;
    if (!IsIntermediate(pair.source) || !IsIntermediate(pair.target)) return;
    if (last_use_[At(pair.source)] != i || (*taken_over)[At(pair.source)]) return;
    if (plan_.value_block[At(pair.target)] != kNoValue) return;  // has a block, or is added to
    const Value& source = program_.values[At(pair.source)];
    const Value& target = program_.values[At(pair.target)];
    if (source.SizeBytes() != target.SizeBytes()) return;
    // An input that the step reads in two roles may still be needed in the other role.
    const std::vector<int>& reads = step->Reads();
    if (std::count(reads.begin(), reads.end(), pair.source) != 1) return;
    const auto slot =
        std::find(step->outputs.begin(), step->outputs.end(), pair.target) - step->outputs.begin();
    OpReqType& req = step->req[static_cast<size_t>(slot)];
    if (req != kWriteTo) return;
    req = kWriteInplace;
    plan_.value_block[At(pair.target)] = plan_.value_block[At(pair.source)];
    (*taken_over)[At(pair.source)] = true;
    plan_.unplanned_bytes += target.SizeBytes();
    ++plan_.inplace;
  }

  int Allocate(int64_t size_bytes) {
    // The best block is the smallest free one that is large enough, else the largest one that can
    // grow.
    const auto fits = [&](int block) { return plan_.block_size_bytes[At(block)] >= size_bytes; };
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const int64_t size = plan_.block_size_bytes[At(*it)];
      if (size > size_bytes * kMatchRange || size * kMatchRange < size_bytes) continue;
      if (best == free_.end()) {
        best = it;
      } else if (fits(*it) != fits(*best)) {
        if (fits(*it)) best = it;
      } else if (fits(*it) == (size < plan_.block_size_bytes[At(*best)])) {
        best = it;
      }
    }
    if (best == free_.end()) {
      plan_.block_size_bytes.push_back(size_bytes);
      return static_cast<int>(plan_.block_size_bytes.size()) - 1;
    }
    const int block = *best;
    free_.erase(best);
    plan_.block_size_bytes[At(block)] = std::max(plan_.block_size_bytes[At(block)], size_bytes);
    return block;
  }

  Program& program_;
  MemoryPlan plan_;
  std::vector<int> last_use_;
  std::vector<std::vector<int>> dying_;  // for each step, the intermediate values used last there
  std::vector<int> free_;
};

}  // namespace

MemoryPlan PlanMemory(Program* program) { return Planner(program).Plan(); }

}  // namespace tessera::graph
