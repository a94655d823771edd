#ifndef TESSERA_KVSTORE_GRADIENT_COMPRESSION_H_
#define TESSERA_KVSTORE_GRADIENT_COMPRESSION_H_

#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/kvstore/kvstore.h"

namespace tessera::kvstore_internal {

/// What pushes send in two bits an element, as KVStore::CompressGradients says, with the rests that
/// they keep. Off until Start is called. Thread-safe.
class GradientCompression {
 public:
  /// Throws Error(kInvalidArgument) unless the threshold is a number above 0.
  void Start(float threshold);

  /// Returns what the values of a push send: the values themselves while compression is off, and if
  /// one of them is sparse.
  /// Requires: values of one shape and type. Throws Error(kInvalidArgument) if it is on and they
  /// have another type than float32.
  std::vector<NDArray> Sent(const KVKey& key, std::span<const NDArray> values);

 private:
  std::mutex mutex_;  // does not guard the contents of arrays
  std::optional<float> threshold_ ABSL_GUARDED_BY(mutex_);
  /// What the values of each position have not sent yet.
  std::unordered_map<KVKey, std::vector<NDArray>> rests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::kvstore_internal

#endif  // TESSERA_KVSTORE_GRADIENT_COMPRESSION_H_
