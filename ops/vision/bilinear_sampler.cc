// BilinearSampler: images read at the points of a grid, between pixels by linear interpolation.
//
//   out[n][c][p] = the sum over the four pixels around the point of weight * data[n][c][pixel]
//   d data = each gradient times the weights, to the pixels
//   d grid = the sum over the channels of g times the slope between the pixels
//
// The point (x, y) = grid[n][:][p] lies at column (x + 1) (width - 1) / 2 and row
// (y + 1) (height - 1) / 2. Pixels outside of the image are 0. Shapes: data (samples, channels,
// height, width), grid (samples, 2, out_height, out_width), out (samples, channels, out_height,
// out_width). Types: float32, float64, float16, bfloat16; the last two are computed in float32.
// Runs on the CPU.
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

struct BilinearSamplerParameters {
  std::optional<bool> cudnn_off;

  static void Declare(ParameterSchema<BilinearSamplerParameters>& schema) {
    schema.Optional("cudnn_off", &BilinearSamplerParameters::cudnn_off,
                    "accepted for old graphs; not used");
  }
};

class BilinearSamplerProperty final : public ParameterizedProperty<BilinearSamplerParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "grid"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &grid = (*in_shape)[1], &out = (*out_shape)[0];
    constexpr index_t kUnknown = TShape::kUnknown;
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    MergeShape(*this, "grid", &grid, {data[0], 2, kUnknown, kUnknown});
    MergeShape(*this, "output", &out, {grid[0], data[1], grid[2], grid[3]});
    MergeShape(*this, "data", &data, {out[0], out[1], kUnknown, kUnknown});
    MergeShape(*this, "grid", &grid, {out[0], 2, out[2], out[3]});
    return data.known() && grid.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
};

class BilinearSamplerOperator final : public Operator {
 public:
  explicit BilinearSamplerOperator(const BilinearSamplerParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> images(in_data[0]), grid(in_data[1]);
      SampleImages(Extents(in_data), images.data(), grid.data(), req[0], out_data[0]);
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
      const Elements<T> images(in_data[0]), grid(in_data[1]), g(out_grad[0]);
      ImageGradient(Extents(in_data), grid.data(), g.data(), req[0], in_grad[0]);
      GridGradient(Extents(in_data), images.data(), grid.data(), g.data(), req[1], in_grad[1]);
    });
  }

 private:
  static SamplingExtents Extents(std::span<const TBlob> in_data) {
    const TShape &data = in_data[0].shape_, &grid = in_data[1].shape_;
    return {.batch = data[0],
            .channels = data[1],
            .height = data[2],
            .width = data[3],
            .points = grid[2] * grid[3]};
  }
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<BilinearSamplerProperty, BilinearSamplerOperator>(
        TESSERA_TABLE_PLACE, "BilinearSampler", "Images read at the points of a grid.");

}  // namespace
}  // namespace tessera
