// _contrib_PSROIPooling: means over the cells into which regions of images are divided, each cell
// of a channel of its own (position-sensitive pooling).
//
//   out[r][c][i][j] = the mean of data[sample][(c, i', j')] over the pixels of cell (i, j), 0 if it
//   has none;   d data = each gradient / the number of the cell's pixels, to all of them
//
// Cells are grouped by group_size: i' = i group_size / pooled_size, rounded down. A row of rois is
// (sample, left, top, right, bottom); coordinates are rounded, both corners belong to the region,
// and spatial_scale takes it to the data's pixels. A region is at least 0.1 pixels high and wide. A
// region of a negative sample gives 0; a sample that data does not have throws Error(kOutOfRange).
// rois have no gradient. Shapes: data (samples, channels, height, width) with at least output_dim
// group_size^2 channels, rois (regions, 5), out (regions, output_dim, pooled_size, pooled_size).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU. Dai et al., R-FCN, 2016, section 2.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/norm/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/elements.h"
#include "tessera/ops/vision/regions/region_means.h"
#include "tessera/ops/vision/regions/regions.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: regions and registration

struct PsRoiPoolingParameters {
  float spatial_scale = 1;
  int64_t output_dim = 1;
  int64_t pooled_size = 1;
  int64_t group_size = 0;

  static void Declare(ParameterSchema<PsRoiPoolingParameters>& schema) {
    using P = PsRoiPoolingParameters;
    schema.Required("spatial_scale", &P::spatial_scale,
                    "the factor from the regions' coordinates to the data's");
    schema.Range(0, 1);
    schema.Required("output_dim", &P::output_dim, "channels of the output");
    schema.Range(1, 1 << 20);
    schema.Required("pooled_size", &P::pooled_size, "rows and columns of cells");
    schema.Range(1, 1 << 12);
    schema.Optional("group_size", &P::group_size,
                    "rows and columns of cells with channels of their own; 0: all");
    schema.Range(0, 1 << 12);
  }
  index_t Groups() const { return group_size > 0 ? group_size : pooled_size; }
};

class PsRoiPoolingProperty final : public ParameterizedProperty<PsRoiPoolingParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "rois"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &rois = (*in_shape)[1], &out = (*out_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    MergeShape(*this, "rois", &rois, {TShape::kUnknown, 5});
    const index_t least = param_.output_dim * param_.Groups() * param_.Groups();
    if (data[1] != TShape::kUnknown && data[1] < least) {
      throw InvalidArgument(TypeString(), ": data of shape ", data, " has ", data[1],
                            " channels, expected at least ", least,
                            " for output_dim=", param_.output_dim, " and ", param_.Groups(),
                            " groups an axis");
    }
    MergeShape(*this, "output", &out,
               {rois[0], param_.output_dim, param_.pooled_size, param_.pooled_size});
    MergeShape(*this, "rois", &rois, {out[0], 5});
    return data.known() && rois.known();
  }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[1]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }
};

/// Returns the weights of the pixels of each of `count` cells of [begin, end) in `extent` pixels.
template <typename T>
std::vector<CellWeights<T>> WeighCells(T begin, T end, index_t count, index_t extent) {
  const T size = std::max(end - begin, T(0.1)) / static_cast<T>(count);
  // NaN gives no pixels.
  const auto pixel = [extent](T x) {
    return x > 0 ? static_cast<index_t>(std::min(x, static_cast<T>(extent))) : index_t{0};
  };
  std::vector<CellWeights<T>> cells(static_cast<size_t>(count));
  for (index_t i = 0; i < count; ++i) {
    const index_t first = pixel(std::floor(static_cast<T>(i) * size + begin));
    const index_t last = pixel(std::ceil(static_cast<T>(i + 1) * size + begin));
    if (last <= first) continue;
    CellWeights<T>& cell = cells[static_cast<size_t>(i)];
    cell.first = first;
    cell.weights.assign(static_cast<size_t>(last - first), 1 / static_cast<T>(last - first));
  }
  return cells;
}

class PsRoiPoolingOperator final : public Operator {
 public:
  explicit PsRoiPoolingOperator(const PsRoiPoolingParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& shape = in_data[0].shape_;
      RegionMeans(Weigh<T>(in_data[1], shape), Channels(), Elements<T>(in_data[0]).data(), shape,
                  req[0], out_data[0]);
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(in_grad[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      RegionMeansGradient(Weigh<T>(in_data[1], in_grad[0].shape_), Channels(),
                          Elements<T>(out_grad[0]).data(), param_.output_dim, req[0], in_grad[0]);
    });
  }

 private:
  CellChannels Channels() const {
    const index_t groups = param_.Groups(), size = param_.pooled_size;
    CellChannels channels{.stride = groups * groups};
    for (index_t i = 0; i < size; ++i) {
      for (index_t j = 0; j < size; ++j) {
        channels.of_cell.push_back(i * groups / size * groups + j * groups / size);
      }
    }
    return channels;
  }

  template <typename T>
  std::vector<WeightedRegion<T>> Weigh(const TBlob& rois, const TShape& data) const {
    const T scale = static_cast<T>(param_.spatial_scale);
    std::vector<WeightedRegion<T>> regions;
    for (const Region<T>& r : ReadRegions<T>(rois, data[0], 1)) {
      const auto weigh = [&](T first, T last, index_t extent) {
        return WeighCells<T>(std::round(first) * scale, (std::round(last) + 1) * scale,
                             param_.pooled_size, extent);
      };
      regions.push_back(
          {r.sample, weigh(r.top, r.bottom, data[2]), weigh(r.left, r.right, data[3])});
    }
    return regions;
  }

  const PsRoiPoolingParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<PsRoiPoolingProperty, PsRoiPoolingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_PSROIPooling",
        "Means over the cells of regions, each cell of its own channel.");

}  // namespace
}  // namespace tessera
