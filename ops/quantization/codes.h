#ifndef TESSERA_OPS_QUANTIZATION_CODES_H_
#define TESSERA_OPS_QUANTIZATION_CODES_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

/// Codes are integers that stand for numbers of a range [-r, r], where r is the greater magnitude
/// of the range's two ends: code * r / n, where n is near the type's largest code. An end is an
/// array of one float32.
namespace tessera::ops_internal {

/// Returns the type's largest code: 127 for int8, 255 for uint8, 2^31 - 1 for int32.
float LargestCode(DType type);

/// Returns the code of 1 in a range. MXNet takes half a code more than the largest for 8 bits.
float CodeOfOne(DType type, float range);

/// Returns the number that an array of one float32 holds.
inline float NumberIn(const TBlob& blob) { return *static_cast<const float*>(blob.dptr_); }

/// Returns the greater magnitude of a range's ends.
float Magnitude(float low, float high);
inline float Magnitude(const TBlob& low, const TBlob& high) {
  return Magnitude(NumberIn(low), NumberIn(high));
}

/// Returns the least and the greatest element, regardless of NaN; zeros if there is none.
std::pair<double, double> ExtremesOf(const TBlob& array);

/// Computes out = data * factor in T, float or double. Integers are rounded to the nearest, halves
/// to the even one, and limited to the type's range; NaN becomes 0.
template <typename T>
void Scale(const TBlob& data, T factor, const TBlob& out);

/// Writes outputs 1 and 2, the ends of a range, as far as they are wanted.
void StoreRange(float low, float high, std::span<const OpReqType> req,
                std::span<const TBlob> out_data);

/// Writes the range of int32 codes, each of which is worth `unit`, to outputs 1 and 2.
void StoreRangeOfInt32(float unit, std::span<const OpReqType> req, std::span<const TBlob> out_data);

/// Returns an array of int8 codes, each multiplied by `factor` in float32, cut off towards 0 and
/// limited to int32.
std::vector<int32_t> ScaledCodes(const TBlob& codes, float factor);

/// Returns a + b, limited to int32.
int32_t SaturatedSum(int32_t a, int32_t b);

/// Calls visitor(int8_t()) or visitor(uint8_t()).
template <typename Visitor>
void VisitCodes(DType type, const Visitor& visitor) {
  if (type == DType::kInt8) {
    visitor(int8_t{});
  } else {
    visitor(uint8_t{});
  }
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_QUANTIZATION_CODES_H_
