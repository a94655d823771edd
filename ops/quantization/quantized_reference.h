#ifndef TESSERA_OPS_QUANTIZATION_QUANTIZED_REFERENCE_H_
#define TESSERA_OPS_QUANTIZATION_QUANTIZED_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// The rows of operators of codes share these.
namespace tessera::ops_testing {

/// Codes of int8, and of uint8, which all exceed those of int8: references do not see types.
inline Fill Int8Codes() { return Fill::Integers(-128, 127); }
inline Fill Uint8Codes() { return Fill::Integers(128, 255); }
inline bool IsUint8(const Values& codes) { return codes.size() > 0 && codes[0] > 127; }

/// Returns the type's largest code.
inline double LargestCodeOf(const Values& codes) { return IsUint8(codes) ? 255 : 127; }

/// Returns the greater magnitude of a range's ends.
inline double MagnitudeOf(const Values& low, const Values& high) {
  return std::max(std::abs(low[0]), std::abs(high[0]));
}

/// Returns the code of 1 in a range by the factors 127.5 and 255.5.
inline double CodeOfOneIn(const Values& codes, const Values& low, const Values& high) {
  return (LargestCodeOf(codes) + 0.5) / MagnitudeOf(low, high);
}

/// Returns the nearest integer of int8, or of uint8.
inline double NearestCode(double x, bool is_uint8 = false) {
  return std::clamp(std::nearbyint(x), is_uint8 ? 0.0 : -128.0, is_uint8 ? 255.0 : 127.0);
}

/// Returns an array of one number.
inline Values Number(double x) {
  Values values(TShape{1});
  values[0] = x;
  return values;
}

/// Returns `out` and the range of its int32 codes, each worth `unit`.
inline std::vector<Values> WithRangeOfInt32(Values out, double unit) {
  return {std::move(out), Number(-2147483648.0 * unit), Number(2147483647.0 * unit)};
}

/// A row of an operator of codes, whose results are compared as integers.
inline OperatorRow RowOfCodes(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.forward_tolerance.bfloat16 = 1e-6;
  return row;
}

/// A case's arguments: codes, then the ends of ranges.
class Arguments {
 public:
  Arguments& Add(const TShape& shape, DType type, const Fill& fill) {
    shapes_.push_back(shape);
    types_.push_back(type);
    fills_.push_back(fill);
    return *this;
  }
  Arguments& AddInt8(const TShape& shape) { return Add(shape, DType::kInt8, Int8Codes()); }
  Arguments& AddUint8(const TShape& shape) { return Add(shape, DType::kUint8, Uint8Codes()); }
  Arguments& AddCodes(DType type, const TShape& shape) {
    return type == DType::kInt8 ? AddInt8(shape) : AddUint8(shape);
  }
  Arguments& AddRange(double low, double high) {
    Add({1}, DType::kFloat32, Fill::Given({low}));
    return Add({1}, DType::kFloat32, Fill::Given({high}));
  }

  OperatorCase Case(const std::string& name, const ParameterMap& parameters) const {
    return {.name = name,
            .parameters = parameters,
            .inputs = shapes_,
            .fills = fills_,
            .dtypes = {types_[0]},
            .fixed_types = types_};
  }

 private:
  std::vector<TShape> shapes_;
  std::vector<DType> types_;
  std::vector<Fill> fills_;
};

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_QUANTIZATION_QUANTIZED_REFERENCE_H_
