// _contrib_AdaptiveAvgPooling2D: averages over a grid of windows that covers the image.
//
//   out[o] = the mean of data over rows [floor(o h / out_h), ceil((o + 1) h / out_h)), columns
//            likewise;   d data = each gradient / the window's size, to all its elements
//
// output_size is (height, width), or one number for both; 1 if left out. Shapes: data (samples,
// channels, height, width). Types: float32, float64, float16, bfloat16; the last two are computed
// in float32. Runs on the CPU.
#include <algorithm>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct AdaptiveAvgPoolingParameters {
  std::vector<int64_t> output_size;

  static void Declare(ParameterSchema<AdaptiveAvgPoolingParameters>& schema) {
    schema.Optional("output_size", &AdaptiveAvgPoolingParameters::output_size,
                    "(height, width), or one number for both; 1 if left out");
  }
};

class AdaptiveAvgPoolingProperty final
    : public ParameterizedProperty<AdaptiveAvgPoolingParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    const std::vector<int64_t>& size = param_.output_size;
    const index_t height = size.empty() ? 1 : size.front();
    const index_t width = size.empty() ? 1 : size.back();
    MergeShape(*this, "output", &out, {data[0], data[1], height, width});
    MergeShape(*this, "data", &data, {out[0], out[1], TShape::kUnknown, TShape::kUnknown});
    if (!data.known()) return false;
    if (data[2] * data[3] == 0 && data[0] * data[1] > 0) {
      throw InvalidArgument(TypeString(), ": data of shape ", data, " has no pixels to average");
    }
    return true;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override {
    const std::vector<int64_t>& size = param_.output_size;
    bool valid = size.size() <= 2;
    for (const int64_t extent : size) valid = valid && extent >= 1 && extent <= (1 << 24);
    if (!valid) {
      throw InvalidArgument(TypeString(), ": parameter output_size=",
                            ParameterText<std::vector<int64_t>>::Print(size),
                            " must be one or two extents of at least 1");
    }
  }
};

/// The elements [begin, end) that position o averages along an axis.
struct Range {
  Range(index_t o, index_t in, index_t out)
      : begin(o * in / out), end(((o + 1) * in + out - 1) / out) {}
  index_t size() const { return end - begin; }

  index_t begin, end;
};

class AdaptiveAvgPoolingOperator final : public Operator {
 public:
  explicit AdaptiveAvgPoolingOperator(const AdaptiveAvgPoolingParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_),
                    [&](auto one) { Average<decltype(one)>(in_data[0], req[0], out_data[0]); });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_),
                    [&](auto one) { Spread<decltype(one)>(out_grad[0], req[0], in_grad[0]); });
  }

 private:
  template <typename T>
  static void Average(const TBlob& data, OpReqType req, const TBlob& out) {
    const index_t height = data.shape_[2], width = data.shape_[3];
    const index_t out_height = out.shape_[2], out_width = out.shape_[3];
    const index_t rows = out.shape_[0] * out.shape_[1] * out_height;
    const index_t work = (height / out_height + 2) * width + out_width;
    ParallelFor(rows, StepsPerTask(work), [&](index_t begin, index_t end) {
      std::vector<T> scratch(static_cast<size_t>(2 * width + out_width));
      T* const sums = scratch.data();
      T* const row = sums + width;
      T* const line = row + width;
      for (index_t i = begin; i < end; ++i) {
        const Range y(i % out_height, height, out_height);
        const index_t image = i / out_height * height * width;
        std::fill_n(sums, width, T(0));
        for (index_t iy = y.begin; iy < y.end; ++iy) {
          RowReader<T>(data).Copy(image + iy * width, width, row);
          ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { sums[k] += row[k]; });
        }
        for (index_t o = 0; o < out_width; ++o) {
          const Range x(o, width, out_width);
          T sum = 0;
          for (index_t k = x.begin; k < x.end; ++k) sum += sums[k];
          line[o] = sum / static_cast<T>(y.size() * x.size());
        }
        RowWriter<T>(out, req).Write(i * out_width, out_width, line);
      }
    });
  }

  template <typename T>
  static void Spread(const TBlob& g, OpReqType req, const TBlob& grad) {
    const index_t height = grad.shape_[2], width = grad.shape_[3];
    const index_t out_height = g.shape_[2], out_width = g.shape_[3];
    const index_t work = 2 * height * width + out_height * (out_width + width);
    ParallelFor(
        grad.shape_[0] * grad.shape_[1], StepsPerTask(work), [&](index_t begin, index_t end) {
          std::vector<T> image(static_cast<size_t>(height * width)),
              row(static_cast<size_t>(width));
          std::vector<T> line(static_cast<size_t>(out_width));
          for (index_t plane = begin; plane < end; ++plane) {
            std::fill(image.begin(), image.end(), T(0));
            for (index_t i = 0; i < out_height; ++i) {
              const Range y(i, height, out_height);
              RowReader<T>(g).Copy((plane * out_height + i) * out_width, out_width, line.data());
              std::fill(row.begin(), row.end(), T(0));
              for (index_t o = 0; o < out_width; ++o) {
                const Range x(o, width, out_width);
                const T share = line[static_cast<size_t>(o)] / static_cast<T>(y.size() * x.size());
                for (index_t k = x.begin; k < x.end; ++k) row[static_cast<size_t>(k)] += share;
              }
              const T* const from = row.data();
              for (index_t iy = y.begin; iy < y.end; ++iy) {
                T* const to = image.data() + iy * width;
                ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { to[k] += from[k]; });
              }
            }
            RowWriter<T>(grad, req).Write(plane * height * width, height * width, image.data());
          }
        });
  }
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<AdaptiveAvgPoolingProperty, AdaptiveAvgPoolingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_AdaptiveAvgPooling2D",
        "Averages over a grid of windows that covers the image.");

}  // namespace
}  // namespace tessera
