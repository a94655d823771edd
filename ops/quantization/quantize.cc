// _contrib_quantize and _contrib_dequantize: numbers as integers of 8 bits, and back.
//
//   r = max(|min_range|, |max_range|)
//   _contrib_quantize    int8: out = data * 127 / r; uint8: out = data * 255 / r; rounded to the
//                        nearest integer, halves to the even one, and limited to the type's range.
//                        Further outputs: -r and r for int8, min_range and max_range for uint8.
//   _contrib_dequantize  int8: out = data * r / 127.5; uint8: out = data * r / 255.5
//
// The factors are those of MXNet 1.9.1's packages. Shapes: any; the ranges have shape (1,). Types:
// data of the first float32, float64, float16 or bfloat16, computed in float32; ranges and the
// second's output float32. Gradient 0. Runs on the CPU.
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/zero_gradient.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: codes and registration

struct QuantizeParameters {
  DType out_type = DType::kUint8;

  static void Declare(ParameterSchema<QuantizeParameters>& schema) {
    schema.Choice("out_type", &QuantizeParameters::out_type,
                  {{"int8", DType::kInt8}, {"uint8", DType::kUint8}}, "element type of the output");
  }
};

struct DequantizeParameters {
  DType out_type = DType::kFloat32;

  static void Declare(ParameterSchema<DequantizeParameters>& schema) {
    schema.Choice("out_type", &DequantizeParameters::out_type, {{"float32", DType::kFloat32}},
                  "element type of the output");
  }
};

/// The arguments are (data, min_range, max_range), the first output is like data, and further
/// outputs are ranges.
template <typename Parameters>
class RangedProperty : public ZeroGradientProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"data", "min_range", "max_range"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const auto inputs = ListArguments(), outputs = this->ListOutputs();
    for (size_t i = 1; i < inputs.size(); ++i) {
      MergeShape(*this, inputs[i], &(*in_shape)[i], {1});
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      MergeShape(*this, outputs[i], &(*out_shape)[i], {1});
    }
    return InferSameShape(*this, "data", &(*in_shape)[0], &(*out_shape)[0]);
  }

 protected:
  void MergeRangeTypes(std::vector<DType>* in_type, std::vector<DType>* out_type) const {
    for (const int i : {1, 2}) {
      MergeType(*this, ListArguments()[static_cast<size_t>(i)], &(*in_type)[static_cast<size_t>(i)],
                DType::kFloat32);
    }
    for (size_t i = 1; i < out_type->size(); ++i) {
      MergeType(*this, this->ListOutputs()[i], &(*out_type)[i], DType::kFloat32);
    }
  }
};

class QuantizeProperty final : public RangedProperty<QuantizeParameters> {
 public:
  std::vector<std::string> ListOutputs() const override {
    return {"output0", "output1", "output2"};
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    MergeType(*this, "output0", &(*out_type)[0], param_.out_type);
    return (*in_type)[0] != DType::kUnknown;
  }
};

class DequantizeProperty final : public RangedProperty<DequantizeParameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MergeRangeTypes(in_type, out_type);
    MergeType(*this, "output", &(*out_type)[0], param_.out_type);
    const DType data = (*in_type)[0];
    if (data != DType::kUnknown && data != DType::kInt8 && data != DType::kUint8) {
      throw InvalidArgument(TypeString(), ": data has element type ", data,
                            ", expected int8 or uint8");
    }
    return data != DType::kUnknown;
  }
};

class QuantizeOperator final : public Operator {
 public:
  explicit QuantizeOperator(const QuantizeParameters& param) : type_(param.out_type) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const float range = Magnitude(in_data[1], in_data[2]);
    if (req[0] != kNullOp) Scale(in_data[0], LargestCode(type_) / range, out_data[0]);
    if (type_ == DType::kInt8) {
      StoreRange(-range, range, req, out_data);
    } else {
      StoreRange(NumberIn(in_data[1]), NumberIn(in_data[2]), req, out_data);
    }
  }

 private:
  const DType type_;
};

class DequantizeOperator final : public Operator {
 public:
  explicit DequantizeOperator(const DequantizeParameters&) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const float codes = LargestCode(in_data[0].type_flag_) + 0.5f;
    Scale(in_data[0], Magnitude(in_data[1], in_data[2]) / codes, out_data[0]);
  }
};

[[maybe_unused]] const bool kQuantize = RegisterTypedOperator<QuantizeProperty, QuantizeOperator>(
    TESSERA_TABLE_PLACE, "_contrib_quantize", "Numbers of a range as integers of 8 bits.");
[[maybe_unused]] const bool kDequantize =
    RegisterTypedOperator<DequantizeProperty, DequantizeOperator>(
        TESSERA_TABLE_PLACE, "_contrib_dequantize",
        "The numbers of a range that integers of 8 bits stand for.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
