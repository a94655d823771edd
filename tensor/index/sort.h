#ifndef TESSERA_TENSOR_INDEX_SORT_H_
#define TESSERA_TENSOR_INDEX_SORT_H_

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/index/sort_key.h"

namespace tessera {

/// Which key comes first.
enum class SortOrder { kAscending, kDescending };

inline namespace TESSERA_ISA_NAMESPACE {

/// The order of keys on the host. NaN counts as larger than every number, so that every array has
/// an order.
template <typename T>
struct KeyOrder {
  SortOrder order;  ///< the direction

  /// Whether key a comes before key b.
  bool operator()(const T& a, const T& b) const {
    return order == SortOrder::kAscending ? Less(a, b) : Less(b, a);
  }

 private:
  static bool Less(const T& a, const T& b) { return a < b || (b != b && a == a); }
};

/// SortByKey on the host, on `count` keys and values. Throws std::bad_alloc if there is no memory
/// for copies of both.
template <typename K, typename V>
void StableSortByKey(K* keys, V* values, index_t count, KeyOrder<K> key_order) {
  std::vector<index_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), index_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](index_t a, index_t b) { return key_order(keys[a], keys[b]); });
  const std::vector<K> old_keys(keys, keys + count);
  const std::vector<V> old_values(values, values + count);
  for (index_t i = 0; i < count; ++i) {
    const auto from = static_cast<size_t>(order[static_cast<size_t>(i)]);
    keys[i] = old_keys[from];
    values[i] = old_values[from];
  }
}

/// Sorts keys in place and moves values along with them; values of equal keys keep their order. NaN
/// counts as larger than every number. Types: any for either; on a GPU, keys are integers or
/// floating-point numbers. There it is enqueued on the stream of keys, with temporary memory from
/// the device's own pool (cudaMallocAsync).
///
/// Throws Error(kInvalidArgument) unless keys and values are of one length,
/// Error(kResourceExhausted) if there is no memory for copies on the GPU.
template <typename Device, typename K, typename V>
void SortByKey(Tensor<Device, 1, K> keys, Tensor<Device, 1, V> values, bool is_ascend = true) {
  if (keys.shape_ != values.shape_) {
    throw InvalidArgument("SortByKey: keys of shape ", keys.shape_, " and values of shape ",
                          values.shape_, " differ in length");
  }
  if constexpr (Device::kDevCPU) {
    const KeyOrder<K> order{is_ascend ? SortOrder::kAscending : SortOrder::kDescending};
    StableSortByKey(keys.dptr_, values.dptr_, keys.shape_[0], order);
  } else {
    static_assert(std::is_trivially_copyable_v<V>, "values that a GPU sorts are copied as bytes");
    tensor_internal::SortByKeyCuda(keys.dptr_, tensor_internal::SortKeyFormatOf<K>(), values.dptr_,
                                   sizeof(V), keys.shape_[0], is_ascend, keys.stream_);
  }
}

/// Sorts the values inside each segment, ascending: segments[i] says which one value i belongs to,
/// and is sorted along, so that equal numbers come to stand together.
/// Throws Error(kInvalidArgument) unless values and segments are of one length.
template <typename Device, typename V, typename S>
void VectorizedSort(Tensor<Device, 1, V> values, Tensor<Device, 1, S> segments) {
  // The second sort keeps the order of the first among equal segments.
  SortByKey(values, segments);
  SortByKey(segments, values);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_INDEX_SORT_H_
