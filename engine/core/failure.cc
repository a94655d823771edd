#include "tessera/engine/core/failure.h"

#include <algorithm>
#include <stdexcept>
#include <typeinfo>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/engine.h"

namespace tessera::engine_internal {
namespace {

// A program that never calls WaitForAll keeps at most this many unreported chains that no variable
// carries any more; the oldest go first, and are only counted.
constexpr size_t kMaxForgotten = 4096;

thread_local std::optional<FailedOperation> last_failure;

/// Throws Type(message) if `error` is exactly a Type. A derived type may mean more than its text,
/// and passes unchanged.
template <typename Type>
void ThrowIfExactly(const std::exception& error, const std::string& message) {
  if (typeid(error) == typeid(Type)) throw Type(message);
}

}  // namespace

void Consider(const FailureRef& failure, const FailureRef*& earliest) {
  if (failure == nullptr || failure->cleared.load(std::memory_order_relaxed)) return;
  if (earliest == nullptr || failure->sequence < (*earliest)->sequence) earliest = &failure;
}

bool ClaimReport(Failure& failure, uint64_t pushed) {
  uint64_t unreported = 0;
  // Relaxed: the error itself reaches the reporter through the variable's lock or the log's mutex.
  return failure.reported_at.compare_exchange_strong(unreported, std::max<uint64_t>(pushed, 1),
                                                     std::memory_order_relaxed);
}

namespace {

/// Throws the error with the operation's name and push site in its message, if its type allows it.
[[noreturn]] void RethrowWithSite(const Failure& failure) {
  try {
    std::rethrow_exception(failure.error);
  } catch (const std::exception& error) {
    const std::string message =
        absl::StrCat(error.what(), " [operation \"", failure.name, "\", pushed at ",
                     failure.pushed_at.file_name(), ":", failure.pushed_at.line(), "]");
    if (typeid(error) == typeid(Error)) {
      throw static_cast<const Error&>(error).WithMessage(message);
    }
    ThrowIfExactly<std::runtime_error>(error, message);
    ThrowIfExactly<std::range_error>(error, message);
    ThrowIfExactly<std::overflow_error>(error, message);
    ThrowIfExactly<std::underflow_error>(error, message);
    ThrowIfExactly<std::logic_error>(error, message);
    ThrowIfExactly<std::invalid_argument>(error, message);
    ThrowIfExactly<std::domain_error>(error, message);
    ThrowIfExactly<std::length_error>(error, message);
    ThrowIfExactly<std::out_of_range>(error, message);
    throw;
  }
}

}  // namespace

void Rethrow(const Failure& failure) {
  last_failure = FailedOperation{failure.name, failure.pushed_at};
  RethrowWithSite(failure);
}

std::optional<FailedOperation> LastFailureOfThread() { return last_failure; }

FailureRef FailureLog::Inherit(const FailureRef& failure, uint64_t sequence) noexcept {
  const uint64_t reported_at = failure->reported_at.load(std::memory_order_relaxed);
  if (reported_at == 0 || sequence <= reported_at) return failure;
  // Pushed after the report: nobody has been told that this one would be skipped.
  return Begin(failure->error, failure->name, failure->pushed_at, sequence);
}

FailureRef FailureLog::Begin(std::exception_ptr error, std::string_view name,
                             std::source_location pushed_at, uint64_t sequence) noexcept {
  return OrTerminate([&] {
    auto failure =
        std::make_shared<Failure>(std::move(error), std::string(name), pushed_at, sequence);
    std::vector<FailureRef> dropped;  // destroyed without the mutex: errors are a program's objects
    std::lock_guard<std::mutex> hold(mutex_);
    unreported_.push_back(failure);
    std::push_heap(unreported_.begin(), unreported_.end(), BeganLater);
    if (unreported_.size() + reported_.size() >= prune_at_) Prune(dropped);
    return failure;
  });
}

FailureRef FailureLog::ReportOldest(uint64_t pushed) {
  std::vector<FailureRef> dropped;  // as above
  std::lock_guard<std::mutex> hold(mutex_);
  while (!unreported_.empty()) {
    const FailureRef oldest = unreported_.front();
    std::pop_heap(unreported_.begin(), unreported_.end(), BeganLater);
    unreported_.pop_back();
    if (!ClaimReport(*oldest, pushed)) {  // another wait has
      reported_.push_back(oldest);
      continue;
    }
    // Relaxed: nothing pends while this is called, or who pushes meanwhile may see either state.
    oldest->cleared.store(true, std::memory_order_relaxed);
    return oldest;
  }
  if (forgotten_ > 0) {
    auto report = std::make_shared<Failure>(
        std::make_exception_ptr(ResourceExhausted(
            "Engine::WaitForAll: ", forgotten_,
            " more errors, which no variable carried any more, were not kept; this is where the "
            "first of them came from")),
        first_forgotten_->name, first_forgotten_->pushed_at, first_forgotten_->sequence);
    dropped.push_back(std::move(first_forgotten_));
    forgotten_ = 0;
    return report;
  }
  for (const FailureRef& failure : reported_) {
    failure->cleared.store(true, std::memory_order_relaxed);
  }
  dropped.swap(reported_);
  return nullptr;
}

bool FailureLog::BeganLater(const FailureRef& a, const FailureRef& b) {
  return a->sequence > b->sequence;
}

void FailureLog::Prune(std::vector<FailureRef>& dropped) {
  // A count of 1 is the log's own reference: no variable and no running operation has another, and
  // none can come back.
  const auto forgotten = [](const FailureRef& failure) { return failure.use_count() == 1; };
  const auto drop_if = [&dropped](std::vector<FailureRef>& failures, const auto& condition) {
    auto kept = failures.begin();
    for (FailureRef& failure : failures) {
      if (condition(failure)) {
        dropped.push_back(std::move(failure));
      } else {
        std::swap(*kept++, failure);
      }
    }
    failures.erase(kept, failures.end());
  };
  drop_if(reported_, forgotten);
  drop_if(unreported_, [&](const FailureRef& failure) {
    return forgotten(failure) && failure->reported_at.load(std::memory_order_relaxed) != 0;
  });
  size_t excess = std::count_if(unreported_.begin(), unreported_.end(), forgotten);
  excess -= std::min(excess, kMaxForgotten);
  // The oldest go first, which leaves a heap.
  std::sort(unreported_.begin(), unreported_.end(),
            [](const FailureRef& a, const FailureRef& b) { return BeganLater(b, a); });
  drop_if(unreported_, [&](const FailureRef& failure) {
    if (excess == 0 || !forgotten(failure)) return false;
    --excess;
    if (++forgotten_ == 1) first_forgotten_ = failure;
    return true;
  });
  prune_at_ = std::max<size_t>(64, 2 * (unreported_.size() + reported_.size()));
}

}  // namespace tessera::engine_internal
