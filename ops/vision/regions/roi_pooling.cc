// ROIPooling: the largest elements of the cells into which regions of images are divided.
//
//   out[r][c][i][j] = max of data[sample][c][y][x] over the pixels of cell (i, j), 0 if it has none
//   d data = each gradient, to the first largest element of its cell
//
// A row of rois is (sample, left, top, right, bottom) in coordinates that spatial_scale takes to
// pixels; both corners are rounded and belong to the region. Its cells have equal sizes and, with
// their bounds rounded outwards, may overlap. A region of a negative sample gives 0; a sample that
// data does not have throws Error(kOutOfRange). rois have no gradient. Shapes: data (samples,
// channels, height, width), rois (regions, 5), out (regions, channels, pooled_size). Types:
// float32, float64, float16, bfloat16. Runs on the CPU. Girshick, Fast R-CNN, 2015, section 2.1.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/regions/regions.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: regions and registration

class RoiPoolingProperty final : public ParameterizedProperty<RegionParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "rois"}; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferRegions(*this, param_.pooled_size, 1, in_shape, &(*out_shape)[0]);
  }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }

 private:
  void CheckParameters() override { param_.Check(TypeString()); }
};

/// Pixels [begin, end) of an axis.
struct Range {
  index_t begin, end;
};

/// The pixels of a region's cells along both axes.
struct Cells {
  index_t sample;
  std::vector<Range> rows, columns;
};

/// Returns a number as an index, within a bound that keeps sums of two in range. NaN is low.
template <typename T>
index_t BoundedIndex(T x) {
  constexpr T kMost = T(index_t{1} << 40);
  return static_cast<index_t>(x > -kMost ? std::min(x, kMost) : -kMost);
}

/// Divides the pixels from `first` to `last`, as far as they are inside of `extent`.
template <typename T>
std::vector<Range> Divide(T first, T last, index_t count, index_t extent) {
  const index_t start = BoundedIndex(std::round(first));
  const index_t length = std::max<index_t>(BoundedIndex(std::round(last)) - start + 1, 1);
  const T size = static_cast<T>(length) / static_cast<T>(count);
  std::vector<Range> cells;
  for (index_t i = 0; i < count; ++i) {
    const index_t begin = BoundedIndex(std::floor(static_cast<T>(i) * size)) + start;
    const index_t end = BoundedIndex(std::ceil(static_cast<T>(i + 1) * size)) + start;
    cells.push_back({std::clamp<index_t>(begin, 0, extent), std::clamp<index_t>(end, 0, extent)});
  }
  return cells;
}

class RoiPoolingOperator final : public Operator {
 public:
  explicit RoiPoolingOperator(const RegionParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    const TBlob& out = out_data[0];
    VisitComputedIn(ComputedInReal(out.type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& shape = in_data[0].shape_;
      const Elements<T> data(in_data[0]);
      const std::vector<Cells> regions = Regions<T>(in_data[1], shape);
      const index_t channels = shape[1], plane_size = shape[2] * shape[3];
      const index_t size = Size();
      ParallelFor(out.shape_[0] * channels, StepsPerTask(plane_size + size),
                  [&](index_t begin, index_t end) {
                    std::vector<T> line(static_cast<size_t>(size));
                    for (index_t i = begin; i < end; ++i) {
                      const Cells& cells = regions[static_cast<size_t>(i / channels)];
                      const index_t sample = std::max<index_t>(cells.sample, 0);
                      const index_t plane = sample * channels + i % channels;
                      const T* const pixels = data.data() + plane * plane_size;
                      ForEachMaximum(cells, pixels, shape[3], [&](index_t k, index_t at) {
                        line[static_cast<size_t>(k)] = at < 0 ? T(0) : pixels[at];
                      });
                      RowWriter<T>(out, req[0]).Write(i * size, size, line.data());
                    }
                  });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    const TBlob& grad = in_grad[0];
    VisitComputedIn(ComputedInReal(grad.type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& shape = grad.shape_;
      const Elements<T> data(in_data[0]), g(out_grad[0]);
      const std::vector<Cells> regions = Regions<T>(in_data[1], shape);
      const index_t channels = shape[1], plane_size = shape[2] * shape[3];
      ParallelFor(shape[0] * channels, StepsPerTask(plane_size), [&](index_t begin, index_t end) {
        std::vector<T> sums(static_cast<size_t>(plane_size));
        for (index_t plane = begin; plane < end; ++plane) {
          std::fill(sums.begin(), sums.end(), T(0));
          for (size_t r = 0; r < regions.size(); ++r) {
            if (regions[r].sample != plane / channels) continue;
            const T* const head =
                g.data() + (static_cast<index_t>(r) * channels + plane % channels) * Size();
            ForEachMaximum(regions[r], data.data() + plane * plane_size, shape[3],
                           [&](index_t k, index_t at) {
                             if (at >= 0) sums[static_cast<size_t>(at)] += head[k];
                           });
          }
          RowWriter<T>(grad, req[0]).Write(plane * plane_size, plane_size, sums.data());
        }
      });
    });
  }

 private:
  index_t Size() const { return param_.pooled_size[0] * param_.pooled_size[1]; }

  template <typename T>
  std::vector<Cells> Regions(const TBlob& rois, const TShape& data) const {
    std::vector<Cells> regions;
    for (const Region<T>& r : ReadRegions<T>(rois, data[0], param_.spatial_scale)) {
      regions.push_back({r.sample, Divide(r.top, r.bottom, param_.pooled_size[0], data[2]),
                         Divide(r.left, r.right, param_.pooled_size[1], data[3])});
    }
    return regions;
  }

  /// Calls visit(cell, its first largest pixel, or -1 if it has none) for each cell.
  template <typename T, typename Visit>
  static void ForEachMaximum(const Cells& cells, const T* pixels, index_t width,
                             const Visit& visit) {
    index_t k = 0;
    for (const Range& rows : cells.rows) {
      for (const Range& columns : cells.columns) {
        index_t at = -1;
        for (index_t y = rows.begin; y < rows.end && cells.sample >= 0; ++y) {
          for (index_t x = columns.begin; x < columns.end; ++x) {
            if (at < 0 || pixels[y * width + x] > pixels[at]) at = y * width + x;
          }
        }
        visit(k++, at);
      }
    }
  }

  const RegionParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<RoiPoolingProperty, RoiPoolingOperator>(
        TESSERA_TABLE_PLACE, "ROIPooling", "The largest elements of the cells of regions.");

}  // namespace
}  // namespace tessera
