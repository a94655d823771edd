// _contrib_DeformablePSROIPooling: means over the cells into which regions of images are divided,
// each cell of a channel of its own and moved by an offset, of values between pixels by linear
// interpolation.
//
//   out[r][c][i][j] = the mean over the points (y, x) of cell (i, j) of data[sample][(c, i', j')]
//   y = top + (i + a / sample_per_part) height / pooled_size
//       + trans_std height trans[r][(k, 1)][i''][j''],  a in [0, sample_per_part)
//   x = left + (j + b / sample_per_part) width / pooled_size
//       + trans_std width trans[r][(k, 0)][i''][j''],  b in [0, sample_per_part)
//   d data = each gradient times the points' weights / the number of points, to the pixels
//   d trans = the sum over the cells and channels that read it of the gradient times trans_std
//             times the region's size times the mean of the slopes between the pixels
//
// Cells are grouped by group_size, i' = i group_size / pooled_size, and offsets by part_size,
// i'' = i part_size / pooled_size, both rounded down. k = c classes / output_dim is the channel's
// class. A row of rois is (sample, left, top, right, bottom); coordinates are rounded, both corners
// belong to the region, spatial_scale takes it to the data's pixels, and pixel 0 begins at -0.5. A
// region is at least 0.1 pixels high and wide. Points more than half a pixel outside do not count;
// a cell without points is 0. A region of a negative sample gives 0; a sample that data does not
// have throws Error(kOutOfRange). With no_trans, there is no argument trans and no offset. rois
// have no gradient. Shapes: data (samples, channels, height, width) with at least output_dim
// group_size^2 channels, rois (regions, 5), trans (regions, 2 classes, part_size, part_size), out
// (regions, output_dim, pooled_size, pooled_size). Types: float32, float64, float16, bfloat16; the
// last two are computed in float32. Runs on the CPU. Dai et al., Deformable Convolutional Networks,
// 2017, section 2.2.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/position_sensitive.h"
#include "tessera/ops/vision/regions/region_means.h"
#include "tessera/ops/vision/regions/regions.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: regions and registration

struct DeformablePsRoiPoolingParameters : PositionSensitiveParameters {
  int64_t part_size = 0;
  int64_t sample_per_part = 1;
  float trans_std = 0;
  bool no_trans = false;

  static void Declare(ParameterSchema<DeformablePsRoiPoolingParameters>& schema) {
    using P = DeformablePsRoiPoolingParameters;
    DeclareShared(schema);
    schema.Required<int64_t>("group_size", &P::group_size,
                             "rows and columns of cells with channels of their own");
    schema.Range(1, 1 << 12);
    schema.Optional("part_size", &P::part_size,
                    "rows and columns of cells with offsets of their own; 0: all");
    schema.Range(0, 1 << 12);
    schema.Optional("sample_per_part", &P::sample_per_part, "points of a cell along an axis");
    schema.Range(1, 1 << 10);
    schema.Optional("trans_std", &P::trans_std,
                    "the factor of the offsets, which are in units of the region's size");
    schema.Range(0, 1);
    schema.Optional("no_trans", &P::no_trans, "leave the offsets out");
  }
  index_t Parts() const { return part_size > 0 ? part_size : pooled_size; }
};

class DeformablePsRoiPoolingProperty final
    : public RegionMeansProperty<DeformablePsRoiPoolingParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.no_trans) return {"data", "rois"};
    return {"data", "rois", "trans"};
  }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape* const out = &(*out_shape)[0];
    if (param_.no_trans) return InferPositionSensitive(*this, param_, in_shape, out);
    TShape &rois = (*in_shape)[1], &trans = (*in_shape)[2];
    constexpr index_t kUnknown = TShape::kUnknown;
    const index_t parts = param_.Parts();
    MergeShape(*this, "trans", &trans, {kUnknown, kUnknown, parts, parts});
    MergeShape(*this, "rois", &rois, {trans[0], kUnknown});
    const bool known = InferPositionSensitive(*this, param_, in_shape, out);
    MergeShape(*this, "trans", &trans, {rois[0], kUnknown, parts, parts});
    const index_t offsets = trans[1];
    const bool divides = offsets == kUnknown || (offsets > 0 && offsets % 2 == 0 &&
                                                 param_.output_dim % (offsets / 2) == 0);
    if (!divides) {
      throw InvalidArgument(
          TypeString(), ": trans has shape ", trans, ", expected two channels for",
          " each class, and a number of classes that divides output_dim=", param_.output_dim);
    }
    return known && trans.known();
  }
  bool ArgumentHasGradient(int argument) const override { return argument != 1; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    if (param_.no_trans) return {out_grad[0], in_data[1]};
    return {out_grad[0], in_data[0], in_data[1], in_data[2]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return param_.no_trans && RegionMeansProperty::BuildGradient(builder);
  }
};

