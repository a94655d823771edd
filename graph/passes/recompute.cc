#include "tessera/graph/passes/recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/graph/node.h"
#include "tessera/ops/property.h"

namespace tessera::graph {
namespace {

using base_internal::At;

// Recomputing outputs of at most this part of their step's largest one saves no memory.
constexpr int64_t kSmallPart = 64;
// The longest chain of cheap copies, all of whose results may be in use at the same time. In a
// residual network, it reaches from one block to the next.
constexpr int kMaxChain = 4;

bool IsMarked(const Node& node) {
  const std::optional<std::string> text =
      node.attributes.Find(std::string(AttributeName(node, "__force_mirroring__")));
  return text == "1" || text == "true" || text == "True";
}

/// Returns whether a step reads and writes memory and computes little.
bool IsCheap(const Step& step) {
  return step.node->property->ForwardForm().has_value() || !step.mutated.empty();
}

/// The forward steps' results: who writes and reads them, and which can be computed again.
class ForwardResults {
 public:
  explicit ForwardResults(const Program& program)
      : program_(program),
        writer_(program.values.size(), kNoValue),
        num_writes_(program.values.size(), 0),
        last_read_(program.values.size(), kNoValue),
        is_saved_(program.values.size(), false),
        can_drop_(program.values.size(), false) {
    for (int i = 0; i < program.num_steps(); ++i) {
      const Step& step = program.steps[At(i)];
      const bool is_forward = i < program.num_forward_steps;
      for (const int value : step.Writes()) {
        if (num_writes_[At(value)]++ == 0 && is_forward) writer_[At(value)] = i;
      }
      for (const int value : step.Reads()) {
        if (is_forward) {
          last_read_[At(value)] = i;
        } else {
          is_saved_[At(value)] = writer_[At(value)] != kNoValue;
        }
      }
    }
    for (int i = 0; i < program.num_forward_steps; ++i) FindResults(program.steps[At(i)]);
  }

  /// Returns the forward step that writes a value, or kNoValue.
  int writer(int value) const { return writer_[At(value)]; }
  /// Returns the last forward step that reads a value, or kNoValue.
  int last_read(int value) const { return last_read_[At(value)]; }
  /// Returns whether a gradient step reads a result.
  bool is_saved(int value) const { return is_saved_[At(value)]; }
  /// Returns whether the gradient can recompute a value, so that it need not be stored.
  bool can_drop(int value) const { return can_drop_[At(value)]; }

 private:
  void FindResults(const Step& step) {
    if (!IsRepeatable(step)) return;
    int64_t largest = 0;
    for (const int value : step.outputs) largest = std::max(largest, SizeOf(value));
    for (const int value : step.outputs) {
      if (value == kNoValue || num_writes_[At(value)] != 1) continue;
      if (program_.values[At(value)].kind != ValueKind::kIntermediate) continue;
      can_drop_[At(value)] = SizeOf(value) > largest / kSmallPart;
    }
  }

  /// Returns whether a forward step computes the value, instead of changing what the caller gave.
  bool IsResult(int value) const {
    const ValueKind kind = program_.values[At(value)].kind;
    return writer_[At(value)] != kNoValue && kind != ValueKind::kArgument &&
           kind != ValueKind::kAuxState;
  }

  int64_t SizeOf(int value) const {
    return value == kNoValue ? 0 : program_.values[At(value)].SizeBytes();
  }

  bool IsRepeatable(const Step& step) const {
    const Node& node = *step.node;
    if (node.forward != nullptr || !node.subgraphs.empty()) return false;
    if (!node.property->IsRepeatable()) return false;
    if (!step.mutated.empty() && !program_.repeats_mutating) return false;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int value = step.inputs[i];
      const bool is_mutated = std::find(step.mutated.begin(), step.mutated.end(),
                                        static_cast<int>(i)) != step.mutated.end();
      const bool is_result = IsResult(value);
      if (num_writes_[At(value)] > (is_mutated || is_result ? 1 : 0)) return false;
    }
    return true;
  }

