// Correlation: the likeness of patches of two images, for each displacement between them
// (Fischer et al., FlowNet, 2015, section 3).
//
//   out[n][(j, i)][y][x] = mean over c, v, u of f(a[n][c][y' + v][x' + u],
//                                                b[n][c][y' + v + j][x' + u + i])
//   with f(a, b) = a b, or |a - b| without is_multiply, and y' = y stride1 + max_displacement - pad
//   d a = sum of g b / m,  d b = sum of g a / m   (m elements in a mean), or, without is_multiply,
//   d a = sum of g s / m,  d b = -(sum of g s) / m,  s = 1 if a >= b, else -1
//
// v and u count the kernel's rows and columns. The displacements j and i are the multiples of
// stride2 within max_displacement, rows first. Elements outside of the images are 0. Shapes: data1
// and data2 (samples, channels, height, width), out (samples, displacements, out_height, out_width)
// with out_height = ceil((height + 2 pad - 2 (max_displacement + (kernel - 1) / 2)) / stride1).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU.
#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration
using base_internal::At;

struct CorrelationParameters {
  int64_t kernel_size = 1;
  int64_t max_displacement = 1;
  int64_t stride1 = 1;
  int64_t stride2 = 1;
  int64_t pad_size = 0;
  bool is_multiply = true;

  static void Declare(ParameterSchema<CorrelationParameters>& schema) {
    using P = CorrelationParameters;
    constexpr double kMost = 1 << 15;  // keeps the lines that are read in memory
    schema.Optional("kernel_size", &P::kernel_size, "height and width of a patch, an odd number");
    schema.Range(1, kMost);
    schema.Optional("max_displacement", &P::max_displacement, "the largest displacement");
    schema.Range(0, kMost);
    schema.Optional("stride1", &P::stride1, "distance between the patches of data1");
    schema.Range(1, kMost);
    schema.Optional("stride2", &P::stride2, "distance between displacements");
    schema.Range(1, kMost);
    schema.Optional("pad_size", &P::pad_size, "zeros added on every side");
    schema.Range(0, kMost);
    schema.Optional("is_multiply", &P::is_multiply,
                    "whether elements are multiplied, not subtracted");
  }

  /// Returns the number of displacements on either side of 0 along an axis.
  index_t Radius() const { return max_displacement / stride2; }
  /// Returns the output's extent for the images' along an axis; below 1 if no patch fits.
  index_t OutExtent(index_t extent) const {
    const index_t inner = extent + 2 * pad_size - 2 * (max_displacement + (kernel_size - 1) / 2);
    return inner <= 0 ? 0 : (inner - 1) / stride1 + 1;
  }
};

class CorrelationProperty final : public ParameterizedProperty<CorrelationParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data1", "data2"}; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data1 = (*in_shape)[0], &data2 = (*in_shape)[1], &out = (*out_shape)[0];
    MergeShape(*this, "data1", &data1, TShape::OfRank(4));
    MergeEqualShapes(*this, {{"data1", &data1}, {"data2", &data2}});
    const index_t displacements = (2 * param_.Radius() + 1) * (2 * param_.Radius() + 1);
    MergeShape(*this, "output", &out,
               {data1[0], displacements, OutExtent(data1, 2), OutExtent(data1, 3)});
    data1[0] = data2[0] = out[0];
    return data1.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return param_.is_multiply && BuildBilinearGradient(*this, GetParams(), builder);
  }

 private:
  void CheckParameters() override {
    if (param_.kernel_size % 2 == 0) {
      throw InvalidArgument(TypeString(), ": parameter kernel_size=", param_.kernel_size,
                            " must be odd");
    }
  }

  index_t OutExtent(const TShape& data, int axis) const {
    constexpr index_t kMost = index_t{1} << 40;
    if (data[axis] == TShape::kUnknown) return TShape::kUnknown;
    const index_t extent = data[axis] > kMost ? 0 : param_.OutExtent(data[axis]);
    if (extent == 0) {
      throw InvalidArgument(
          TypeString(), ": data1 of shape ", data, " is too ",
          data[axis] > kMost ? "large" : "small", " for kernel_size=", param_.kernel_size,
          ", max_displacement=", param_.max_displacement, " and pad_size=", param_.pad_size);
    }
    return extent;
  }
};

/// The extents of a call, and the lines of the images that its patches lie on.
struct Geometry {
  Geometry(const CorrelationParameters& param, const TShape& data)
      : p(param),
        batch(data[0]),
        channels(data.Size() == 0 ? 0 : data[1]),
        height(data[2]),
        width(data[3]),
        radius(p.Radius()),
        steps(2 * radius + 1),
        out_height(p.OutExtent(height)),
        out_width(p.OutExtent(width)),
        first(p.max_displacement - p.pad_size),
        line1((out_width - 1) * p.stride1 + p.kernel_size),
        line2(line1 + 2 * radius * p.stride2) {}

