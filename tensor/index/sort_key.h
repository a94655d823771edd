#ifndef TESSERA_TENSOR_INDEX_SORT_KEY_H_
#define TESSERA_TENSOR_INDEX_SORT_KEY_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/base/float16.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"
#include "tessera/tensor/device/stream.h"

namespace tessera::tensor_internal {

/// The format of a sort's keys.
struct SortKeyFormat {
  int size_bytes;          ///< the size of a key: 1, 2, 4 or 8
  bool is_signed_integer;  ///< whether it is an integer in two's complement
  uint64_t infinity;       ///< the bits of a floating-point infinity; 0 for integers
};

template <typename K>
constexpr SortKeyFormat SortKeyFormatOf() {
  constexpr bool kIsFloat = std::is_same_v<K, float> || std::is_same_v<K, double> ||
                            std::is_same_v<K, half_t> || std::is_same_v<K, bfloat16_t>;
  static_assert(kIsFloat || (std::is_integral_v<K> && sizeof(K) <= 8),
                "keys that a GPU sorts are integers, float, double, half_t or bfloat16_t");
  if constexpr (kIsFloat) {
    using Bits = std::conditional_t<sizeof(K) == 2, uint16_t,
                                    std::conditional_t<sizeof(K) == 4, uint32_t, uint64_t>>;
    return {sizeof(K), false, std::bit_cast<Bits>(std::numeric_limits<K>::infinity())};
  } else {
    return {sizeof(K), std::is_signed_v<K>, 0};
  }
}

/// Returns an unsigned number of format.size_bytes for a key's bits. The numbers have the order of
/// the keys: NaN is the largest, and zeros of either sign are equal. If `ascending` is false, the
/// order is reversed.
TESSERA_HD constexpr uint64_t OrderedBits(uint64_t bits, SortKeyFormat format, bool ascending) {
  const uint64_t sign = uint64_t{1} << (8 * format.size_bytes - 1);
  const uint64_t all = sign | (sign - 1);
  uint64_t ordered = bits;
  if (format.infinity != 0) {
    const uint64_t magnitude = bits & ~sign;
    if (magnitude > format.infinity) {
      ordered = all;
    } else if ((bits & sign) != 0 && magnitude != 0) {
      ordered = ~bits & all;
    } else {
      ordered = magnitude | sign;
    }
  } else if (format.is_signed_integer) {
    ordered = bits ^ sign;
  }
  return ascending ? ordered : ~ordered & all;
}

/// Enqueues a stable sort of `count` keys and their values. Throws Error(kResourceExhausted) if the
/// device has not enough memory for copies. Only CUDA builds define it.
void SortByKeyCuda(void* keys, SortKeyFormat format, void* values, int64_t value_bytes,
                   index_t count, bool ascending, Stream<gpu>* stream);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_INDEX_SORT_KEY_H_
