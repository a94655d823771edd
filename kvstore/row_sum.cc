#include "tessera/kvstore/row_sum.h"

#include <algorithm>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/base/float16.h"

namespace tessera::kvstore_internal {
namespace {

/// Elements whose sums are kept at a time: 2 to 4 KiB, which stay in the L1 cache beside the rows.
constexpr int64_t kBlock = 512;

template <typename T>
inline constexpr bool kIs16Bit = std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>;

/// The type in which elements are added: unsigned for integers, so that they wrap around.
template <typename T>
struct SumType {
  using type = T;
};
template <typename T>
requires(kIs16Bit<T>) struct SumType<T> {
  using type = float;
};
template <typename T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) struct SumType<T> {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
using SumOf = typename SumType<T>::type;

template <typename T>
SumOf<T> Added(SumOf<T> sum, T element) {
  if constexpr (std::is_same_v<T, bool>) {
    return sum || element;
  } else {
    return static_cast<SumOf<T>>(sum + base_internal::ConvertInLoop<SumOf<T>>(element));
  }
}

/// Sums elements [begin, begin + count). Where `count` is a constant, g++ vectorizes at -O2.
template <typename T, typename Count>
void SumBlock(std::span<const void* const> rows, T* out, int64_t begin, Count count) {
  SumOf<T> sums[kBlock];
  const T* const first = static_cast<const T*>(rows[0]) + begin;
  for (int64_t i = 0; i < count; ++i) sums[i] = base_internal::ConvertInLoop<SumOf<T>>(first[i]);
  for (const void* const data : rows.subspan(1)) {
    const T* const row = static_cast<const T*>(data) + begin;
    for (int64_t i = 0; i < count; ++i) sums[i] = Added<T>(sums[i], row[i]);
  }
  for (int64_t i = 0; i < count; ++i) out[begin + i] = base_internal::ConvertInLoop<T>(sums[i]);
}

template <typename T>
void SumRowsOf(std::span<const void* const> rows, T* out, int64_t size) {
  int64_t begin = 0;
  for (; size - begin >= kBlock; begin += kBlock) {
    SumBlock(rows, out, begin, std::integral_constant<int64_t, kBlock>());
  }
  if (begin < size) SumBlock(rows, out, begin, size - begin);
}

}  // namespace

void SumRows(std::span<const void* const> rows, void* out, int64_t size, DType dtype) {
  TESSERA_DCHECK(!rows.empty());
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    SumRowsOf(rows, static_cast<T*>(out), size);
  });
}

}  // namespace tessera::kvstore_internal
