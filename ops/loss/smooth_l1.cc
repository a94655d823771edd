// smooth_l1: the absolute value, rounded by a parabola near 0.
//
//   out = (s x)^2 / 2 if |x| < 1 / s^2, else |x| - 1 / (2 s^2)
//   d data = s^2 x, limited to [-1, 1];  s is `scalar`
//
// Shapes: any; out like data. Types: float32, float64, float16, bfloat16, and integers, of which
// the result is truncated.
#include "tessera/ops/loops/formula_property.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the map driver

struct SmoothL1Parameters {
  double scalar = 1;

  static void Declare(ParameterSchema<SmoothL1Parameters>& schema) {
    schema.Optional("scalar", &SmoothL1Parameters::scalar,
                    "the root of the slope of the gradient at 0");
  }
};

struct SmoothL1 {
  template <typename T>
  TESSERA_HD static T Map(T x, T slope) {
    const T magnitude = x < T(0) ? -x : x;
    // Times the slope first: the square of a large x overflows.
    return magnitude * slope < T(1) ? T(0.5) * x * (x * slope) : magnitude - T(0.5) / slope;
  }
};
struct SmoothL1Gradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x, T slope) {
    const T scaled = x * slope;
    return scaled > T(1) ? g : scaled < T(-1) ? -g : g * scaled;
  }
};

const MapFunction kSmoothL1 = MakeMapFunction<SmoothL1, 2>();
const MapFunction kSmoothL1Gradient = MakeMapFunction<SmoothL1Gradient, 3>();

class SmoothL1Operator final : public Operator {
 public:
  explicit SmoothL1Operator(const SmoothL1Parameters& param)
      : slope_(param.scalar * param.scalar) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    MapCall(out_data[0], req[0]).Add(in_data[0]).Add(slope_).Run(kSmoothL1, context);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    MapCall(in_grad[0], req[0])
        .Add(out_grad[0])
        .Add(in_data[0])
        .Add(slope_)
        .Run(kSmoothL1Gradient, context);
  }

 private:
  const double slope_;
};

/// The gradient as a graph.
Term SmoothL1Graph(const SmoothL1Parameters& param, const Term& g, const Term& x, const Term&) {
  return g * Apply("clip", {x * (param.scalar * param.scalar)}, {{"a_min", "-1"}, {"a_max", "1"}});
}

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<FormulaProperty<SmoothL1Parameters, GradientOf::kInput, SmoothL1Graph>,
                          SmoothL1Operator>(TESSERA_TABLE_PLACE, "smooth_l1",
                                            "The absolute value, rounded by a parabola near 0.",
                                            TakenTypes::kAny);

}  // namespace
}  // namespace tessera
