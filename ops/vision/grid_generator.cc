// GridGenerator: the points at which BilinearSampler reads images.
//
//   affine   (x', y') = A (x, y, 1) for the points that divide [-1, 1] x [-1, 1] evenly;
//            d A = sum over the points of g (x, y, 1)
//   warp     x' = (x + flow_x) / ((width - 1) / 2) - 1 for the pixels x = 0, 1, …, y' likewise;
//            d flow_x = g / ((width - 1) / 2)
//
// Shapes: affine data (samples, 6), the two rows of A, out (samples, 2, height, width) with
// target_shape = (height, width); warp data and out (samples, 2, height, width). An axis of one
// point has no scale, as in MXNet: its coordinates are not finite. Types: float32, float64,
// float16, bfloat16; the last two are computed in float32. Runs on the CPU.
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/sampling.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: sampling, rows and registration

struct GridGeneratorParameters {
  bool warp = false;
  TShape target_shape = {0, 0};

  static void Declare(ParameterSchema<GridGeneratorParameters>& schema) {
    using P = GridGeneratorParameters;
    schema.Choice("transform_type", &P::warp, {{"affine", false}, {"warp", true}},
                  "the data: affine maps, or the distance that each pixel moves",
                  /*required=*/true);
    schema.Optional("target_shape", &P::target_shape, "(height, width) of an affine grid");
  }
};

class GridGeneratorProperty final : public ParameterizedProperty<GridGeneratorParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    constexpr index_t kUnknown = TShape::kUnknown;
    if (param_.warp) {
      MergeShape(*this, "data", &data, {kUnknown, 2, kUnknown, kUnknown});
      MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
      return data.known();
    }
    const index_t height = param_.target_shape[0], width = param_.target_shape[1];
    MergeShape(*this, "data", &data, {kUnknown, 6});
    MergeShape(*this, "output", &out, {data[0], 2, height, width});
    MergeShape(*this, "data", &data, {out[0], 6});
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (!param_.warp) return BuildLinearGradient(*this, builder);
    // The map is linear but for a constant, which the difference takes away, and diagonal.
    const Term g(builder, builder->OutGrad(0));
    const auto generate = [this](const Term& flow) {
      return Apply(TypeString(), {flow}, GetParams());
    };
    SetInGrad(builder, 0, generate(g) - generate(Apply("zeros_like", {g})));
    return true;
  }

 private:
  void CheckParameters() override {
    if (param_.warp) return;
    const TShape& target = param_.target_shape;
    bool valid = target.ndim() == 2;
    for (const index_t extent : target) valid = valid && extent >= 1 && extent <= (1 << 24);
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter target_shape=", target,
                            " must be a height and a width of at least 1 for an affine grid");
    }
  }
};

class GridGeneratorOperator final : public Operator {
 public:
  explicit GridGeneratorOperator(const GridGeneratorParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      if (param_.warp) {
        return ScaleRows<T>(in_data[0], /*shifts=*/true, req[0], out_data[0]);
      }
      AffineGrid(Extents(out_data[0].shape_), Elements<T>(in_data[0]).data(), req[0], out_data[0]);
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      if (param_.warp) {
        return ScaleRows<T>(out_grad[0], /*shifts=*/false, req[0], in_grad[0]);
      }
      MatrixGradient(Extents(out_grad[0].shape_), Elements<T>(out_grad[0]).data(), req[0],
                     in_grad[0]);
    });
  }

 private:
  static AffineExtents Extents(const TShape& grid) {
    return {.batch = grid[0], .height = grid[2], .width = grid[3]};
  }

  /// Divides the rows of (samples, 2, height, width) by half the distance of x or y from its
  /// smallest to its largest. If `shifts`, first adds the pixel's own place, and then subtracts 1.
  template <typename T>
  static void ScaleRows(const TBlob& from, bool shifts, OpReqType req, const TBlob& to) {
    const TShape& shape = from.shape_;
    if (shape.Size() == 0) return;
    const index_t height = shape[2], width = shape[3];
    ParallelFor(shape[0] * 2 * height, StepsPerTask(width), [&](index_t begin, index_t end) {
      std::vector<T> line(static_cast<size_t>(width));
      T* const x = line.data();
      for (index_t row = begin; row < end; ++row) {
        RowReader<T>(from).Copy(row * width, width, x);
        const bool of_y = row / height % 2 == 1;
        const T half = static_cast<T>((of_y ? height : width) - 1) / 2;
        const T place = of_y ? static_cast<T>(row % height) : T(0), step = of_y ? T(0) : T(1);
        if (shifts) {
          ForEach(width, [=](index_t i) TESSERA_LOOP_BODY {
            x[i] = (x[i] + (place + step * static_cast<T>(i))) / half - 1;
          });
        } else {
          ForEach(width, [=](index_t i) TESSERA_LOOP_BODY { x[i] /= half; });
        }
        RowWriter<T>(to, req).Write(row * width, width, x);
      }
    });
  }

  const GridGeneratorParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<GridGeneratorProperty, GridGeneratorOperator>(
        TESSERA_TABLE_PLACE, "GridGenerator", "The points at which BilinearSampler reads images.");

}  // namespace
}  // namespace tessera
