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

/// Claims the right to report a chain; true for one caller only.
bool ClaimReport(Failure& failure, uint64_t pushed);

/// Throws the error of a chain, with the operation's name and push site added to the message where
/// the type allows it, and remembers them for LastFailure(); where there is no memory for that, as
/// it is and without a name.
[[noreturn]] void Rethrow(const Failure& failure);

std::optional<FailedOperation> LastFailureOfThread();

/// The chains that WaitForAll has yet to report or to clear. Safe from any thread.
class FailureLog {
 public:
  FailureLog() { unreported_.reserve(8); }

  /// Begins a chain. Where there is no memory for it a reserve takes its place, with as much of the
  /// name as fits. Where there has been none for another reserve since, it joins the chain that has
  /// the last one, which is then reported once more.
  FailureRef Begin(std::exception_ptr error, std::string_view name, std::source_location pushed_at,
                   uint64_t sequence) noexcept;

  /// Sees to a reserve where one was taken, if there is memory again. Called at reports, so that
  /// the next failure without memory does not join a chain that is over.
  void Renew() noexcept;

  /// Claims the oldest chain that nobody has reported, and clears it. After the last of them comes
  /// one that tells how many were not kept, if there are such. Where there is none, clears all
  /// chains and returns null. Throws std::bad_alloc with nothing lost.
  FailureRef ReportOldest(uint64_t pushed);

 private:
  static FailureRef NewReserve();
  FailureRef TakeReserve(const std::exception_ptr& error, std::string_view name,
                         std::source_location pushed_at, uint64_t sequence);
  /// The old reserve goes to `dropped`.
  void RenewReserves(std::vector<FailureRef>& dropped);
  void Forget(const FailureRef& failure);
  static bool BeganLater(const FailureRef& a, const FailureRef& b);
  /// What is not kept any more goes to `dropped`.
  void Prune(std::vector<FailureRef>& dropped);

  std::mutex mutex_;
  std::vector<FailureRef> unreported_;  // a heap, the oldest in front; guarded by mutex_
  std::vector<FailureRef> reported_;    // to be cleared; guarded by mutex_
  size_t prune_at_ = 64;                // guarded by mutex_
  // Chains that were too many to keep: they are reported together.
  FailureRef first_forgotten_;         // guarded by mutex_
  uint64_t forgotten_ = 0;             // guarded by mutex_
  FailureRef reserve_ = NewReserve();  // guarded by mutex_
  bool reserve_is_taken_ = false;      // guarded by mutex_
};

}  // namespace engine_internal
}  // namespace tessera

#endif  // TESSERA_ENGINE_CORE_FAILURE_H_
