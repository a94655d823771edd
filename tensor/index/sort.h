#ifndef TESSERA_TENSOR_INDEX_SORT_H_
#define TESSERA_TENSOR_INDEX_SORT_H_

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <vector>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/index/sort_key.h"

namespace tessera {
namespace tensor_internal {

/// The direction of a sort.
enum class SortOrder { kAscending, kDescending };

inline namespace TESSERA_ISA_NAMESPACE {

/// Compares keys on the host. NaN is larger than every number, so that every array has an order.
template <typename T>
struct KeyOrder {
  SortOrder order;  ///< the direction

  /// Returns whether key a comes before key b.
  bool operator()(const T& a, const T& b) const {
    return order == SortOrder::kAscending ? Less(a, b) : Less(b, a);
  }

 private:
  static bool Less(const T& a, const T& b) { return a < b || (b != b && a == a); }
};

/// Sorts `count` keys and their values on the host, as SortByKey does. Throws std::bad_alloc if
/// there is not enough memory for copies of both.
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

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tensor_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// Sorts keys in place and moves values along with them. Values of equal keys keep their order. NaN
/// is larger than every number.
///
/// Types: any for keys and values on the CPU; on a GPU, keys are integers or floating-point values.
/// The GPU's sort is enqueued on the stream of keys, with temporary memory from the device's pool
/// (cudaMallocAsync).
///
/// Throws Error(kInvalidArgument) if keys and values differ in length, and
/// Error(kResourceExhausted) if the GPU has not enough memory for copies.
template <typename Device, typename K, typename V>
void SortByKey(Tensor<Device, 1, K> keys, Tensor<Device, 1, V> values, bool is_ascend = true) {
  if (keys.shape_ != values.shape_) {
    throw InvalidArgument("SortByKey: keys of shape ", keys.shape_, " and values of shape ",
                          values.shape_, " differ in length");
  }
  if constexpr (Device::kDevCPU) {
    using tensor_internal::SortOrder;
    const tensor_internal::KeyOrder<K> order{is_ascend ? SortOrder::kAscending
                                                       : SortOrder::kDescending};
    tensor_internal::StableSortByKey(keys.dptr_, values.dptr_, keys.shape_[0], order);
  } else {
    static_assert(std::is_trivially_copyable_v<V>, "values that a GPU sorts are copied as bytes");
    tensor_internal::SortByKeyCuda(keys.dptr_, tensor_internal::SortKeyFormatOf<K>(), values.dptr_,
                                   sizeof(V), keys.shape_[0], is_ascend, keys.stream_);
  }
}

/// Sorts the values inside each segment in ascending order. segments[i] is the segment of value i.
/// The segments are sorted too, so that the values of one segment become adjacent. Throws
/// Error(kInvalidArgument) if values and segments differ in length.
template <typename Device, typename V, typename S>
void VectorizedSort(Tensor<Device, 1, V> values, Tensor<Device, 1, S> segments) {
  // The sort is stable, so that values of one segment keep the order of the first sort.
  SortByKey(values, segments);
  SortByKey(segments, values);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_INDEX_SORT_H_
