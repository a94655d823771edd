// Images in another light (adjustments.h: AddLighting):
//
//   _image_adjust_lighting  data plus alpha's light; the gradient is the head gradient
//   _image_random_lighting  data plus the light of three normal numbers of mean 0 and standard
//                           deviation alpha_std, which come from the device's sequence; no gradient
//
// The numbers hold for all images of a batch. Shapes: data and out (height, width, channels) or
// (images, height, width, channels) with 1 or 3 channels. Types: all. Runs on the CPU.
#include <array>
#include <span>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/image/adjustments.h"
#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: adjustments and registration

template <typename Parameters>
class LightingProperty : public MoveProperty<Parameters> {
 public:
  static constexpr bool kAcceptsAddTo = false;

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferColorImageShape(*this, in_shape, out_shape);
  }
};

struct AdjustLightingParameters {
  std::vector<float> alpha = {0, 0, 0};

  static void Declare(ParameterSchema<AdjustLightingParameters>& schema) {
    schema.Required("alpha", &AdjustLightingParameters::alpha,
                    "the factor of each principal component");
  }
};

class AdjustLightingProperty final : public LightingProperty<AdjustLightingParameters> {
 public:
  bool BuildGradient(GradientBuilder* builder) const override {
    SetInGrad(builder, 0, Term(builder, builder->OutGrad(0)));
    return true;
  }

 private:
  void CheckParameters() override {
    if (param_.alpha.size() == 3) return;
    throw InvalidArgument(TypeString(), ": alpha has ", param_.alpha.size(),
                          " elements, expected 3");
  }
};

void AdjustLighting(const MoveCall<AdjustLightingParameters>& call, std::span<const TBlob> from,
                    std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  std::array<double, 3> alpha;
  for (size_t k = 0; k < 3; ++k) alpha[k] = static_cast<double>(call.param.alpha[k]);
  AddLighting(from[0], alpha, to[0]);
}

[[maybe_unused]] const bool kAdjust = RegisterMove<AdjustLightingProperty>(
    TESSERA_TABLE_PLACE, "_image_adjust_lighting",
    "Images plus multiples of the principal components of colours.", AdjustLighting,
    MoveFirst<AdjustLightingParameters>);

struct RandomLightingParameters {
  float alpha_std = 0.05f;

  static void Declare(ParameterSchema<RandomLightingParameters>& schema) {
    schema.Optional("alpha_std", &RandomLightingParameters::alpha_std,
                    "standard deviation of the factor of each principal component");
    schema.Range(0, 1e6);
  }
};

class RandomLightingProperty final : public LightingProperty<RandomLightingParameters> {
 public:
  Purity purity() const override { return Purity::kRandom; }
  bool HasGradient() const override { return false; }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}};
  }
};

void RandomLighting(const MoveCall<RandomLightingParameters>& call, std::span<const TBlob> from,
                    std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  std::array<double, 3> alpha;
  auto random = call.context.requested[0]->get_random<cpu>(nullptr);
  random.SampleGaussian(std::span<double>(alpha), 0, static_cast<double>(call.param.alpha_std));
  AddLighting(from[0], alpha, to[0]);
}

[[maybe_unused]] const bool kRandom = RegisterMove<RandomLightingProperty>(
    TESSERA_TABLE_PLACE, "_image_random_lighting",
    "Images plus random multiples of the principal components of colours.", RandomLighting,
    nullptr);

}  // namespace
}  // namespace tessera
