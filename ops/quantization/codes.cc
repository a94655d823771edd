#include "tessera/ops/quantization/codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

constexpr index_t kBlock = 256;

}  // namespace

float LargestCode(DType type) {
  return type == DType::kInt8 ? 127.0f : type == DType::kUint8 ? 255.0f : 2147483647.0f;
}

float CodeOfOne(DType type, float range) {
  return (type == DType::kInt32 ? LargestCode(type) : LargestCode(type) + 0.5f) / range;
}

float Magnitude(float low, float high) { return std::max(std::abs(low), std::abs(high)); }

std::pair<double, double> ExtremesOf(const TBlob& array) {
  double low = std::numeric_limits<double>::infinity(), high = -low, block[kBlock];
  const index_t size = array.shape_.Size();
  for (index_t i = 0; i < size; i += kBlock) {
    const index_t n = std::min(kBlock, size - i);
    RowReader<double>(array).Copy(i, n, block);
    for (index_t k = 0; k < n; ++k) {
      low = block[k] < low ? block[k] : low;
      high = block[k] > high ? block[k] : high;
    }
  }
  if (low > high) return {0, 0};
  return {low, high};
}

template <typename T>
void Scale(const TBlob& data, T factor, const TBlob& out) {
  const bool rounds = !IsReal(out.type_flag_);
  ParallelFor(data.shape_.Size(), StepsPerTask(1), [&](index_t begin, index_t end) {
    T block[kBlock];
    for (index_t i = begin; i < end; i += kBlock) {
      const index_t n = std::min(kBlock, end - i);
      RowReader<T>(data).Copy(i, n, block);
      for (index_t k = 0; k < n; ++k) {
        block[k] = rounds ? std::nearbyint(block[k] * factor) : block[k] * factor;
      }
      RowWriter<T>(out, kWriteTo).Write(i, n, block);
    }
  });
}
template void Scale<float>(const TBlob&, float, const TBlob&);
template void Scale<double>(const TBlob&, double, const TBlob&);

void StoreRange(float low, float high, std::span<const OpReqType> req,
                std::span<const TBlob> out_data) {
  if (req[1] != kNullOp) *static_cast<float*>(out_data[1].dptr_) = low;
  if (req[2] != kNullOp) *static_cast<float*>(out_data[2].dptr_) = high;
}

void StoreRangeOfInt32(float unit, std::span<const OpReqType> req,
                       std::span<const TBlob> out_data) {
  StoreRange(unit * -2147483648.0f, unit * 2147483647.0f, req, out_data);
}

std::vector<int32_t> ScaledCodes(const TBlob& codes, float factor) {
  const index_t size = codes.shape_.Size();
  std::vector<float> scaled(static_cast<size_t>(size));
  RowReader<float>(codes).Copy(0, size, scaled.data());
  for (float& x : scaled) x *= factor;
  std::vector<int32_t> result(scaled.size());
  StoreRow(scaled.data(), size, /*add=*/false, DType::kInt32, result.data());
  return result;
}

int32_t SaturatedSum(int32_t a, int32_t b) {
  using Limits = std::numeric_limits<int32_t>;
  return static_cast<int32_t>(std::clamp<int64_t>(int64_t{a} + b, Limits::min(), Limits::max()));
}

}  // namespace tessera::ops_internal
