#ifndef TESSERA_OPS_VISION_REGIONS_REGION_MEANS_H_
#define TESSERA_OPS_VISION_REGIONS_REGION_MEANS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/tblob.h"

/// Operators that compute weighted means of pixels over the cells of regions, on the CPU. T is
/// float or double.
namespace tessera::ops_internal {

/// The weights of an axis's pixels from `first` on.
template <typename T>
struct CellWeights {
  index_t first = 0;
  std::vector<T> weights{};

  /// Adds to the weight of a pixel, which is at least `first`.
  void Add(index_t pixel, T weight) {
    if (weights.empty()) first = pixel;
    const auto i = static_cast<size_t>(pixel - first);
    if (i >= weights.size()) weights.resize(i + 1, T(0));
    weights[i] += weight;
  }
};

/// A cell. A pixel's weight in it is that of its row times that of its column.
template <typename T>
struct Cell {
  const CellWeights<T>& rows;
  const CellWeights<T>& columns;

  /// Calls visit(pixel, weight) for each pixel of an image of this width.
  template <typename Visit>
  void ForEachPixel(index_t width, const Visit& visit) const {
    index_t line = rows.first * width + columns.first;
    for (const T of_row : rows.weights) {
      index_t pixel = line;
      for (const T of_column : columns.weights) visit(pixel++, of_row * of_column);
      line += width;
    }
  }
  /// Returns the sum of weight * pixel of an image.
  T SumOf(const T* image, index_t width) const {
    T sum = 0;
    ForEachPixel(width, [&](index_t pixel, T weight) { sum += weight * image[pixel]; });
    return sum;
  }
};

/// Memory for the rows and columns of a cell that is computed when it is needed.
template <typename T>
using CellMemory = std::array<CellWeights<T>, 2>;

/// Regions whose cells are the same in all channels and form a grid.
template <typename T>
class GridRegions {
 public:
  /// Adds a region of an image, or of none if `sample` is -1.
  void Add(index_t sample, std::vector<CellWeights<T>> rows, std::vector<CellWeights<T>> columns) {
    regions_.push_back({sample, std::move(rows), std::move(columns)});
  }

  index_t size() const { return static_cast<index_t>(regions_.size()); }
  index_t Sample(index_t r) const { return regions_[static_cast<size_t>(r)].sample; }
  Cell<T> CellOf(index_t r, index_t /*channel*/, size_t k, CellMemory<T>*) const {
    const Region& region = regions_[static_cast<size_t>(r)];
    const size_t columns = region.columns.size();
    return {region.rows[k / columns], region.columns[k % columns]};
  }

 private:
  struct Region {
    index_t sample;
    std::vector<CellWeights<T>> rows, columns;
  };
  std::vector<Region> regions_;
};

/// The channel that a cell reads: stride * (the output's channel) + of_cell[cell].
struct CellChannels {
  index_t stride = 1;
  std::vector<index_t> of_cell{};

  size_t NumCells() const { return of_cell.size(); }
};

/// The property of an operator of data (samples, channels, height, width) and rois (regions, …)
/// that is linear in data.
template <typename Parameters>
class RegionMeansProperty : public ParameterizedProperty<Parameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "rois"}; }
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

/// The means over the cells of regions, (regions, channels, rows, columns); 0 for a region without
/// image. Derived has
///
///     CellChannels Channels() const;
///     template <typename T>
///     Regions Locate(std::span<const TBlob> in_data, const TShape& data) const;
///
/// where `data` is the images' shape, and Regions has the members of GridRegions besides Add.
template <typename Derived, typename Parameters>
class RegionMeansOperator : public Operator {
 public:
  explicit RegionMeansOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const TShape& shape = in_data[0].shape_;
      WriteMeans(derived().template Locate<T>(in_data, shape), Elements<T>(in_data[0]).data(),
                 shape, req[0], out_data[0]);
    });
  }

  /// Computes the gradient of data.
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_grad[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(in_grad[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      WriteGradient(derived().template Locate<T>(in_data, in_grad[0].shape_),
                    Elements<T>(out_grad[0]).data(), out_grad[0].shape_[1], req[0], in_grad[0]);
    });
  }

 protected:
  const Parameters param_;

 private:
  const Derived& derived() const { return static_cast<const Derived&>(*this); }

  template <typename T, typename Regions>
  void WriteMeans(const Regions& regions, const T* images, const TShape& shape, OpReqType req,
                  const TBlob& out) const {
    const CellChannels channels = derived().Channels();
    const index_t out_channels = out.shape_[1], plane_size = shape[2] * shape[3];
    const auto cells = static_cast<index_t>(channels.NumCells());
    ParallelFor(
        out.shape_[0] * out_channels, StepsPerTask(plane_size + cells),
        [&](index_t begin, index_t end) {
          std::vector<T> line(channels.NumCells());
          CellMemory<T> memory;
          for (index_t i = begin; i < end; ++i) {
            const index_t r = i / out_channels, c = i % out_channels;
            const index_t sample = regions.Sample(r);
            std::fill(line.begin(), line.end(), T(0));
            for (size_t k = 0; k < line.size() && sample >= 0; ++k) {
              const index_t plane = sample * shape[1] + c * channels.stride + channels.of_cell[k];
              line[k] =
                  regions.CellOf(r, c, k, &memory).SumOf(images + plane * plane_size, shape[3]);
            }
            RowWriter<T>(out, req).Write(i * cells, cells, line.data());
          }
        });
  }

  /// Computes the images' gradient from that of the means, `g`.
  template <typename T, typename Regions>
  void WriteGradient(const Regions& regions, const T* g, index_t out_channels, OpReqType req,
                     const TBlob& grad) const {
    const CellChannels channels = derived().Channels();
    const TShape& shape = grad.shape_;
    const index_t plane_size = shape[2] * shape[3];
    const size_t cells = channels.NumCells();
    ParallelFor(shape[0] * shape[1], StepsPerTask(plane_size), [&](index_t begin, index_t end) {
      std::vector<T> sums(static_cast<size_t>(plane_size));
      CellMemory<T> memory;
      for (index_t plane = begin; plane < end; ++plane) {
        std::fill(sums.begin(), sums.end(), T(0));
        const index_t channel = plane % shape[1], c = channel / channels.stride;
        for (index_t r = 0; r < regions.size() && c < out_channels; ++r) {
          if (regions.Sample(r) != plane / shape[1]) continue;
          const T* const head = g + (r * out_channels + c) * static_cast<index_t>(cells);
          for (size_t k = 0; k < cells; ++k) {
            if (channels.of_cell[k] != channel % channels.stride) continue;
            regions.CellOf(r, c, k, &memory).ForEachPixel(shape[3], [&](index_t pixel, T weight) {
              sums[static_cast<size_t>(pixel)] += weight * head[k];
            });
          }
        }
        RowWriter<T>(grad, req).Write(plane * plane_size, plane_size, sums.data());
      }
    });
  }
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_REGIONS_REGION_MEANS_H_
