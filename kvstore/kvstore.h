#ifndef TESSERA_KVSTORE_KVSTORE_H_
#define TESSERA_KVSTORE_KVSTORE_H_

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tessera/kvstore/communicator.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// The key of a stored value. 7 and "7" are two keys.
using KVKey = std::variant<int, std::string>;

/// Returns the key as text.
std::string ToString(const KVKey& key);

/// A store of shared parameters. Workers push gradients, the store sums them and updates its
/// values, and workers pull the result.
///
///     std::unique_ptr<KVStore> store = KVStore::Create("local");
///     store->set_updater(updater);
///     store->Init("fc1_weight", weight);
///     store->Push("fc1_weight", {gradient_0, gradient_1});  // of two devices
///     store->Pull("fc1_weight", {weight_0, weight_1});
///
/// Push and Pull return at once. The engine orders their operations by the arrays that they name.
///
/// Many workers: every worker calls Init for the same keys, in the same order, and Barrier and
/// SumOverWorkers equally often; between two of these calls it pushes each key equally often, in
/// any order. Destroying the store is one more such call. These calls wait for the sums of earlier
/// pushes. Workers that do not agree, a worker that ends early and a pushed value that could not be
/// computed make the job fail: over MPI all of its processes end with one message; otherwise every
/// later call and wait throws Error(kFailedPrecondition) that says what the workers wait for. A
/// child of a fork must not use the store.
///
/// Threads: every member may be called from any thread; calls with one key take effect in some
/// order.
class KVStore {
 public:
  /// Computes a new stored value from the sum of pushed values, by pushing operations that write
  /// `stored`. Push calls it in its thread, and throws what it throws. The updater may call the
  /// store. Where several threads push values of one key, its calls may overlap. With many workers,
  /// an updater that waits for `received` waits for all of them, which then must push their keys in
  /// one order.
  using Updater =
      std::function<void(const KVKey& key, const NDArray& received, const NDArray& stored)>;

  /// Returns a store of a kind. "local" sums on the host and has one worker, this process;
  /// "device", MXNet's name for sums on a device, is the same store.
  /// "dist_sync" and "dist_device_sync" have the processes that mpirun has started as workers: each
  /// value is summed over all of them, in the order of their ranks, and the updater runs in each.
  /// Every worker makes the same stores in the same order. Throws Error(kInvalidArgument) that
  /// lists the kinds for any other name, and Error(kNotFound) with what to install if there is no
  /// MPI.
  static std::unique_ptr<KVStore> Create(std::string_view type);

  /// Returns a store of one of the distributed kinds whose workers are the communicator's ranks.
  /// The store makes all further calls of the communicator. Throws Error(kInvalidArgument) for any
  /// other kind.
  static std::unique_ptr<KVStore> Create(std::string_view type,
                                         std::shared_ptr<Communicator> communicator);

  virtual ~KVStore() = default;
  KVStore(const KVStore&) = delete;
  KVStore& operator=(const KVStore&) = delete;

  /// Returns the name of the kind.
  virtual std::string_view type() const = 0;

  /// Stores a copy of the value; of many workers, that of rank 0. Throws Error(kFailedPrecondition)
  /// if the key has a value, and Error(kInvalidArgument) for an array that is_none().
  virtual void Init(const KVKey& key, const NDArray& value) = 0;

  /// Sums the values, always in the order given, then updates the stored value. Values are added in
  /// their type, except half and bfloat16, which are added in float and rounded once. A sum of
  /// row_sparse values stores the rows of all of them; of many workers, those that are not all 0,
  /// and the workers send whole values. The updater computes the new value; without
  /// one, the sum replaces the old value. Throws Error and changes nothing: kNotFound if Init has
  /// not been called for the key, kInvalidArgument if there are no values or if a shape or type
  /// differs from the stored value's. `priority` is that of the copies, as in PushOptions; sums
  /// and an updater's operations have their own.
  virtual void Push(const KVKey& key, std::span<const NDArray> values, int priority = 0) = 0;
  void Push(const KVKey& key, std::initializer_list<NDArray> values, int priority = 0) {
    Push(key, std::span(values.begin(), values.size()), priority);
  }
  void Push(const KVKey& key, const NDArray& value, int priority = 0) {
    Push(key, std::span(&value, 1), priority);
  }

  /// Copies the stored value into each of the arrays, on any device. Throws as Push does.
  virtual void Pull(const KVKey& key, std::span<const NDArray> out, int priority = 0) = 0;
  void Pull(const KVKey& key, std::initializer_list<NDArray> out, int priority = 0) {
    Pull(key, std::span(out.begin(), out.size()), priority);
  }
  void Pull(const KVKey& key, const NDArray& out, int priority = 0) {
    Pull(key, std::span(&out, 1), priority);
  }

  /// Writes the rows of the stored value that `rows` lists, in any order and repeated, to the
  /// row_sparse array `out`. Rows that a row_sparse value does not store are 0. Throws as
  /// Push does, and Error(kInvalidArgument) if `out` is not row_sparse.
  virtual void PullRows(const KVKey& key, const NDArray& out, const NDArray& rows) = 0;

  /// Sets the updater of later pushes. An empty function removes the updater.
  virtual void set_updater(Updater updater) = 0;

  /// Lets later pushes send each element in two bits, as MXNet's compression `2bit` does: as
  /// threshold, -threshold or 0. What an element sends is as much of the value and of the rest of
  /// earlier pushes as fits; what is left is the rest for the next push of the key:
  ///
  ///     rest = rest + value;  sent = threshold if rest >= threshold, -threshold if rest <=
  ///     -threshold, else 0;  rest = rest - sent
  ///
  /// The values' sum is the sum of what they send. Each position in Push's list has a rest of its
  /// own, in host memory; in a store of many workers, each worker has one, of the sum of its own
  /// values. Sparse values are sent whole. A push of another type than float32 is then
  /// Error(kInvalidArgument), as is a threshold here that is not a number above 0.
  virtual void CompressGradients(float threshold) = 0;

  /// Return this worker's number and the number of workers.
  virtual int rank() const = 0;
  virtual int num_workers() const = 0;

  /// Returns when every worker has called it and the sums of earlier pushes are complete.
  virtual void Barrier() = 0;

  /// Replaces numbers, such as those of a metric, by their sums over all workers, which are added
  /// in the order of the ranks. Every worker calls it, with equally many numbers. Waits as Barrier
  /// does.
  virtual void SumOverWorkers(std::span<double> numbers) = 0;

  /// Makes the job fail because this worker cannot go on, as an exception that destroys the store
  /// does. The workers' errors have the worker's number and the cause. A local store does nothing.
  virtual void Fail(const std::string& cause) = 0;

 protected:
  KVStore() = default;
};

}  // namespace tessera

#endif  // TESSERA_KVSTORE_KVSTORE_H_
