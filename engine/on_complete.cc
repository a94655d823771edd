#include "tessera/engine/on_complete.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/engine/core/completion.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/lifetime/process_life.h"

namespace tessera {

namespace engine_internal {
namespace {

/// The error of an operation whose OnComplete nobody has called.
std::exception_ptr NeverCalled() noexcept {
  try {
    throw FailedPrecondition(
        "Engine: every OnComplete of the operation was destroyed and none was called; expected one "
        "call");
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

Completion::Completion(CompletionListener* listener, Execution* execution)
    : listener_(listener),
      execution_(execution),
      operation_(execution->display_name()),
      pushed_at_(execution->site),
      fork_generation_(ForkGeneration()) {}

Completion::~Completion() {
  // Acquire: pairs with the exchange in TryComplete.
  if (complete_.load(std::memory_order_acquire)) return;
  TryComplete(NeverCalled());
}

bool Completion::TryComplete(std::exception_ptr error) {
  if (complete_.exchange(true, std::memory_order_acq_rel)) return false;
  // In the child of a fork the operation is the parent's, and so are the locks that it takes.
  if (fork_generation_ == ForkGeneration()) {
    listener_->OnExecutionComplete(execution_, std::move(error));
  }
  return true;
}

}  // namespace engine_internal

void OnComplete::Complete(std::exception_ptr error) const {
  if (completion_ != nullptr && completion_->TryComplete(std::move(error))) return;
  if (completion_ == nullptr) throw FailedPrecondition("OnComplete: called on a moved-from handle");
  throw FailedPrecondition("OnComplete: operation \"", completion_->operation(), "\", pushed at ",
                           completion_->pushed_at().file_name(), ":",
                           completion_->pushed_at().line(),
                           ", was complete already; expected exactly one call");
}

}  // namespace tessera
