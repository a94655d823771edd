#include "tessera/engine/core/execution.h"

#include "absl/strings/str_cat.h"
#include "tessera/engine/core/variable_queue.h"
#include "tessera/engine/schedule/schedule_plan.h"

namespace tessera::engine_internal {

std::string_view Execution::display_name() const {
  if (kind == ExecutionKind::kVisit) {
    const auto& visit = static_cast<const VisitExecution&>(*this);
    const RecordedPush* push = visit.push.load(std::memory_order_relaxed);
    return push == nullptr ? "(unnamed)" : push->display_name();
  }
  const std::string& text = has_op() ? op->name : name;
  return text.empty() ? std::string_view("(unnamed)") : std::string_view(text);
}

std::string DependencyVariable::ToString() const {
  return name.empty() ? absl::StrCat("variable #", id)
                      : absl::StrCat("variable \"", name, "\" (#", id, ")");
}

std::unique_ptr<OperatorRecord> DropOperator(OperatorRecord* op) {
  // Acquire and release: the last one sees every run of the function before it destroys it.
  const bool last = op->references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  return std::unique_ptr<OperatorRecord>(last ? op : nullptr);
}

Execution* ReadyList::PopBest() {
  if (head_ == nullptr) return nullptr;
  Execution* best = head_;
  Execution* before_best = nullptr;
  for (Execution *before = head_, *it = head_->next; it != nullptr; before = it, it = it->next) {
    if (!RunsBefore(*it, *best)) continue;
    best = it;
    before_best = before;
  }
  (before_best == nullptr ? head_ : before_best->next) = best->next;
  if (tail_ == best) tail_ = before_best;
  return best;
}

}  // namespace tessera::engine_internal