/// The number that WeighPoints sums for each pixel.
enum class PointWeight {
  kValue,  ///< its weight in the mean
  kSlope,  ///< the weight's derivative by the points' position
};

/// Computes weights of the pixels around `count` points from `first` on, `step` apart.
template <typename T>
void WeighPoints(T first, T step, index_t count, index_t extent, PointWeight kind,
                 CellWeights<T>* cell) {
  cell->weights.clear();
  const T last = static_cast<T>(extent) - T(0.5);
  index_t inside = 0;
  for (index_t i = 0; i < count; ++i) {
    T place = first + static_cast<T>(i) * step;
    if (extent == 0 || !(place >= T(-0.5) && place <= last)) continue;  // NaN is outside
    ++inside;
    place = std::max(place, T(0));
    const index_t pixel = std::min(static_cast<index_t>(place), extent - 1);
    const T rest = pixel == extent - 1 ? T(0) : place - static_cast<T>(pixel);
    if (kind == PointWeight::kValue) cell->Add(pixel, 1 - rest);
    if (rest == 0) continue;
    if (kind == PointWeight::kSlope) cell->Add(pixel, T(-1));
    cell->Add(pixel + 1, kind == PointWeight::kValue ? rest : T(1));
  }
  for (T& weight : cell->weights) weight /= static_cast<T>(inside);
}

/// Regions whose cells are moved in each class of channels.
template <typename T>
class MovedRegions {
 public:
  using Parameters = DeformablePsRoiPoolingParameters;

  MovedRegions(const Parameters& param, std::span<const TBlob> in_data, const TShape& data)
      : p_(param), extents_{data[2], data[3]} {
    const T scale = static_cast<T>(p_.spatial_scale);
    for (const Region<T>& r : ReadRegions<T>(in_data[1], data[0], 1)) {
      const auto axis = [scale](T first, T last) {
        const T begin = std::round(first) * scale - T(0.5);
        return Axis{begin, std::max((std::round(last) + 1) * scale - T(0.5) - begin, T(0.1))};
      };
      regions_.push_back({r.sample, {axis(r.top, r.bottom), axis(r.left, r.right)}});
    }
    if (p_.no_trans) return;
    trans_.emplace(in_data[2]);
    classes_ = in_data[2].shape_[1] / 2;
  }

  index_t size() const { return static_cast<index_t>(regions_.size()); }
  index_t Sample(index_t r) const { return regions_[static_cast<size_t>(r)].sample; }
  Cell<T> CellOf(index_t r, index_t channel, size_t k, CellMemory<T>* memory) const {
    return CellOf(r, channel, k, {PointWeight::kValue, PointWeight::kValue}, memory);
  }
  /// Returns the cell's rows and columns with these weights.
  Cell<T> CellOf(index_t r, index_t channel, size_t k, std::array<PointWeight, 2> kinds,
                 CellMemory<T>* memory) const {
    const auto cell = static_cast<index_t>(k);
    for (const size_t a : {0, 1}) {
      const index_t position = a == 0 ? cell / p_.pooled_size : cell % p_.pooled_size;
      const Axis& axis = regions_[static_cast<size_t>(r)].axes[a];
      const T size = axis.length / static_cast<T>(p_.pooled_size);
      T first = static_cast<T>(position) * size + axis.begin;
      if (trans_) first += trans_->data()[OffsetOf(r, channel, cell, a)] * Factor(r, a);
      WeighPoints(first, size / static_cast<T>(p_.sample_per_part), p_.sample_per_part, extents_[a],
                  kinds[a], &(*memory)[a]);
    }
    return {(*memory)[0], (*memory)[1]};
  }

