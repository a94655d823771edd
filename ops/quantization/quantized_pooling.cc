// _contrib_quantized_pooling: Pooling of codes (codes.h) over one to three dimensions, NCW, NCHW or
// NCDHW.
//
//   max  out = the window's maximum
//   avg  out = sum / n, rounded to the nearest integer, halves to the even one
//
// n is the kernel's size, also for a window beyond the padding; if count_include_pad is False, it
// is the number of the window's elements. A window without an element has the type's lowest number
// as its maximum, and 0 as its average. The range stays data's. Shapes: those of Pooling; ranges
// (1,). Types: data int8 or uint8, out likewise; ranges float32. Gradient 0. Runs on the CPU.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tessera/base/error.h"
#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/quantization/quantized_property.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/windows/pooling_parameters.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows, codes and registration

class QuantizedPoolingProperty final : public QuantizedLikeDataProperty<PoolingParameters> {
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("Pooling", GetParams());
  }
  void CheckParameters() override {
    if (param_.pool_type != PoolType::kMax && param_.pool_type != PoolType::kAvg) {
      throw InvalidArgument(TypeString(), ": parameter pool_type=", GetParams().at("pool_type"),
                            ", expected max or avg");
    }
    if (param_.pooling_convention == PoolConvention::kSame) {
      throw InvalidArgument(TypeString(),
                            ": parameter pooling_convention=same, expected valid or full");
    }
    if (IsChannelsLast(param_.layout)) {
      throw Unimplemented(TypeString(), ": layout=", param_.layout,
                          " is not implemented; expected NCW, NCHW or NCDHW");
    }
    QuantizedLikeDataProperty::CheckParameters();
  }
};

/// The part of a window inside the image.
struct Box {
  std::array<index_t, 3> begin, end;

  Box(const PoolingWindow& window, const WindowExtents& image, index_t position) {
    for (size_t axis = 3; axis-- > 0;) {
      const index_t first =
          position % window.positions[axis] * window.stride[axis] - window.pad[axis];
      position /= window.positions[axis];
      begin[axis] = std::max<index_t>(first, 0);
      end[axis] = std::max(begin[axis], std::min(first + window.kernel[axis], image[axis]));
    }
  }
  index_t Size() const { return (end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2]); }
};

/// Calls visit(element) for each element of a box of an image.
template <typename T, typename Visit>
void VisitBox(const T* image, const WindowExtents& extents, const Box& box, const Visit& visit) {
  // The other sides of a box without elements may be long.
  if (box.begin[1] >= box.end[1] || box.begin[2] >= box.end[2]) return;
  for (index_t z = box.begin[0]; z < box.end[0]; ++z) {
    for (index_t y = box.begin[1]; y < box.end[1]; ++y) {
      const T* const row = image + (z * extents[1] + y) * extents[2];
      for (index_t x = box.begin[2]; x < box.end[2]; ++x) visit(row[x]);
    }
  }
}

class QuantizedPoolingOperator final : public Operator {
 public:
  explicit QuantizedPoolingOperator(const PoolingParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] != kNullOp) {
      VisitCodes(in_data[0].type_flag_,
                 [&](auto code) { Pool<decltype(code)>(in_data[0], out_data[0]); });
    }
    StoreRange(NumberIn(in_data[1]), NumberIn(in_data[2]), req, out_data);
  }

 private:
  template <typename T>
  void Pool(const TBlob& data, const TBlob& out) const {
    const WindowExtents image = SpatialExtents(data.shape_);
    const PoolingWindow window = PoolingWindow::Of("_contrib_quantized_pooling", param_, image);
    const auto* const from = static_cast<const T*>(data.dptr_);
    auto* const to = static_cast<T*>(out.dptr_);
    const index_t positions = Volume(window.positions);
    const index_t taps = std::min(Volume(window.kernel), Volume(image));
    ParallelFor(out.shape_.Size(), StepsPerTask(taps), [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const Box box(window, image, i % positions);
        const T* const channel = from + i / positions * Volume(image);
        to[i] = param_.pool_type == PoolType::kMax ? MaximumOf(channel, image, box)
                                                   : MeanOf(channel, image, box, window);
      }
    });
  }

  template <typename T>
  static T MaximumOf(const T* channel, const WindowExtents& image, const Box& box) {
    T maximum = std::numeric_limits<T>::min();
    VisitBox(channel, image, box, [&](T x) { maximum = std::max(maximum, x); });
    return maximum;
  }

  template <typename T>
  T MeanOf(const T* channel, const WindowExtents& image, const Box& box,
           const PoolingWindow& window) const {
    if (box.Size() == 0) return 0;
    int64_t sum = 0;
    VisitBox(channel, image, box, [&](T x) { sum += x; });
    double count = static_cast<double>(box.Size());
    if (param_.count_include_pad.value_or(true)) {
      count = 1;
      for (const index_t extent : window.kernel) count *= static_cast<double>(extent);
    }
    return static_cast<T>(std::nearbyint(static_cast<double>(sum) / count));
  }

  const PoolingParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<QuantizedPoolingProperty, QuantizedPoolingOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_pooling",
        "The maximum or average of a moving window, of 8-bit integers.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
