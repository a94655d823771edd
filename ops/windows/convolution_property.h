#ifndef TESSERA_OPS_WINDOWS_CONVOLUTION_PROPERTY_H_
#define TESSERA_OPS_WINDOWS_CONVOLUTION_PROPERTY_H_

#include <span>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/windows/channels_last.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera::ops_internal {

/// The property of a convolution or its transpose: a product of data and weight, with a bias for
/// each filter. `Parameters` are ConvolutionParameters or derived from these. A derived class
/// infers shapes with channels in front.
template <typename Parameters>
class ConvolutionPropertyOf : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (this->param_.no_bias) return {"data", "weight"};
    return {"data", "weight", "bias"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (!IsChannelsLast(this->param_.layout)) return InferChannelsFirst(in_shape, out_shape);
    return InferChannelsLast(2, in_shape, out_shape,
                             [this](auto* in, auto* out) { return InferChannelsFirst(in, out); });
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap product = this->GetParams();
    product["no_bias"] = "True";
    BuildBilinearGradient(*this, product, builder);
    if (this->param_.no_bias) return true;
    const Term g(builder, builder->OutGrad(0));
    const char* const channel = IsChannelsLast(this->param_.layout) ? "-1" : "1";
    SetInGrad(builder, 2, Apply("sum", {g}, {{"axis", channel}, {"exclude", "True"}}));
    return true;
  }

 protected:
  /// InferShape for a layout with channels in front.
  virtual bool InferChannelsFirst(std::vector<TShape>* in_shape,
                                  std::vector<TShape>* out_shape) const = 0;

  void CheckParameters() override {
    RequireKernelRank(this->TypeString(), this->param_.kernel);
    if (this->param_.num_filter % this->param_.num_group != 0) {
      throw InvalidArgument(this->TypeString(), ": num_group=", this->param_.num_group,
                            " does not divide num_filter=", this->param_.num_filter);
    }
    RequireLayout(this->TypeString(), this->param_.layout, this->param_.kernel.ndim());
  }

  /// Throws Error(kInvalidArgument) if the channels of `data` are known and num_group does not
  /// divide them.
  void RequireGroups(const TShape& data) const {
    if (data[1] == TShape::kUnknown || data[1] % this->param_.num_group == 0) return;
    throw InvalidArgument(this->TypeString(), ": data of shape ", data, " has ", data[1],
                          " channels, which num_group=", this->param_.num_group,
                          " does not divide");
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_CONVOLUTION_PROPERTY_H_