  /// Returns the number of elements in a mean.
  double MeanSize() const {
    return static_cast<double>(p.kernel_size * p.kernel_size) *
           static_cast<double>(std::max<index_t>(1, channels));
  }
  index_t PlaneSize() const { return height * width; }
  /// Returns the number of products in `times` rows of the output for one channel, or a bound.
  index_t Work(index_t times) const {
    const double taps = static_cast<double>(p.kernel_size * p.kernel_size);
    const double sums = static_cast<double>(steps * steps) * static_cast<double>(out_width);
    return static_cast<index_t>(std::min(1e15, taps * sums * static_cast<double>(times)));
  }
  /// Returns whether rows of data1 and data2 add to the sums.
  bool Matters(index_t row1, index_t row2) const {
    return p.is_multiply ? Inside(row1) && Inside(row2) : Inside(row1) || Inside(row2);
  }
  bool Inside(index_t row) const { return row >= 0 && row < height; }

  const CorrelationParameters& p;
  index_t batch, channels, height, width;
  index_t radius, steps;
  index_t out_height, out_width;
  index_t first;         // the row and column of the first patch in data1
  index_t line1, line2;  // the elements of a row that a row of the output reads
};

/// Elements [begin, begin + count) of a row of a plane, of which [from, to) are inside.
struct RowPart {
  RowPart(const Geometry& g, index_t row, index_t begin, index_t count)
      : offset(row * g.width + begin) {
    if (!g.Inside(row)) return;
    from = std::clamp<index_t>(-begin, 0, count);
    to = std::clamp<index_t>(g.width - begin, from, count);
  }
  index_t offset;
  index_t from = 0, to = 0;
};

/// Reads a row, with zeros outside of the plane.
template <typename T>
void ReadLine(const T* plane, const RowPart& part, std::vector<T>* line) {
  std::fill(line->begin(), line->end(), T(0));
  for (index_t i = part.from; i < part.to; ++i) {
    (*line)[static_cast<size_t>(i)] = plane[part.offset + i];
  }
}
/// Adds a row to the plane, without what is outside.
template <typename T>
void AddLine(const std::vector<T>& line, const RowPart& part, T* plane) {
  for (index_t i = part.from; i < part.to; ++i) {
    plane[part.offset + i] += line[static_cast<size_t>(i)];
  }
}

/// Adds f(a[i * stride], b[i * stride]) to sums[i].
template <bool kMultiply, typename T>
void AddLikeness(const T* a, const T* b, index_t stride, index_t n, T* sums) {
  const auto add = [=](auto step) TESSERA_LOOP_BODY {
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      const T x = a[i * step], y = b[i * step];
      sums[i] += kMultiply ? x * y : x > y ? x - y : y - x;
    });
  };
  if (stride == 1) {
    add(std::integral_constant<index_t, 1>());
  } else {
    add(stride);
  }
}

/// Adds the gradients of a and b for the gradients g of their likenesses.
template <bool kMultiply, typename T>
void AddGradients(const T* g, const T* a, const T* b, index_t stride, index_t n, T* of_a, T* of_b) {
  const auto add = [=](auto step) TESSERA_LOOP_BODY {
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      const T x = a[i * step], y = b[i * step];
      if (kMultiply) {
        of_a[i * step] += g[i] * y;
        of_b[i * step] += g[i] * x;
      } else {
        const T signed_g = x >= y ? g[i] : -g[i];
        of_a[i * step] += signed_g;
        of_b[i * step] -= signed_g;
      }
    });
  };
  if (stride == 1) {
    add(std::integral_constant<index_t, 1>());
  } else {
    add(stride);
  }
}

