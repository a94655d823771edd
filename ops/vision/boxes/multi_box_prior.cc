// _contrib_MultiBoxPrior: anchors around each place of a feature map (Liu et al. 2016, section
// 2.2).
//
//   output[0][(y * width + x) * anchors + a] = (cx - w, cy - h, cx + w, cy + h)
//     cx = (x + offsets[1]) * steps[1], cy = (y + offsets[0]) * steps[0]
//     w = size * sqrt(ratio) * height / width / 2, h = size / sqrt(ratio) / 2
//
// A place has one anchor for each size with the first ratio, then one for each further ratio with
// the first size. Steps that are not positive are 1 / height and 1 / width. With clip, corners are
// limited to [0, 1]. The gradient of data is 0. Shapes: data (batch, channel, height, width),
// output (1, height * width * anchors, 4). Types: float32, float64, float16, bfloat16; the last two
// are computed in float32. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/zero_gradient.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: registration

struct MultiBoxPriorParameters {
  std::vector<float> sizes = {1};
  std::vector<float> ratios = {1};
  bool clip = false;
  std::vector<float> steps = {-1, -1};
  std::vector<float> offsets = {0.5f, 0.5f};

  static void Declare(ParameterSchema<MultiBoxPriorParameters>& schema) {
    using P = MultiBoxPriorParameters;
    schema.Optional("sizes", &P::sizes, "the anchors' sizes, as parts of the image's height");
    schema.Optional("ratios", &P::ratios, "the anchors' ratios of width to height");
    schema.Optional("clip", &P::clip, "whether corners are limited to [0, 1]");
    schema.Optional("steps", &P::steps,
                    "distances of the anchors' centres: (y, x); by default the image's divided by "
                    "the map's size");
    schema.Optional("offsets", &P::offsets, "the first centre in units of the steps: (y, x)");
  }
  index_t Anchors() const { return static_cast<index_t>(sizes.size() + ratios.size() - 1); }
};

class MultiBoxPriorProperty final : public ZeroGradientProperty<MultiBoxPriorParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    const index_t boxes =
        ProductOfExtents(*this, "data", {data[2], data[3], param_.Anchors()}, 0, 3);
    MergeShape(*this, "output", &out, {1, boxes, 4});
    return data.known() && out.known();
  }

 private:
  void CheckParameters() override {
    const auto check = [this](bool fits, const char* name, const std::vector<float>& given,
                              const char* expected) {
      if (fits) return;
      throw InvalidArgument(TypeString(), ": ", name, "=",
                            ParameterText<std::vector<float>>::Print(given), ", expected ",
                            expected);
    };
    check(!param_.sizes.empty(), "sizes", param_.sizes, "one number or more");
    check(!param_.ratios.empty(), "ratios", param_.ratios, "one number or more");
    check(param_.offsets.size() == 2, "offsets", param_.offsets, "two numbers: (y, x)");
    check(param_.steps.size() == 2, "steps", param_.steps, "two numbers: (y, x)");
    check(!(param_.steps[0] * param_.steps[1] < 0), "steps", param_.steps,
          "two positive numbers or none");
  }
};

class MultiBoxPriorOperator final : public Operator {
 public:
  explicit MultiBoxPriorOperator(const MultiBoxPriorParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob& out = out_data[0];
    if (req[0] == kNullOp || out.shape_.Size() == 0) return;
    const index_t height = in_data[0].shape_[2], width = in_data[0].shape_[3];
    VisitComputedIn(ComputedInReal(out.type_flag_), [&](auto one) {
      using T = decltype(one);
      const Grid<T> grid(param_, height, width);
      const index_t size = width * param_.Anchors() * 4;
      ParallelFor(height, StepsPerTask(size), [&](index_t begin, index_t end) {
        std::vector<T> line(static_cast<size_t>(size));
        for (index_t y = begin; y < end; ++y) {
          grid.WriteLine(y, width, line.data());
          if (param_.clip) {
            for (T& corner : line) corner = std::min(std::max(corner, T(0)), T(1));
          }
          StoreLine(line, y, req[0], out);
        }
      });
    });
  }

 private:
  /// The places of anchors, and the sizes that they have at each place.
  template <typename T>
  class Grid {
   public:
    Grid(const MultiBoxPriorParameters& param, index_t height, index_t width)
        : step_y_(param.steps[0] > 0 ? T(param.steps[0]) : 1 / static_cast<T>(height)),
          step_x_(param.steps[1] > 0 ? T(param.steps[1]) : 1 / static_cast<T>(width)),
          offset_y_(param.offsets[0]),
          offset_x_(param.offsets[1]) {
      const auto add = [&](float size, float ratio) {
        const T root = std::sqrt(static_cast<T>(ratio));
        const T shape = static_cast<T>(height) / static_cast<T>(width);
        halves_.push_back({T(size) * shape * root / 2, T(size) / root / 2});
      };
      for (const float size : param.sizes) add(size, param.ratios[0]);
      for (size_t i = 1; i < param.ratios.size(); ++i) add(param.sizes[0], param.ratios[i]);
    }

    /// Writes the anchors around the places of line y.
    void WriteLine(index_t y, index_t width, T* out) const {
      const T center_y = (static_cast<T>(y) + offset_y_) * step_y_;
      for (index_t x = 0; x < width; ++x) {
        const T center_x = (static_cast<T>(x) + offset_x_) * step_x_;
        for (const Half& half : halves_) {
          *out++ = center_x - half.width;
          *out++ = center_y - half.height;
          *out++ = center_x + half.width;
          *out++ = center_y + half.height;
        }
      }
    }

   private:
    /// Half the size of an anchor.
    struct Half {
      T width, height;
    };

    const T step_y_, step_x_, offset_y_, offset_x_;
    std::vector<Half> halves_;
  };

  const MultiBoxPriorParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<MultiBoxPriorProperty, MultiBoxPriorOperator>(
        TESSERA_TABLE_PLACE, "_contrib_MultiBoxPrior",
        "Anchors of several sizes and ratios around each place of a feature map.");

}  // namespace
}  // namespace tessera
