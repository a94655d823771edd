// _contrib_quantize_v2 and _contrib_requantize: numbers as integers of 8 bits, in a range from
// calibration or that of the data.
//
//   r = max(|low|, |high|) of the calibrated range, or of data's least and greatest number
//   _contrib_quantize_v2  int8: out = data * 127.5 / r; uint8: out = data * 255.5 / r. Data of int8
//                         or uint8 are copied, in the calibrated range, else in [-127.5, 127.5] or
//                         [0, 255.5].
//   _contrib_requantize   data are codes of int32 for numbers x = data * R / (2^31 - 1), where R is
//                         the greater magnitude of min_range and max_range. int8: out = x * 127 /
//                         r; uint8: out = x * 255 / r.
//
// Results are rounded to the nearest integer, halves to the even one, and limited to the type's
// range. NaN becomes 0, and so does each number if r is 0; MXNet makes 127 of them. The outputs 1
// and 2 are -r and r for int8; for uint8 low and high, or 0 and r of _contrib_requantize.
// out_type=auto is uint8 if a calibrated range begins at 0 or above, else int8. Shapes: any; ranges
// (1,). Types: data of the first float32, float64, float16, bfloat16, int8 or uint8, of the second
// int32. Gradient 0. Runs on the CPU.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/zero_gradient.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: codes and registration

struct CalibratedParameters {
  DType out_type = DType::kInt8;  // kUnknown for auto
  std::optional<float> min_calib_range;
  std::optional<float> max_calib_range;

  static void Declare(ParameterSchema<CalibratedParameters>& schema) {
    using P = CalibratedParameters;
    schema.Choice("out_type", &P::out_type,
                  {{"auto", DType::kUnknown}, {"int8", DType::kInt8}, {"uint8", DType::kUint8}},
                  "element type of the output");
    schema.Optional("min_calib_range", &P::min_calib_range,
                    "the range's low end; that of the data if either is None");
    schema.Optional("max_calib_range", &P::max_calib_range, "the range's high end");
  }
  bool IsCalibrated() const { return min_calib_range && max_calib_range; }
  DType Type() const {
    if (out_type != DType::kUnknown) return out_type;
    return IsCalibrated() && *min_calib_range >= 0 ? DType::kUint8 : DType::kInt8;
  }
};

class CalibratedProperty : public ZeroGradientProperty<CalibratedParameters> {
 public:
  std::vector<std::string> ListOutputs() const final { return {"output0", "output1", "output2"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const final {
    const auto inputs = ListArguments(), outputs = ListOutputs();
    for (size_t i = 1; i < inputs.size(); ++i) {
      MergeShape(*this, inputs[i], &(*in_shape)[i], {1});
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      MergeShape(*this, outputs[i], &(*out_shape)[i], {1});
    }
    MergeEqualShapes(*this, {{"data", &(*in_shape)[0]}, {"output0", &(*out_shape)[0]}});
    return (*in_shape)[0].known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const final {
    const auto inputs = ListArguments(), outputs = ListOutputs();
    for (size_t i = 1; i < inputs.size(); ++i) {
      MergeType(*this, inputs[i], &(*in_type)[i], DType::kFloat32);
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      MergeType(*this, outputs[i], &(*out_type)[i], DType::kFloat32);
    }
    MergeType(*this, "output0", &(*out_type)[0], param_.Type());
    return InferDataType(&(*in_type)[0]);
  }

 private:
  /// Checks or completes data's type; returns whether it is known.
  virtual bool InferDataType(DType* type) const = 0;
};

class QuantizeV2Property final : public CalibratedProperty {
  bool InferDataType(DType* type) const override {
    if (*type == DType::kUnknown) return false;
    if (!IsReal(*type) && *type != DType::kInt8 && *type != DType::kUint8) {
      throw InvalidArgument(TypeString(), ": data has element type ", *type,
                            ", expected a floating-point type, int8 or uint8");
    }
    return true;
  }
};

class RequantizeProperty final : public CalibratedProperty {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"data", "min_range", "max_range"};
  }

 private:
  bool InferDataType(DType* type) const override {
    MergeType(*this, "data", type, DType::kInt32);
    return true;
  }
};

class QuantizeV2Operator final : public Operator {
 public:
  explicit QuantizeV2Operator(const CalibratedParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob& data = in_data[0];
    const auto [low, high] = RangeOf(data);
    if (!IsReal(data.type_flag_)) {
      const TBlob bytes(data.dptr_, data.shape_, param_.Type(), data.device_);
      MoveFlat(bytes, out_data[0], req[0], context);
      StoreRange(low, high, req, out_data);
      return;
    }
    const DType type = param_.Type();
    const float range = Magnitude(low, high);
    if (req[0] != kNullOp) Scale(data, CodeOfOne(type, range), out_data[0]);
    if (type == DType::kInt8) {
      StoreRange(-range, range, req, out_data);
    } else {
      StoreRange(low, high, req, out_data);
    }
  }

 private:
  std::pair<float, float> RangeOf(const TBlob& data) const {
    if (param_.IsCalibrated()) return {*param_.min_calib_range, *param_.max_calib_range};
    if (data.type_flag_ == DType::kInt8) return {-127.5f, 127.5f};
    if (data.type_flag_ == DType::kUint8) return {0.0f, 255.5f};
    const auto [low, high] = ExtremesOf(data);
    return {static_cast<float>(low), static_cast<float>(high)};
  }

  const CalibratedParameters param_;
};

class RequantizeOperator final : public Operator {
 public:
  explicit RequantizeOperator(const CalibratedParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const DType type = param_.Type();
    const double unit = Magnitude(in_data[1], in_data[2]) / 2147483647.0;
    const float range = RangeOf(in_data[0], unit);
    if (req[0] != kNullOp) {
      Scale(in_data[0], unit * LargestCode(type) / range, out_data[0]);
    }
    StoreRange(type == DType::kInt8 ? -range : 0.0f, range, req, out_data);
  }

 private:
  float RangeOf(const TBlob& data, double unit) const {
    if (param_.IsCalibrated()) return Magnitude(*param_.min_calib_range, *param_.max_calib_range);
    const auto [low, high] = ExtremesOf(data);
    return static_cast<float>(std::max(-low, high) * unit);
  }

  const CalibratedParameters param_;
};

[[maybe_unused]] const bool kQuantizeV2 =
    RegisterTypedOperator<QuantizeV2Property, QuantizeV2Operator>(
        TESSERA_TABLE_PLACE, "_contrib_quantize_v2",
        "Numbers as integers of 8 bits, in a calibrated range or that of the data.",
        TakenTypes::kAny);
[[maybe_unused]] const bool kRequantize =
    RegisterTypedOperator<RequantizeProperty, RequantizeOperator>(
        TESSERA_TABLE_PLACE, "_contrib_requantize",
        "Integers of 32 bits that stand for numbers, as integers of 8 bits.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
