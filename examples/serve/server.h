#ifndef TESSERA_EXAMPLES_SERVE_SERVER_H_
#define TESSERA_EXAMPLES_SERVE_SERVER_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/train/checkpoint.h"

namespace tessera::serve {

/// A network that answers examples. Examples that several threads ask about at one time are
/// computed together, as a batch.
///
/// There are no threads but the callers': one whose example waits takes all waiting examples, up to
/// a batch, computes them and hands out the answers.
class Server {
 public:
  /// Takes a network of float32 whose only argument without a value is the data; arguments whose
  /// names end in "label" are 0. Computes a batch of each size once, so that later ones are fast.
  /// Throws Error(kInvalidArgument) for another network, and what binding and computing throw.
  Server(const Checkpoint& model, const TShape& example, size_t max_batch);

  /// Returns the row of the network's first output for an example. Blocks until it is computed.
  /// Throws Error(kInvalidArgument) for another number of elements than the example's shape has,
  /// and what computing throws. Thread-safe.
  std::vector<float> Answer(std::span<const float> example);

  /// Returns the number of batches so far. Thread-safe.
  size_t num_batches() const;

 private:
  struct Request;

  std::vector<NDArray> InputsFor(const Checkpoint& model, index_t batch) const;
  void Compute(std::span<Request* const> batch) const;

  const TShape example_;
  const CachedOp network_;
  size_t data_ = 0;                           // the place of the data among the inputs
  std::vector<std::vector<NDArray>> inputs_;  // for batches of 1, 2, …; without the data

  mutable std::mutex mutex_;
  // Of the rest, everything is guarded by the mutex.
  std::condition_variable changed_;
  std::deque<Request*> waiting_;  // in the order of arrival
  size_t running_ = 0;            // batches that are being computed
  size_t num_batches_ = 0;
};

}  // namespace tessera::serve

#endif  // TESSERA_EXAMPLES_SERVE_SERVER_H_
