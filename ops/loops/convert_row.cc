#include "tessera/ops/loops/convert_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tessera/tensor/tensor.h"

namespace tessera::ops_internal {
namespace {

template <typename T>
inline constexpr bool kIsSixteenBitReal =
    std::is_same_v<T, half_t> || std::is_same_v<T, bfloat16_t>;

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // Both ends are powers of two or one below, so the comparisons are exact.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(std::numeric_limits<To>::max());
    if (!(value >= kLow)) return value != value ? To(0) : std::numeric_limits<To>::min();
    return value >= kHigh ? std::numeric_limits<To>::max() : static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename T>
Tensor<cpu, 1, T> Row(T* data, index_t n) {
  return Tensor<cpu, 1, T>(data, Shape1(n));
}

template <typename From, typename To>
void Load(const From* in, index_t stride, index_t n, To* out) {
  if (n == 0) return;  // both may be null
  if (stride == 0) {
    To value;
    Load(in, 1, 1, &value);
    std::fill_n(out, n, value);
  } else if constexpr (std::is_same_v<From, To>) {
    if (stride == 1) {
      std::memcpy(out, in, static_cast<size_t>(n) * sizeof(To));
    } else {
      for (index_t i = 0; i < n; ++i) out[i] = in[i * stride];
    }
  } else if constexpr (kIsSixteenBitReal<From>) {
    if (std::is_same_v<To, float> && stride == 1 && n > 1) {
      // In packets.
      Row(reinterpret_cast<float*>(out), n) = tcast<float>(Row(const_cast<From*>(in), n));
    } else {
      for (index_t i = 0; i < n; ++i) out[i] = Convert<To>(static_cast<float>(in[i * stride]));
    }
  } else {
    for (index_t i = 0; i < n; ++i) out[i] = Convert<To>(in[i * stride]);
  }
}

template <typename From, typename To>
void Store(const From* in, index_t n, bool add, To* out) {
  if constexpr (kIsSixteenBitReal<To>) {
    if (std::is_same_v<From, float> && !add) {
      Row(out, n) = tcast<To>(Row(reinterpret_cast<float*>(const_cast<From*>(in)), n));
      return;
    }
    for (index_t i = 0; i < n; ++i) {
      const float value = static_cast<float>(in[i]);
      out[i] = static_cast<To>(add ? static_cast<float>(out[i]) + value : value);
    }
  } else if (!add) {
    for (index_t i = 0; i < n; ++i) out[i] = Convert<To>(in[i]);
  } else if constexpr (std::is_same_v<To, bool>) {
    for (index_t i = 0; i < n; ++i) out[i] = out[i] || Convert<bool>(in[i]);
  } else {
    for (index_t i = 0; i < n; ++i) out[i] = op::plus::Map(out[i], Convert<To>(in[i]));
  }
}

}  // namespace

template <typename T>
void LoadRow(const void* data, DType dtype, index_t stride, index_t n, T* out) {
  VisitDType(dtype, [&](auto tag) {
    Load(static_cast<const typename decltype(tag)::type*>(data), stride, n, out);
  });
}

template <typename T>
void StoreRow(const T* in, index_t n, bool add, DType dtype, void* out) {
  VisitDType(dtype,
             [&](auto tag) { Store(in, n, add, static_cast<typename decltype(tag)::type*>(out)); });
}

void LoadIndices(const void* data, DType dtype, index_t n, int64_t* indices) {
  VisitDType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const in = static_cast<const T*>(data);
    if constexpr (std::is_floating_point_v<T> || kIsSixteenBitReal<T>) {
      using Number = std::conditional_t<kIsSixteenBitReal<T>, float, T>;
      for (index_t i = 0; i < n; ++i) {
        const Number x = static_cast<Number>(in[i]);
        indices[i] = x != x ? kNanIndex : Convert<int64_t>(x);
      }
    } else {
      Load(in, 1, n, indices);
    }
  });
}

bool IsNanIndex(int64_t index, DType dtype) { return index == kNanIndex && IsReal(dtype); }

std::string IndexText(int64_t index, DType dtype) {
  return IsNanIndex(index, dtype) ? "nan" : std::to_string(index);
}

#define TESSERA_INSTANTIATE(T)                                                             \
  template void LoadRow(const void* data, DType dtype, index_t stride, index_t n, T* out); \
  template void StoreRow(const T* in, index_t n, bool add, DType dtype, void* out)
TESSERA_INSTANTIATE(float);
TESSERA_INSTANTIATE(double);
TESSERA_INSTANTIATE(int32_t);
TESSERA_INSTANTIATE(int64_t);
#undef TESSERA_INSTANTIATE

}  // namespace tessera::ops_internal
