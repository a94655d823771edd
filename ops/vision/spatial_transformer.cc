// SpatialTransformer: images read at the points of an affine grid.
//
//   out = BilinearSampler(data, GridGenerator(loc, transform_type=affine)), with both gradients
//
// Shapes: data (samples, channels, height, width), loc (samples, 6), out (samples, channels,
// target_shape). Types: float32, float64, float16, bfloat16; the last two are computed in float32.
// Runs on the CPU. Jaderberg et al., Spatial Transformer Networks, 2015.
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/sampling.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: sampling and registration

enum class TransformType { kAffine };
enum class SamplerType { kBilinear };

struct SpatialTransformerParameters {
  TShape target_shape = {0, 0};
  TransformType transform_type = TransformType::kAffine;
  SamplerType sampler_type = SamplerType::kBilinear;
  std::optional<bool> cudnn_off;

  static void Declare(ParameterSchema<SpatialTransformerParameters>& schema) {
    using P = SpatialTransformerParameters;
    schema.Optional("target_shape", &P::target_shape, "(height, width) of the output");
    schema.Choice("transform_type", &P::transform_type, {{"affine", TransformType::kAffine}},
                  "the grid's form", /*required=*/true);
    schema.Choice("sampler_type", &P::sampler_type, {{"bilinear", SamplerType::kBilinear}},
                  "the interpolation", /*required=*/true);
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
  }
};

class SpatialTransformerProperty final
    : public ParameterizedProperty<SpatialTransformerParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "loc"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &loc = (*in_shape)[1], &out = (*out_shape)[0];
    constexpr index_t kUnknown = TShape::kUnknown;
    const index_t height = param_.target_shape[0], width = param_.target_shape[1];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    MergeShape(*this, "loc", &loc, {data[0], 6});
    MergeShape(*this, "output", &out, {loc[0], data[1], height, width});
    MergeShape(*this, "data", &data, {out[0], out[1], kUnknown, kUnknown});
    MergeShape(*this, "loc", &loc, {out[0], 6});
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }

 private:
  void CheckParameters() override {
    const TShape& target = param_.target_shape;
    bool valid = target.ndim() == 2;
    for (const index_t extent : target) valid = valid && extent >= 1 && extent <= (1 << 24);
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter target_shape=", target,
                            " must be a height and a width of at least 1");
    }
  }
};

class SpatialTransformerOperator final : public Operator {
 public:
  explicit SpatialTransformerOperator(const SpatialTransformerParameters& param)
      : height_(param.target_shape[0]), width_(param.target_shape[1]) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> images(in_data[0]);
      const std::vector<T> grid = Grid<T>(in_data[1]);
      SampleImages(Extents(in_data[0].shape_), images.data(), grid.data(), req[0], out_data[0]);
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (out_grad[0].shape_.Size() == 0) {
      for (size_t i = 0; i < 2; ++i) StoreZeros(req[i], in_grad[i]);
      return;
    }
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const SamplingExtents extents = Extents(in_data[0].shape_);
      const Elements<T> images(in_data[0]), g(out_grad[0]);
      const std::vector<T> grid = Grid<T>(in_data[1]);
      ImageGradient(extents, grid.data(), g.data(), req[0], in_grad[0]);
      if (req[1] == kNullOp) return;
      std::vector<T> grid_grad(grid.size());
      GridGradient(extents, images.data(), grid.data(), g.data(), kWriteTo,
                   Blob(grid_grad.data(), extents.batch));
      MatrixGradient(Affine(extents.batch), grid_grad.data(), req[1], in_grad[1]);
    });
  }

 private:
  SamplingExtents Extents(const TShape& data) const {
    return {.batch = data[0],
            .channels = data[1],
            .height = data[2],
            .width = data[3],
            .points = height_ * width_};
  }
  AffineExtents Affine(index_t batch) const {
    return {.batch = batch, .height = height_, .width = width_};
  }
  template <typename T>
  TBlob Blob(T* grid, index_t batch) const {
    return TBlob(grid, TShape{batch, 2, height_, width_}, DTypeOf<T>::value, Device::Cpu());
  }

  template <typename T>
  std::vector<T> Grid(const TBlob& loc) const {
    const index_t batch = loc.shape_[0];
    std::vector<T> grid(static_cast<size_t>(2 * batch * height_ * width_));
    AffineGrid(Affine(batch), Elements<T>(loc).data(), kWriteTo, Blob(grid.data(), batch));
    return grid;
  }

  const index_t height_, width_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<SpatialTransformerProperty, SpatialTransformerOperator>(
        TESSERA_TABLE_PLACE, "SpatialTransformer", "Images read at the points of an affine grid.");

}  // namespace
}  // namespace tessera
