#ifndef TESSERA_ENGINE_SCHEDULE_SCHEDULE_PLAN_H_
#define TESSERA_ENGINE_SCHEDULE_SCHEDULE_PLAN_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/engine/core/execution.h"

namespace tessera::engine_internal {

/// Gives back a reference to an operator, the last of which deletes it.
struct OperatorDropper {
  void operator()(OperatorRecord* op) const;
};
using OperatorRef = std::unique_ptr<OperatorRecord, OperatorDropper>;

/// A push as it was noted.
struct RecordedPush {
  OperatorRef op;
  Device device;
  int priority = 0;
  std::source_location site;
  int64_t rank() const { return RankOf(op->property, priority); }
  std::string_view display_name() const {
    return op->name.empty() ? std::string_view("(unnamed)") : std::string_view(op->name);
  }
};

/// The part that all replays of a schedule share: its operations and which of them come after
/// which. Never changes.
class SchedulePlan {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;  ///< no operation, no variable

  /// A variable of the schedule; operations and edges name it by its place in variables().
  struct VariableUse {
    DependencyVariable* variable;
    uint64_t id;       ///< by which a variable that took its memory later is told from it
    Access access;     ///< what the schedule as a whole does with it
    std::string name;  ///< for people
  };
  /// A replay's use of one of the variables.
  struct VariableEdge {
    Edge edge;  ///< only variable and access are used
    uint32_t variable;
  };
  struct Use {
    uint32_t variable;
    Access access;
  };
  /// The data that running an operation looks at.
  struct alignas(32) Operation {  // in one cache line
    const SyncFn* sync;           ///< null if it is asynchronous
    Device device;
    uint32_t first_successor;
    uint32_t end_successor;
    uint32_t place;  ///< in order()
    bool blocks;     ///< others work in the place of who calls it
  };

  /// `own` are variables that nothing else uses.
  SchedulePlan(std::string name, size_t slots, std::vector<RecordedPush> pushes,
               const std::unordered_set<const DependencyVariable*>& own);

  size_t size() const { return pushes_.size(); }
  const std::string& name() const { return name_; }
  size_t slots() const { return slots_; }
  const std::vector<VariableUse>& variables() const { return variables_; }
  /// The variables that a replay stands on, sorted as SortEdges does: all except those of the
  /// schedule's own that it writes before it reads them. One of the latter is among them, so that
  /// two replays do not run at once.
  const std::vector<VariableEdge>& edges() const { return edges_; }

  const Operation& operation(uint32_t i) const { return operations_[i]; }
  const RecordedPush& push(uint32_t i) const { return pushes_[i]; }
  std::span<const Use> uses(uint32_t i) const {
    return {uses_.data() + first_use_[i], uses_.data() + first_use_[i + 1]};
  }
  /// Those that have the longest way to go first.
  std::span<const uint32_t> successors(uint32_t i) const {
    return {successors_.data() + operations_[i].first_successor,
            successors_.data() + operations_[i].end_successor};
  }
  /// The number of operations that it is a successor of.
  uint32_t predecessors(uint32_t i) const { return predecessors_[i]; }
  /// Operations that wait for none, in the order in which they should begin.
  const std::vector<uint32_t>& roots() const { return roots_; }
  /// The order in which a single visitor runs a replay.
  std::span<const uint32_t> order() const { return {order_.data(), size()}; }

  /// Asks for the memory of those that come after this one in order(), which does not stay in the
  /// core's caches while functions of some microseconds run: an operation's entry when it is the
  /// third, its function when it is the second, what that holds when it is the next. By itself each
  /// would be waited for in turn.
  ///
  /// Inlined by force: g++ 12 drops calls of a function that does nothing but this.
  [[gnu::always_inline]] void FetchAhead(uint32_t i) const {
    const uint32_t* const order = &order_[operations_[i].place];
    __builtin_prefetch(&operations_[order[3]]);
    if (const SyncFn* const second = operations_[order[2]].sync) {
      __builtin_prefetch(second);
      __builtin_prefetch(reinterpret_cast<const char*>(second + 1) - 1);
    }
    const Operation& next = operations_[order[1]];
    __builtin_prefetch(successors_.data() + next.first_successor);
    if (next.sync == nullptr) return;
    const char* const held = HeldBy(*next.sync);
    __builtin_prefetch(held);
    __builtin_prefetch(held + kLine - 1);
  }
  /// The number of operations one after another from this one to the end, itself included.
  uint32_t height(uint32_t i) const { return heights_[i]; }
  uint32_t asynchronous() const { return asynchronous_; }

  /// Returns whether priorities tell operations apart.
  bool has_ranks() const { return has_ranks_; }
  int64_t highest_rank() const { return highest_rank_; }
  bool uses_devices() const { return uses_devices_; }
  /// Returns whether it may be one graph for the device of its operations.
  bool is_graph() const { return is_graph_; }
  /// Which operations each one comes after.
  std::vector<std::vector<uint32_t>> Predecessors() const;

  /// Returns whether operation `a` should begin before `b` when both are ready.
  bool Before(uint32_t a, uint32_t b) const;

  std::string Describe() const;
  std::string Graphviz() const;

 private:
  static constexpr size_t kAhead = 3;  // how far FetchAhead looks
  static constexpr size_t kLine = 64;

  /// A std::function begins with the address of what it holds, if that is more than two words. If
  /// not, it does no harm to ask for whatever is there, nor if the thread that runs the function
  /// changes that meanwhile.
  [[gnu::no_sanitize_thread]] static const char* HeldBy(const SyncFn& fn) {
    const char* held;
    std::memcpy(&held, &fn, sizeof(held));
    return held;
  }

  /// The uses of a variable up to the operation that is being looked at.
  struct History;

  void AddEdges(const std::unordered_set<const DependencyVariable*>& own);
  void AddUses(std::vector<std::vector<uint32_t>>& predecessors);
  void AddSuccessors(const std::vector<std::vector<uint32_t>>& predecessors);
  void FindHeights();
  void FindOrder();
  std::vector<uint32_t> LongestPath() const;
  std::vector<uint32_t> Widths() const;
  std::string NameOf(uint32_t i) const;

  const std::string name_;
  const size_t slots_;
  const std::vector<RecordedPush> pushes_;
  std::vector<VariableUse> variables_;
  std::vector<VariableEdge> edges_;
  std::vector<uint32_t> first_use_;
  std::vector<Use> uses_;
  std::vector<Operation> operations_;
  std::vector<uint32_t> successors_;
  std::vector<uint32_t> predecessors_;
  std::vector<uint32_t> heights_;
  std::vector<uint32_t> roots_;
  std::vector<uint32_t> order_;  // and the last one kAhead times more
  uint32_t asynchronous_ = 0;
  bool has_ranks_ = false;
  bool uses_devices_ = false;
  bool is_graph_ = true;
  int64_t highest_rank_ = 0;
};

/// Sorts as SortEdges does, but accepts variables that are there twice.
void SortByVariable(std::vector<SchedulePlan::VariableEdge>& edges);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_SCHEDULE_SCHEDULE_PLAN_H_
