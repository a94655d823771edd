#ifndef TESSERA_ENGINE_CORE_FAILURE_H_
#define TESSERA_ENGINE_CORE_FAILURE_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace tessera {

struct FailedOperation;

namespace engine_internal {

/// One chain of operations that an error stopped. Every variable that the chain has marked holds a
/// reference to it.
struct Failure {
  Failure() = default;
  Failure(std::exception_ptr error_in, std::string name_in, std::source_location pushed_at_in,
          uint64_t sequence_in)
      : error(std::move(error_in)),
        name(std::move(name_in)),
        pushed_at(pushed_at_in),
        sequence(sequence_in) {}

  // These never change once somebody else has it.
  std::exception_ptr error;
  std::string name;
  std::source_location pushed_at;
  /// The place in push order of the operation that began the chain.
  uint64_t sequence = 0;

  /// Becomes, at the report, the number of operations pushed by then; 0 until then.
  std::atomic<uint64_t> reported_at{0};
  /// Set by WaitForAll: a variable with this mark counts as unmarked.
  std::atomic<bool> cleared{false};
};

using FailureRef = std::shared_ptr<Failure>;

/// Sets `earliest` to `failure` if that counts and is the earlier one: of the failures that an
/// operation could take on, the earliest counts.
void Consider(const FailureRef& failure, const FailureRef*& earliest);

/// Claims the right to report a chain; true for one caller only.
bool ClaimReport(Failure& failure, uint64_t pushed);

/// Throws the error of a chain, with the operation's name and push site added to the message where
/// the type allows it, and remembers them for LastFailure().
[[noreturn]] void Rethrow(const Failure& failure);

std::optional<FailedOperation> LastFailureOfThread();

/// The chains that WaitForAll has yet to report or to clear. Safe from any thread.
class FailureLog {
 public:
  /// Returns what marks the variables of the operation with that place in push order if it is
  /// skipped because of `failure`.
  FailureRef Inherit(const FailureRef& failure, uint64_t sequence) noexcept;

  /// Begins a chain.
  FailureRef Begin(std::exception_ptr error, std::string_view name, std::source_location pushed_at,
                   uint64_t sequence) noexcept;

  /// Claims the oldest chain that nobody has reported, and clears it. After the last of them comes
  /// one that tells how many were not kept, if there are such. If there is none, clears all chains
  /// and returns null.
  FailureRef ReportOldest(uint64_t pushed);

 private:
  static bool BeganLater(const FailureRef& a, const FailureRef& b);
  /// Moves the chains that are not kept any more to `dropped`.
  void Prune(std::vector<FailureRef>& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::mutex mutex_;
  std::vector<FailureRef> unreported_ ABSL_GUARDED_BY(mutex_);  // a heap, the oldest in front
  std::vector<FailureRef> reported_ ABSL_GUARDED_BY(mutex_);    // to be cleared
  size_t prune_at_ ABSL_GUARDED_BY(mutex_) = 64;
  // Chains that were too many to keep: they are reported together.
  FailureRef first_forgotten_ ABSL_GUARDED_BY(mutex_);
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace engine_internal
}  // namespace tessera

#endif  // TESSERA_ENGINE_CORE_FAILURE_H_
