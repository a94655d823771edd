#ifndef TESSERA_KVSTORE_STORED_VALUES_H_
#define TESSERA_KVSTORE_STORED_VALUES_H_

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "tessera/kvstore/kvstore.h"

namespace tessera::kvstore_internal {

/// The values of a store in host memory, with its updater and the checks that every store makes.
/// Errors are those that kvstore.h states. Thread-safe.
class StoredValues {
 public:
  /// What a key stands for.
  struct Entry {
    NDArray stored;
    int index = 0;  ///< the number of keys that were added before it
    std::shared_ptr<const KVStore::Updater> updater;
  };

  /// Throws unless Add can take the key and the value.
  void CheckNew(const KVKey& key, const NDArray& value) const;
  /// Adds a key with a copy of the value. Throws what CheckNew throws.
  void Add(const KVKey& key, const NDArray& value);
  /// Returns a key's entry. `operation` begins the error for an unknown key.
  Entry Find(const char* operation, const KVKey& key) const;
  /// Throws unless there are arrays and each has the shape and type of the stored value.
  static void Check(const char* operation, const KVKey& key, const NDArray& stored,
                    std::span<const NDArray> arrays);

  /// See KVStore::PullRows.
  void PullRows(const KVKey& key, const NDArray& out, const NDArray& rows) const;

  /// Sets the updater of the entries that are found from here on.
  void set_updater(KVStore::Updater updater);

  /// Stores what was received: calls the updater, or replaces the value if there is none. Hold no
  /// lock, because the updater may call the store.
  static void Update(const KVKey& key, const Entry& entry, const NDArray& received, int priority);

 private:
  void CheckNewLocked(const KVKey& key, const NDArray& value) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  /// A key's value and number.
  struct Value {
    NDArray array;
    int index = 0;
  };

  mutable std::mutex mutex_;  // does not guard the contents of arrays
  std::unordered_map<KVKey, Value> values_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const KVStore::Updater> updater_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<const KVStore::Updater>();
};

/// Returns the array itself if it is in host memory, else a copy of it there.
NDArray OnHost(const NDArray& array);

/// Returns the sum of the values in host memory, added in their order; half and bfloat16 are added
/// in float and rounded once. It has the storage type of the first value. The sum of one value may
/// be the value itself, any other is an array of its own. Requires: at least one value, all of one
/// shape and type.
NDArray SumOnHost(std::span<const NDArray> values, int priority);

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_STORED_VALUES_H_
