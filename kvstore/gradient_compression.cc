#include "tessera/kvstore/gradient_compression.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/kvstore/stored_values.h"
#include "tessera/ndarray/host_function.h"
#include "tessera/ndarray/sparse.h"

namespace tessera::kvstore_internal {
namespace {

/// Sends a value in two bits an element: see KVStore::CompressGradients.
void Compress(const float* value, index_t size, float threshold, float* rest, float* sent) {
  for (index_t i = 0; i < size; ++i) {
    const float sum = rest[i] + value[i];
    sent[i] = sum >= threshold ? threshold : sum <= -threshold ? -threshold : 0.0f;
    rest[i] = sum - sent[i];
  }
}

bool IsDense(const NDArray& array) { return StorageTypeOf(array) == StorageType::kDefault; }

}  // namespace

void GradientCompression::Start(float threshold) {
  if (!std::isfinite(threshold) || threshold <= 0) {
    throw InvalidArgument("KVStore::CompressGradients: the threshold is ", threshold,
                          ", expected a number above 0");
  }
  const std::lock_guard lock(mutex_);
  threshold_ = threshold;
}

std::vector<NDArray> GradientCompression::Sent(const KVKey& key, std::span<const NDArray> values) {
  std::vector<NDArray> rests;
  float threshold = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!threshold_ || !std::all_of(values.begin(), values.end(), IsDense)) {
      return {values.begin(), values.end()};
    }
    threshold = *threshold_;
    if (values[0].dtype() != DType::kFloat32) {
      throw InvalidArgument("KVStore::Push: key ", Excerpt(ToString(key)), ": found values of ",
                            values[0].dtype(), ", expected float32, which compression takes");
    }
    std::vector<NDArray>& of_key = rests_[key];
    while (of_key.size() < values.size()) {
      NDArray rest(values[0].shape());
      rest = 0.0f;
      of_key.push_back(rest);
    }
    rests.assign(of_key.begin(), of_key.begin() + static_cast<std::ptrdiff_t>(values.size()));
  }
  std::vector<NDArray> sent;
  for (size_t i = 0; i < values.size(); ++i) {
    const NDArray value = OnHost(values[i]);
    const NDArray written[] = {rests[i], NDArray(value.shape())};
    PushHostFunction(
        [value, rest = written[0], code = written[1], threshold] {
          Compress(value.data().dptr<float>(), value.shape().Size(), threshold,
                   rest.data().dptr<float>(), code.data().dptr<float>());
        },
        std::span(&value, 1), written, "KVStore compression");
    sent.push_back(written[1]);
  }
  return sent;
}

}  // namespace tessera::kvstore_internal
