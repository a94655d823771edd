#ifndef TESSERA_OPS_QUANTIZATION_QUANTIZED_PROPERTY_H_
#define TESSERA_OPS_QUANTIZATION_QUANTIZED_PROPERTY_H_

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/ops/property.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/zero_gradient.h"

namespace tessera::ops_internal {

/// The property of an operator of codes (codes.h). The arguments are those of an operator of
/// floating-point numbers, the base, then the ends of their ranges. The outputs are the base's
/// first output and its range's ends. An end has shape (1,) and type float32. The gradient is
/// 0.
template <typename Parameters>
class QuantizedProperty : public ZeroGradientProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = BaseArguments();
    for (std::string& name : RangeNames()) names.push_back(std::move(name));
    return names;
  }
  std::vector<std::string> ListOutputs() const override {
    return {"output", "min_output", "max_output"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const std::vector<std::string> inputs = ListArguments(), outputs = ListOutputs();
    const size_t count = BaseArguments().size();
    for (size_t i = count; i < inputs.size(); ++i) {
      MergeShape(*this, inputs[i], &(*in_shape)[i], {1});
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      MergeShape(*this, outputs[i], &(*out_shape)[i], {1});
    }
    std::vector<TShape> in(in_shape->begin(), in_shape->begin() + static_cast<ptrdiff_t>(count));
    std::vector<TShape> out(base_->ListOutputs().size());
    out[0] = (*out_shape)[0];
    bool known = false;
    WithOwnName([&] { known = base_->InferShape(&in, &out); });
    std::copy(in.begin(), in.end(), in_shape->begin());
    (*out_shape)[0] = out[0];
    return known;
  }

 protected:
  /// Creates the base, whose shapes are the operator's.
  virtual std::unique_ptr<OperatorProperty> CreateBase() const = 0;
  /// Returns the names of the arguments that are ends of ranges.
  virtual std::vector<std::string> RangeNames() const = 0;

  void CheckParameters() override {
    WithOwnName([this] { base_ = CreateBase(); });
  }

  std::vector<std::string> BaseArguments() const { return base_->ListArguments(); }

  /// Merges the types of ranges.
  void MergeRangeTypes(std::vector<DType>* in_type, std::vector<DType>* out_type) const {
    const std::vector<std::string> inputs = ListArguments(), outputs = ListOutputs();
    for (size_t i = BaseArguments().size(); i < inputs.size(); ++i) {
      MergeType(*this, inputs[i], &(*in_type)[i], DType::kFloat32);
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      MergeType(*this, outputs[i], &(*out_type)[i], DType::kFloat32);
    }
  }

  /// Throws Error(kInvalidArgument) unless the type is unknown, int8 or uint8.
  void RequireCodes(std::string_view value, DType type) const {
    if (type == DType::kUnknown || type == DType::kInt8 || type == DType::kUint8) return;
    throw InvalidArgument(this->TypeString(), ": ", value, " has element type ", type,
                          ", expected int8 or uint8");
  }

 private:
  /// Calls f, whose errors begin with the base's name.
  template <typename F>
  void WithOwnName(const F& f) const {
    try {
      f();
    } catch (const Error& error) {
      throw Error(error.code(), this->TypeString() + ": " + error.what());
    }
  }

  std::unique_ptr<OperatorProperty> base_;
};

/// The property of a sum of products of codes: data of int8 or uint8, weight and bias of int8, and
/// an output of int32. Parameters has a field no_bias.
template <typename Parameters>
class QuantizedProductProperty : public QuantizedProperty<Parameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const final {
    this->MergeRangeTypes(in_type, out_type);
    const std::vector<std::string> names = this->BaseArguments();
    for (size_t i = 1; i < names.size(); ++i) {
      MergeType(*this, names[i], &(*in_type)[i], DType::kInt8);
    }
    MergeType(*this, "output", &(*out_type)[0], DType::kInt32);
    this->RequireCodes("data", (*in_type)[0]);
    return (*in_type)[0] != DType::kUnknown;
  }

 protected:
  std::vector<std::string> RangeNames() const final {
    std::vector<std::string> names = {"min_data", "max_data", "min_weight", "max_weight"};
    if (!this->param_.no_bias) names.insert(names.end(), {"min_bias", "max_bias"});
    return names;
  }
};

/// The inputs of a sum of products of codes, as QuantizedProductProperty lists them.
struct ProductInputs {
  ProductInputs(std::span<const TBlob> in_data, bool no_bias)
      : data(in_data[0]),
        weight(in_data[1]),
        bias(no_bias ? nullptr : &in_data[2]),
        ranges(in_data.subspan(no_bias ? 2 : 3)) {}

  float DataRange() const { return Magnitude(ranges[0], ranges[1]); }
  float WeightRange() const { return Magnitude(ranges[2], ranges[3]); }
  /// Returns the bias as int32 codes of the products: its numbers, in MXNet's units.
  std::vector<int32_t> Bias() const {
    const float one =
        CodeOfOne(data.type_flag_, DataRange()) * CodeOfOne(DType::kInt8, WeightRange());
    return ScaledCodes(*bias, one / CodeOfOne(DType::kInt8, Magnitude(ranges[4], ranges[5])));
  }

  const TBlob& data;
  const TBlob& weight;
  const TBlob* bias;  ///< null if there is none
  std::span<const TBlob> ranges;
};

/// The property of an operator that gives codes of data's type and range.
template <typename Parameters>
class QuantizedLikeDataProperty : public QuantizedProperty<Parameters> {
 public:
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const final {
    this->MergeRangeTypes(in_type, out_type);
    MergeType(*this, "data", &(*in_type)[0], (*out_type)[0]);
    MergeType(*this, "output", &(*out_type)[0], (*in_type)[0]);
    if (!TakesAllTypes()) this->RequireCodes("data", (*in_type)[0]);
    return (*in_type)[0] != DType::kUnknown;
  }

 protected:
  /// Returns whether data may have another type than int8 and uint8.
  virtual bool TakesAllTypes() const { return false; }
  std::vector<std::string> RangeNames() const final { return {"min_data", "max_data"}; }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_QUANTIZATION_QUANTIZED_PROPERTY_H_
