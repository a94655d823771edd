#ifndef TESSERA_KVSTORE_COMMUNICATOR_H_
#define TESSERA_KVSTORE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>

#include "tessera/base/dialect.h"
#include "tessera/base/dtype.h"

namespace tessera {

/// Elements to be summed over all ranks. `in` and `out` have `size` elements and are either the
/// same memory or do not overlap.
struct SumBuffer {
  const void* in = nullptr;  ///< this rank's summand
  void* out = nullptr;       ///< receives the sum
  int64_t size = 0;          ///< in elements
};

/// Says who knows that a job fails.
enum class AbortBy {
  kThisRank,   ///< only the caller: the others learn of it by the job's end
  kEveryRank,  ///< every rank calls Abort with the same cause, which is reported once
};

/// The processes of one job, numbered from 0 to size() - 1, which exchange memory. KVStore's kinds
/// dist_sync and dist_device_sync stand on this interface; MPI is one implementation.
///
/// Every rank makes the same calls in the same order, with the same sizes, types and roots. A call
/// returns at once. Memory that it was given belongs to it until `done` is called, once, in the
/// communicator's thread: with null when this rank's results are in place, or with the error
/// that has ended the job. After such an error every call fails with it. `done` must neither block
/// nor throw; it may make further calls.
///
/// Threads: any thread may call any member. Calls that overlap have no order, so one thread at a
/// time should make them.
class Communicator {
 public:
  /// Called when an operation is complete.
  using Done = std::function<void(std::exception_ptr error)>;

  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Return this process's number and the number of processes.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Return this process's number among those of its machine, and how many these are.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;

  /// Sums each buffer over all ranks, in the order of the ranks, in the way of SumRows: half and
  /// bfloat16 are added in float and rounded once. The result has the same bits on every rank, and
  /// those of one process that adds the summands in this order. The list is copied.
  virtual void SumInto(std::span<const SumBuffer> buffers, DType dtype, Done done) = 0;

  /// Replaces each word by the bits that it has on every rank.
  virtual void Intersect(std::span<uint64_t> words, Done done) = 0;

  /// Copies the root's bytes to every rank.
  virtual void Broadcast(std::span<std::byte> bytes, int root, Done done) = 0;

  /// Copies every rank's bytes to `all`, in the order of the ranks. Requires: all.size() ==
  /// size() * mine.size().
  virtual void AllGather(std::span<const std::byte> mine, std::span<std::byte> all, Done done) = 0;

  /// Is complete when every rank has called it.
  virtual void Barrier(Done done) = 0;

  /// Calls `fn` soon and once, in the thread that calls every `done`: an owner whose calls all
  /// begin there hands nothing over between threads. `fn` must neither block nor throw. Not a
  /// collective call; it succeeds after an error. Once Shutdown has begun it may call `fn` at once,
  /// in the caller's thread.
  virtual void Post(std::function<void()> fn) = 0;

  /// Blocks until this rank's calls are complete; later calls fail. Every rank calls it after the
  /// same calls. Must not be called by a `done`.
  virtual void Shutdown() = 0;

  /// Ends the job because of an error: reports the cause with the rank's number, and makes every
  /// rank fail. Over MPI the call does not return, because it ends the processes.
  virtual void Abort(const std::string& cause, AbortBy by) = 0;

 protected:
  Communicator() = default;
};

}  // namespace tessera

#endif  // TESSERA_KVSTORE_COMMUNICATOR_H_
