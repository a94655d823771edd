// Images with random colours:
//
//   _image_random_brightness    factor in [min_factor, max_factor)
//   _image_random_contrast      factor in [min_factor, max_factor)
//   _image_random_saturation    factor in [min_factor, max_factor)
//   _image_random_hue           a turn of the hue by `factor` full turns, of which integers count
//                               as none
//   _image_random_color_jitter  all four, in a random order: factors in [1 - b, 1 + b) for the
//                               parameters b > 0 of the first three, and a turn in [-hue, hue)
//
// adjustments.h has the formulas. Numbers come from the device's sequence and hold for all images
// of a batch. Shapes: data and out (height, width, channels) or (images, height, width, channels)
// with 1 or 3 channels. Types: all. There is no gradient. Runs on the CPU.
#include <array>
#include <limits>
#include <numeric>
#include <span>

#include "tessera/ops/image/adjustments.h"
#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/movement.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: adjustments and registration

/// The largest factor: products and sums of it are finite in float.
constexpr double kMostFactor = 1e6;

using Adjustment = void (*)(const TBlob& in, double factor, const TBlob& out);

template <typename Parameters>
class RandomColorProperty : public MoveProperty<Parameters> {
 public:
  static constexpr bool kAcceptsAddTo = false;

  Purity purity() const override { return Purity::kRandom; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferColorImageShape(*this, in_shape, out_shape);
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kRandom}};
  }
};

double DrawUniform(Random<cpu>* random, double low, double high) {
  float number;
  random->SampleUniform(std::span<float>(&number, 1), low, high);
  return static_cast<double>(number);
}

struct FactorParameters {
  float min_factor = 0;
  float max_factor = 0;

  static void Declare(ParameterSchema<FactorParameters>& schema) {
    using P = FactorParameters;
    schema.Required("min_factor", &P::min_factor, "the least factor");
    schema.Range(0, kMostFactor);
    schema.Required("max_factor", &P::max_factor, "the bound below which factors lie");
    schema.Range(0, kMostFactor);
  }
};

class RandomFactorProperty final : public RandomColorProperty<FactorParameters> {
 private:
  void CheckParameters() override {
    if (param_.min_factor <= param_.max_factor) return;
    throw InvalidArgument(TypeString(), ": min_factor=", param_.min_factor,
                          " is above max_factor=", param_.max_factor);
  }
};

template <Adjustment kAdjust>
void AdjustByFactor(const MoveCall<FactorParameters>& call, std::span<const TBlob> from,
                    std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  auto random = call.context.requested[0]->get_random<cpu>(nullptr);
  const auto low = static_cast<double>(call.param.min_factor);
  kAdjust(from[0], DrawUniform(&random, low, static_cast<double>(call.param.max_factor)), to[0]);
}

template <Adjustment kAdjust>
bool RegisterFactor(const TablePlace& place, std::string_view name, std::string_view description) {
  return RegisterMove<RandomFactorProperty>(place, name, description, AdjustByFactor<kAdjust>,
                                            nullptr);
}

[[maybe_unused]] const bool kFactors[] = {
    RegisterFactor<ScaleBrightness>(TESSERA_TABLE_PLACE, "_image_random_brightness",
                                    "Images times a random factor."),
    RegisterFactor<ScaleContrast>(TESSERA_TABLE_PLACE, "_image_random_contrast",
                                  "Images whose distance from grey is times a random factor."),
    RegisterFactor<ScaleSaturation>(TESSERA_TABLE_PLACE, "_image_random_saturation",
                                    "Images whose pixels' distance from their grey is times a "
                                    "random factor."),
    RegisterFactor<TurnHue>(TESSERA_TABLE_PLACE, "_image_random_hue",
                            "Images whose hue is turned by a random factor."),
};

// _image_random_color_jitter.

struct JitterParameters {
  float brightness = 0;
  float contrast = 0;
  float saturation = 0;
  float hue = 0;

  static void Declare(ParameterSchema<JitterParameters>& schema) {
    using P = JitterParameters;
    schema.Required("brightness", &P::brightness, "the largest change of the brightness's factor");
    schema.Range(0, kMostFactor);
    schema.Required("contrast", &P::contrast, "the largest change of the contrast's factor");
    schema.Range(0, kMostFactor);
    schema.Required("saturation", &P::saturation, "the largest change of the saturation's factor");
    schema.Range(0, kMostFactor);
    schema.Required("hue", &P::hue, "the largest turn of the hue, in full turns");
    schema.Range(0, kMostFactor);
  }
};

void Jitter(const MoveCall<JitterParameters>& call, std::span<const TBlob> from,
            std::span<const OpReqType> req, std::span<const TBlob> to) {
  if (req[0] == kNullOp) return;
  struct Step {
    Adjustment adjust;
    double center, width;
  };
  const JitterParameters& param = call.param;
  std::array<Step, 4> steps = {{{ScaleBrightness, 1, static_cast<double>(param.brightness)},
                                {ScaleContrast, 1, static_cast<double>(param.contrast)},
                                {ScaleSaturation, 1, static_cast<double>(param.saturation)},
                                {TurnHue, 0, static_cast<double>(param.hue)}}};
  auto random = call.context.requested[0]->get_random<cpu>(nullptr);
  random.Shuffle(std::span<Step>(steps));
  const TBlob* source = &from[0];
  for (const Step& step : steps) {
    if (step.width == 0) continue;
    const double low = step.center - step.width, high = step.center + step.width;
    step.adjust(*source, DrawUniform(&random, low, high), to[0]);
    source = &to[0];
  }
  if (source == &from[0]) MoveFlat(from[0], to[0], req[0], call.context);
}

[[maybe_unused]] const bool kJitter = RegisterMove<RandomColorProperty<JitterParameters>>(
    TESSERA_TABLE_PLACE, "_image_random_color_jitter",
    "Images whose brightness, contrast, saturation and hue are changed at random.", Jitter,
    nullptr);

}  // namespace
}  // namespace tessera