  /// Returns the position in trans of a cell's offset along an axis, 0 for y and 1 for x.
  index_t OffsetOf(index_t r, index_t channel, index_t cell, size_t axis) const {
    const index_t parts = p_.Parts(), size = p_.pooled_size;
    const index_t row = cell / size * parts / size, column = cell % size * parts / size;
    const index_t plane = 2 * (r * classes_ + channel * classes_ / p_.output_dim);
    return ((plane + (axis == 0 ? 1 : 0)) * parts + row) * parts + column;
  }
  /// Returns the factor of an offset along an axis.
  T Factor(index_t r, size_t axis) const {
    return static_cast<T>(p_.trans_std) * regions_[static_cast<size_t>(r)].axes[axis].length;
  }

 private:
  struct Axis {
    T begin, length;
  };
  struct Place {
    index_t sample;
    std::array<Axis, 2> axes;  // y, x
  };

  const Parameters& p_;
  const std::array<index_t, 2> extents_;
  std::vector<Place> regions_;
  std::optional<Elements<T>> trans_;
  index_t classes_ = 1;
};

class DeformablePsRoiPoolingOperator final
    : public RegionMeansOperator<DeformablePsRoiPoolingOperator, DeformablePsRoiPoolingParameters> {
 public:
  using RegionMeansOperator::RegionMeansOperator;

  CellChannels Channels() const { return param_.Channels(); }

  template <typename T>
  MovedRegions<T> Locate(std::span<const TBlob> in_data, const TShape& data) const {
    return MovedRegions<T>(param_, in_data, data);
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    RegionMeansOperator::Backward(context, out_grad, in_data, out_data, req, in_grad);
    if (param_.no_trans || req[2] == kNullOp || in_grad[2].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(in_grad[2].type_flag_), [&](auto one) {
      WriteTransGradient<decltype(one)>(out_grad[0], in_data, req[2], in_grad[2]);
    });
  }

 private:
  template <typename T>
  void WriteTransGradient(const TBlob& out_grad, std::span<const TBlob> in_data, OpReqType req,
                          const TBlob& grad) const {
    const TShape& shape = in_data[0].shape_;
    const MovedRegions<T> regions = Locate<T>(in_data, shape);
    const Elements<T> images(in_data[0]), g(out_grad);
    const CellChannels channels = Channels();
    const auto cells = static_cast<index_t>(channels.NumCells());
    const index_t size = grad.shape_[1] * grad.shape_[2] * grad.shape_[3];  // of a region
    ParallelFor(regions.size(), StepsPerTask(param_.output_dim * cells, kCost),
                [&](index_t begin, index_t end) {
                  std::vector<T> sums(static_cast<size_t>(size));
                  for (index_t r = begin; r < end; ++r) {
                    std::fill(sums.begin(), sums.end(), T(0));
                    const T* const head = g.data() + r * param_.output_dim * cells;
                    AddSlopes(regions, r, channels, images.data(), shape, head, sums.data());
                    RowWriter<T>(grad, req).Write(r * size, size, sums.data());
                  }
                });
  }

  /// Adds the gradients of a region's offsets from those of its means, `head`.
  template <typename T>
  void AddSlopes(const MovedRegions<T>& regions, index_t r, const CellChannels& channels,
                 const T* images, const TShape& shape, const T* head, T* sums) const {
    const index_t first = regions.OffsetOf(r, 0, 0, /*axis=*/1);
    CellMemory<T> memory;
    for (index_t c = 0; c < param_.output_dim && regions.Sample(r) >= 0; ++c) {
      for (size_t k = 0; k < channels.NumCells(); ++k, ++head) {
        const index_t plane =
            regions.Sample(r) * shape[1] + c * channels.stride + channels.of_cell[k];
        const T* const image = images + plane * shape[2] * shape[3];
        for (const size_t axis : {0, 1}) {
          std::array<PointWeight, 2> kinds = {PointWeight::kValue, PointWeight::kValue};
          kinds[axis] = PointWeight::kSlope;
          const T slope = regions.CellOf(r, c, k, kinds, &memory).SumOf(image, shape[3]);
          const index_t offset = regions.OffsetOf(r, c, static_cast<index_t>(k), axis) - first;
          sums[offset] += *head * slope * regions.Factor(r, axis);
        }
      }
    }
  }

  static constexpr index_t kCost = 64;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<DeformablePsRoiPoolingProperty, DeformablePsRoiPoolingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_DeformablePSROIPooling",
        "Means over the moved cells of regions, each cell of its own channel.");

}  // namespace
}  // namespace tessera