  const Program& program_;
  std::vector<int> writer_, num_writes_, last_read_;  // of each value
  std::vector<bool> is_saved_, can_drop_;             // of each value
};

/// Puts copies of forward steps in front of the gradient steps that read dropped values.
class Copier {
 public:
  /// `dropped` has an entry for each value, which is true only where ForwardResults::can_drop is.
  Copier(Program* program, const ForwardResults& results, const std::vector<bool>& dropped)
      : program_(*program),
        results_(results),
        dropped_(dropped),
        copy_(program->values.size(), kNoValue),
        is_copied_(At(program->num_forward_steps), false) {}

  void Run() {
    const auto border = program_.steps.begin() + program_.num_forward_steps;
    std::vector<Step> gradient(std::make_move_iterator(border),
                               std::make_move_iterator(program_.steps.end()));
    program_.steps.erase(border, program_.steps.end());
    for (Step& step : gradient) {
      for (const int value : step.inputs) CopyWriters(value);
      ReadCopies(&step);
      program_.steps.push_back(std::move(step));
    }
  }

 private:
  bool IsDropped(int value) const { return At(value) < dropped_.size() && dropped_[At(value)]; }

  /// Appends a copy of the step that writes a dropped value, after copies of the steps before it
  /// that it needs.
  void CopyWriters(int value) {
    std::vector<int> needed;
    const auto need = [&](int input) {
      if (!IsDropped(input) || is_copied_[At(results_.writer(input))]) return;
      is_copied_[At(results_.writer(input))] = true;
      needed.push_back(results_.writer(input));
    };
    need(value);
    for (size_t next = 0; next < needed.size(); ++next) {
      for (const int input : program_.steps[At(needed[next])].inputs) need(input);
    }
    std::sort(needed.begin(), needed.end());  // in the order of the forward steps
    for (const int step : needed) program_.steps.push_back(CopyOf(program_.steps[At(step)]));
  }

  /// Returns a step that writes the dropped outputs of `step` to new values, and nothing else that
  /// anybody reads.
  Step CopyOf(const Step& step) {
    Step copy = step;
    ReadCopies(&copy);
    for (size_t k = 0; k < copy.outputs.size(); ++k) {
      const int value = copy.outputs[k];
      const bool is_dropped = value != kNoValue && IsDropped(value);
      const bool is_written = is_dropped || static_cast<int>(k) == step.held_output;
      copy.outputs[k] = is_written ? NewValueLike(value) : kNoValue;
      copy.req[k] = is_written ? kWriteTo : kNullOp;
      if (is_dropped) copy_[At(value)] = copy.outputs[k];
    }
    std::fill(copy.req.begin() + static_cast<std::ptrdiff_t>(copy.outputs.size()), copy.req.end(),
              kNullOp);
    if (copy.workspace != kNoValue) copy.workspace = NewValueLike(copy.workspace);
    return copy;
  }

  int NewValueLike(int value) {
    Value like = program_.values[At(value)];
    like.kind = ValueKind::kIntermediate;
    program_.values.push_back(std::move(like));
    return program_.num_values() - 1;
  }

  void ReadCopies(Step* step) const {
    for (int& value : step->inputs) {
      if (IsDropped(value)) value = copy_[At(value)];
    }
  }

  Program& program_;
  const ForwardResults& results_;
  const std::vector<bool>& dropped_;
  std::vector<int> copy_;        // of each value of the given program, once a step writes it
  std::vector<bool> is_copied_;  // of each forward step
};

/// Cuts the forward steps of a program into stages and plans the memory of the result.
class Stages {
 public:
  Stages(const Program& program, MemorySharing sharing)
      : program_(program),
        sharing_(sharing),
        results_(program),
        saved_bytes_(At(program.num_forward_steps), 0),
        crossing_bytes_(At(program.num_forward_steps), 0) {
    // Differences first, then their sums.
    for (int value = 0; value < program.num_values(); ++value) {
      if (!results_.can_drop(value)) continue;
      const size_t writer = At(results_.writer(value));
      const int64_t size_bytes = program.values[At(value)].SizeBytes();
      if (results_.is_saved(value)) saved_bytes_[writer] += size_bytes;
      if (results_.last_read(value) == kNoValue) continue;
      crossing_bytes_[writer] += size_bytes;
      crossing_bytes_[At(results_.last_read(value))] -= size_bytes;
    }
    for (size_t i = 1; i < crossing_bytes_.size(); ++i) {
      crossing_bytes_[i] += crossing_bytes_[i - 1];
    }
    for (const int64_t size_bytes : saved_bytes_) total_bytes_ += size_bytes;
  }