class CorrelationOperator final : public Operator {
 public:
  explicit CorrelationOperator(const CorrelationParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      if (param_.is_multiply) {
        Correlate<true, T>(in_data, req[0], out_data[0]);
      } else {
        Correlate<false, T>(in_data, req[0], out_data[0]);
      }
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      if (param_.is_multiply) {
        Gradients<true, T>(out_grad[0], in_data, req, in_grad);
      } else {
        Gradients<false, T>(out_grad[0], in_data, req, in_grad);
      }
    });
  }

 private:
  /// A task takes rows of the output, each with all displacements.
  template <bool kMultiply, typename T>
  void Correlate(std::span<const TBlob> in_data, OpReqType req, const TBlob& out) const {
    const Geometry g(param_, in_data[0].shape_);
    const Elements<T> data1(in_data[0]), data2(in_data[1]);
    const index_t displacements = g.steps * g.steps, n = g.out_width;
    const index_t work = g.Work(g.channels);
    ParallelFor(g.batch * g.out_height, StepsPerTask(work), [&](index_t begin, index_t end) {
      std::vector<T> line1(At(g.line1)), line2(At(g.line2)), sums(At(displacements * n));
      for (index_t row = begin; row < end; ++row) {
        const index_t sample = row / g.out_height, y = row % g.out_height;
        std::fill(sums.begin(), sums.end(), T(0));
        for (index_t c = 0; c < g.channels; ++c) {
          const index_t plane = (sample * g.channels + c) * g.PlaneSize();
          ForEachPair(g, y, data1.data() + plane, data2.data() + plane, &line1, &line2,
                      [&](index_t j, index_t i) {
                        T* const to = sums.data() + (j * g.steps + i) * n;
                        const T* const b = line2.data() + i * param_.stride2;
                        for (index_t u = 0; u < param_.kernel_size; ++u) {
                          AddLikeness<kMultiply>(line1.data() + u, b + u, param_.stride1, n, to);
                        }
                      });
        }
        const T scale = static_cast<T>(1 / g.MeanSize());
        for (T& sum : sums) sum *= scale;
        for (index_t k = 0; k < displacements; ++k) {
          const index_t at = ((sample * displacements + k) * g.out_height + y) * n;
          RowWriter<T>(out, req).Write(at, n, sums.data() + k * n);
        }
      }
    });
  }

  /// A task takes planes of both images.
  template <bool kMultiply, typename T>
  void Gradients(const TBlob& out_grad, std::span<const TBlob> in_data,
                 std::span<const OpReqType> req, std::span<const TBlob> in_grad) const {
    const Geometry g(param_, in_data[0].shape_);
    const Elements<T> data1(in_data[0]), data2(in_data[1]), head(out_grad);
    const index_t displacements = g.steps * g.steps, n = g.out_width;
    const index_t work = g.Work(g.out_height);
    ParallelFor(g.batch * g.channels, StepsPerTask(work), [&](index_t begin, index_t end) {
      std::vector<T> line1(At(g.line1)), line2(At(g.line2)), grad1(At(g.line1)), grad2(At(g.line2));
      std::vector<T> planes[2];
      for (index_t plane = begin; plane < end; ++plane) {
        for (std::vector<T>& sums : planes) sums.assign(At(g.PlaneSize()), T(0));
        const index_t sample = plane / g.channels, at = plane * g.PlaneSize();
        for (index_t y = 0; y < g.out_height; ++y) {
          ForEachRowPair(g, y, [&](const RowPart& row1, const RowPart& row2, index_t j) {
            ReadLine(data1.data() + at, row1, &line1);
            ReadLine(data2.data() + at, row2, &line2);
            std::fill(grad1.begin(), grad1.end(), T(0));
            std::fill(grad2.begin(), grad2.end(), T(0));
            for (index_t i = 0; i < g.steps; ++i) {
              const index_t k = j * g.steps + i, shift = i * param_.stride2;
              const T* const of_out =
                  head.data() + ((sample * displacements + k) * g.out_height + y) * n;
              for (index_t u = 0; u < param_.kernel_size; ++u) {
                AddGradients<kMultiply>(of_out, line1.data() + u, line2.data() + shift + u,
                                        param_.stride1, n, grad1.data() + u,
                                        grad2.data() + shift + u);
              }
            }
            AddLine(grad1, row1, planes[0].data());
            AddLine(grad2, row2, planes[1].data());
          });
        }
        const T scale = static_cast<T>(1 / g.MeanSize());
        for (size_t k = 0; k < 2; ++k) {
          if (req[k] == kNullOp) continue;
          for (T& sum : planes[k]) sum *= scale;
          RowWriter<T>(in_grad[k], req[k]).Write(at, g.PlaneSize(), planes[k].data());
        }
      }
    });
  }

  /// Calls visit(row of data1, row of data2, j) for the rows that make row y of the output, with
  /// the number j of the displacement between them.
  template <typename Visit>
  void ForEachRowPair(const Geometry& g, index_t y, const Visit& visit) const {
    for (index_t v = 0; v < param_.kernel_size; ++v) {
      const index_t row1 = y * param_.stride1 + g.first + v;
      const RowPart part1(g, row1, g.first, g.line1);
      for (index_t j = 0; j < g.steps; ++j) {
        const index_t row2 = row1 + (j - g.radius) * param_.stride2;
        if (!g.Matters(row1, row2)) continue;
        visit(part1, RowPart(g, row2, g.first - g.radius * param_.stride2, g.line2), j);
      }
    }
  }

  /// Calls visit(j, i) for all displacements, with the rows of two planes in `line1` and `line2`.
  template <typename T, typename Visit>
  void ForEachPair(const Geometry& g, index_t y, const T* plane1, const T* plane2,
                   std::vector<T>* line1, std::vector<T>* line2, const Visit& visit) const {
    ForEachRowPair(g, y, [&](const RowPart& row1, const RowPart& row2, index_t j) {
      ReadLine(plane1, row1, line1);
      ReadLine(plane2, row2, line2);
      for (index_t i = 0; i < g.steps; ++i) visit(j, i);
    });
  }

  const CorrelationParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<CorrelationProperty, CorrelationOperator>(
        TESSERA_TABLE_PLACE, "Correlation", "The likeness of displaced patches of two images.");

}  // namespace
}  // namespace tessera