  /// Returns the size of all results that can be dropped and that the gradient reads.
  int64_t total_bytes() const { return total_bytes_; }

  /// Returns the last step of each stage but the last stage. The results of a stage that the
  /// gradient reads have, with what is stored before it, at most `size_bytes`, unless they are
  /// those of one step.
  std::vector<int> Cut(int64_t size_bytes) const {
    std::vector<int> cuts;
    int64_t stored_bytes = 0;
    int begin = 0;
    while (true) {
      const int cut = FindCut(begin, size_bytes - stored_bytes);
      if (cut == kNoValue) return cuts;
      cuts.push_back(cut);
      stored_bytes += NewlyStored(begin, cut);
      begin = cut + 1;
    }
  }

  /// Returns whether each value is dropped if stages that end with these cuts are recomputed.
  std::vector<bool> Dropped(const std::vector<int>& cuts) const {
    std::vector<bool> dropped(program_.values.size(), false);
    for (int value = 0; value < program_.num_values(); ++value) {
      if (!results_.can_drop(value)) continue;
      const auto cut = std::lower_bound(cuts.begin(), cuts.end(), results_.writer(value));
      dropped[At(value)] = cut != cuts.end() && results_.last_read(value) <= *cut;
    }
    return dropped;
  }

  /// Returns the program that recomputes the stages that end with these cuts.
  Program Recomputed(const std::vector<int>& cuts) const {
    Program recomputed = program_;
    Copier(&recomputed, results_, Dropped(cuts)).Run();
    return recomputed;
  }

  /// Returns the planned size of that program.
  int64_t PlannedBytes(const std::vector<int>& cuts) const {
    Program recomputed = Recomputed(cuts);
    return PlanMemory(&recomputed, sharing_).SizeBytes();
  }

 private:
  /// Returns the last step of a stage that begins with step `begin` and saves at most `size_bytes`,
  /// or more for one step; kNoValue if all steps up to the last one fit. Among the steps that fill
  /// at least half of the size, it is the last one over which the fewest bytes cross.
  int FindCut(int begin, int64_t size_bytes) const {
    int64_t inside = 0;
    int best = kNoValue;
    for (int i = begin; i < program_.num_forward_steps; ++i) {
      inside += saved_bytes_[At(i)];
      if (inside > size_bytes && best != kNoValue) return best;
      if (inside < size_bytes - inside) continue;
      const bool is_better =
          best == kNoValue || crossing_bytes_[At(i)] <= crossing_bytes_[At(best)];
      if (is_better) best = i;
    }
    return kNoValue;
  }

  /// Returns the size of what a stage computes and later ones read.
  int64_t NewlyStored(int begin, int cut) const {
    int64_t size_bytes = 0;
    for (int i = begin; i <= cut; ++i) {
      for (const int value : program_.steps[At(i)].outputs) {
        if (value == kNoValue || !results_.can_drop(value)) continue;
        if (results_.last_read(value) > cut) size_bytes += program_.values[At(value)].SizeBytes();
      }
    }
    return size_bytes;
  }

  const Program& program_;
  const MemorySharing sharing_;
  const ForwardResults results_;
  std::vector<int64_t> saved_bytes_;     // of each forward step, what it writes and is saved
  std::vector<int64_t> crossing_bytes_;  // of each forward step, what it or an earlier one writes
                                         // and a later one reads
  int64_t total_bytes_ = 0;
};

/// The stages with the smallest plan that was found.
struct SmallestPlan {
  std::vector<int> cuts;
  int64_t planned_bytes;

  /// Keeps the stages of another size if their plan is smaller.
  bool Try(const Stages& stages, int64_t size_bytes) {
    std::vector<int> other = stages.Cut(size_bytes);
    const int64_t other_bytes = stages.PlannedBytes(other);
    if (other_bytes >= planned_bytes) return false;
    cuts = std::move(other);
    planned_bytes = other_bytes;
    return true;
  }
};

/// Finds the size of stages by halving it while plans become smaller, then by bisection between
/// that and its neighbors. `stored_bytes` is the plan without recomputation.
SmallestPlan FindSmallestPlan(const Stages& stages, int64_t stored_bytes) {
  constexpr int kMaxHalvings = 10;
  constexpr int kBisections = 5;
  SmallestPlan smallest{{}, stored_bytes};
  int64_t best = stages.total_bytes();
  int worse = 0;
  for (int i = 1; i <= kMaxHalvings && worse < 2; ++i) {
    const int64_t size_bytes = stages.total_bytes() >> i;
    const bool is_smaller = smallest.Try(stages, size_bytes);
    if (is_smaller) best = size_bytes;
    // Plans of large stages may all be that of the stored program.
    worse = is_smaller || smallest.cuts.empty() ? 0 : worse + 1;
  }
  for (int64_t step = best / 4, i = 0; i < kBisections; ++i, step /= 2) {
    for (const int64_t size_bytes : {best - step, best + step}) {
      if (!smallest.Try(stages, size_bytes)) continue;
      best = size_bytes;
      break;
    }
  }
  return smallest;
}

}  // namespace

bool RecomputationIsOn() { return EnvironmentBool("TESSERA_RECOMPUTE", false); }

void RecomputeMarked(Program* program, MarkedSteps marked) {
  const ForwardResults results(*program);
  std::vector<bool> dropped(program->values.size(), false);
  std::vector<int> chain(program->values.size(), 0);  // the copies that a dropped value needs
  bool any = false;
  for (int i = 0; i < program->num_forward_steps; ++i) {
    const Step& step = program->steps[At(i)];
    const bool is_marked = IsMarked(*step.node);
    if (!is_marked && (marked == MarkedSteps::kByAttribute || !IsCheap(step))) continue;
    int length = 1;
    for (const int value : step.inputs) length = std::max(length, chain[At(value)] + 1);
    if (!is_marked && length > kMaxChain) continue;
    for (const int value : step.outputs) {
      if (value == kNoValue || !results.can_drop(value)) continue;
      dropped[At(value)] = true;
      chain[At(value)] = length;
      any = true;
    }
  }
  if (any) Copier(program, results, dropped).Run();
}

bool FitMemoryBudget(Program* program, MemorySharing sharing, int64_t budget_bytes,
                     std::string_view caller) {
  const Stages stages(*program, sharing);
  const int64_t stored_bytes = stages.PlannedBytes({});
  if (stored_bytes <= budget_bytes) return false;
  const SmallestPlan smallest = FindSmallestPlan(stages, stored_bytes);
  if (smallest.planned_bytes > budget_bytes) {
    throw InvalidArgument(caller, ": memory_budget_bytes is ", budget_bytes, ", expected at least ",
                          smallest.planned_bytes, ", the least that recomputation reaches (",
                          stored_bytes, " without it)");
  }
  // Recomputes as many of the first stages as it takes.
  const auto first_cuts = [&](size_t count) {
    return std::vector<int>(smallest.cuts.begin(),
                            smallest.cuts.begin() + static_cast<std::ptrdiff_t>(count));
  };
  size_t too_few = 0, enough = smallest.cuts.size();
  while (enough - too_few > 1) {
    const size_t middle = too_few + (enough - too_few) / 2;
    (stages.PlannedBytes(first_cuts(middle)) <= budget_bytes ? enough : too_few) = middle;
  }
  *program = stages.Recomputed(first_cuts(enough));
  return true;
}

}  // namespace tessera::graph
