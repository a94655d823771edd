// _image_resize: images in another size.
//
//   interp=0, nearest    out[y][x][c] = data[floor(y sy)][floor(x sx)][c]
//   interp=1, bilinear   out[y][x][c] = the mean of the pixels of data around
//                        ((y + 1/2) sy - 1/2, (x + 1/2) sx - 1/2), weighted by their nearness
//
// sy and sx are the quotients of data's and out's heights and widths; beyond the border, a pixel is
// the nearest one of the border. `size` is (width, height), or one number for both; with
// keep_ratio, one number is the shorter side, and the longer one is cut off to an integer. Numbers
// are those of OpenCV's INTER_NEAREST and INTER_LINEAR: weights are float, and for uint8 multiples
// of 1/2048, with which sums are integers. Shapes: data and out (height, width, channels) or
// (images, height, width, channels). Types: uint8, float32, float64, float16, bfloat16; the last
// two are computed in float32. There is no gradient. Runs on the CPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

constexpr int kNearest = 0;
constexpr int kBilinear = 1;
constexpr index_t kMostPixels = index_t{1} << 24;  // along an axis

struct ResizeParameters {
  std::vector<int64_t> size;
  bool keep_ratio = false;
  int interp = kBilinear;

  static void Declare(ParameterSchema<ResizeParameters>& schema) {
    using P = ResizeParameters;
    schema.Optional("size", &P::size, "the output's (width, height), or one number for both");
    schema.Optional("keep_ratio", &P::keep_ratio,
                    "whether one number is the shorter side, and the longer one in proportion");
    schema.Optional("interp", &P::interp, "interpolation: 0 nearest, 1 bilinear");
  }
};

class ResizeProperty final : public ParameterizedProperty<ResizeParameters> {
 public:
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    if (!MergeImageRanks(*this, kImageLayout, &data, &out)) return false;
    const int rank = data.ndim();
    if (rank == 4) MergeExtents(*this, &data, 0, &out, 0);
    MergeExtents(*this, &data, rank - 1, &out, rank - 1);
    TShape known = out;
    SetSize(data, &known[rank - 3], &known[rank - 2]);
    MergeShape(*this, "output", &out, known);
    return data.known() && out.known();
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    const bool known = OperatorProperty::InferType(in_type, out_type);
    const DType type = (*in_type)[0];
    if (known && type != DType::kUint8 && !IsReal(type)) {
      throw InvalidArgument(TypeString(), ": data has element type ", type,
                            ", expected uint8, float32, float64, float16 or bfloat16");
    }
    return known;
  }

 private:
  void CheckParameters() override {
    const std::vector<int64_t>& size = param_.size;
    if (size.size() != 1 && size.size() != 2) {
      throw InvalidArgument(TypeString(), ": size has ", size.size(),
                            " elements, expected (width, height) or one number");
    }
    for (const int64_t extent : size) {
      if (extent >= 1 && extent <= kMostPixels) continue;
      throw InvalidArgument(TypeString(), ": size has the element ", extent, ", expected 1 to ",
                            kMostPixels);
    }
    static constexpr const char* kOthers[] = {"bicubic", "area", "Lanczos"};
    if (param_.interp >= 2 && param_.interp <= 4) {
      throw Error(Error::kUnimplemented, TypeString() +
                                             ": interp=" + std::to_string(param_.interp) + " (" +
                                             kOthers[param_.interp - 2] +
                                             ") is not implemented; expected 0 (nearest) or 1 "
                                             "(bilinear)");
    }
    if (param_.interp != kNearest && param_.interp != kBilinear) {
      throw InvalidArgument(TypeString(), ": interp=", param_.interp,
                            " is unknown; expected 0 (nearest) or 1 (bilinear)");
    }
  }

  /// Sets the output's height and width as far as they are known.
  void SetSize(const TShape& data, index_t* height, index_t* width) const {
    const index_t in_height = data[data.ndim() - 3], in_width = data[data.ndim() - 2];
    const bool known = in_height != TShape::kUnknown && in_width != TShape::kUnknown;
    if (known && (in_height == 0 || in_width == 0)) {
      throw InvalidArgument(TypeString(), ": data of shape ", data, " has no pixels");
    }
    const int64_t first = param_.size.front();
    if (param_.size.size() == 1 && param_.keep_ratio) {
      if (!known) return;
      const index_t shorter = std::min(in_height, in_width);
      *height = ProportionalSide(data, in_height, shorter);
      *width = ProportionalSide(data, in_width, shorter);
    } else {
      *height = param_.size.back();
      *width = first;
    }
  }

  /// Returns a side of the output whose shorter side is the parameter.
  index_t ProportionalSide(const TShape& data, index_t side, index_t shorter) const {
    const double longer = static_cast<double>(param_.size.front()) * static_cast<double>(side) /
                          static_cast<double>(shorter);
    if (side > (index_t{1} << 31) || longer > static_cast<double>(kMostPixels)) {
      throw InvalidArgument(TypeString(), ": data of shape ", data, " with the shorter side ",
                            param_.size.front(), " would have more than ", kMostPixels,
                            " pixels along an axis");
    }
    return param_.size.front() * side / shorter;
  }
};

double ScaleOf(index_t in, index_t out) {
  return 1 / (static_cast<double>(out) / static_cast<double>(in));
}

std::vector<index_t> Nearest(index_t in, index_t out) {
  const double scale = ScaleOf(in, out);
  std::vector<index_t> nearest;
  for (index_t o = 0; o < out; ++o) {
    const auto i = static_cast<index_t>(std::floor(static_cast<double>(o) * scale));
    nearest.push_back(std::min(i, in - 1));
  }
  return nearest;
}

/// Means of two numbers along a row, and then of two rows.
template <typename T>
struct FloatingPoint {
  using Number = T;
  static T Weight(float weight) { return static_cast<T>(weight); }
  static T AlongRow(T a, T b, T of_a, T of_b) { return a * of_a + b * of_b; }
  static T OfRows(T a, T b, T of_a, T of_b) { return a * of_a + b * of_b; }
};

/// Means of integers below 256, with weights in units of 1/2048. Results along a row have the same
/// unit.
struct FixedPoint {
  using Number = int32_t;
  static int32_t Weight(float weight) {
    return static_cast<int32_t>(std::nearbyint(weight * 2048));
  }
  static int32_t AlongRow(int32_t a, int32_t b, int32_t of_a, int32_t of_b) {
    return a * of_a + b * of_b;
  }
  static int32_t OfRows(int32_t a, int32_t b, int32_t of_a, int32_t of_b) {
    return (((of_a * (a >> 4)) >> 16) + ((of_b * (b >> 4)) >> 16) + 2) >> 2;
  }
};

/// The two elements between which one of the output lies along an axis, and their weights.
template <typename T>
struct Between {
  index_t first, second;
  T of_first, of_second;
};

/// Returns the neighbours of rows.
template <typename Arithmetic>
auto RowNeighbours(index_t in, index_t out) {
  const double scale = ScaleOf(in, out);
  std::vector<Between<typename Arithmetic::Number>> neighbours;
  for (index_t o = 0; o < out; ++o) {
    const float source = static_cast<float>((static_cast<double>(o) + 0.5) * scale - 0.5);
    const float floor = std::floor(source), weight = source - floor;
    const auto first = static_cast<index_t>(floor);
    neighbours.push_back({std::clamp<index_t>(first, 0, in - 1),
                          std::clamp<index_t>(first + 1, 0, in - 1), Arithmetic::Weight(1 - weight),
                          Arithmetic::Weight(weight)});
  }
  return neighbours;
}

/// Returns the neighbours of columns. Those beyond the border have the weights 1 and 0, as in
/// OpenCV; the two weights of other ones, and of rows, may be rounded.
template <typename Arithmetic>
auto ColumnNeighbours(index_t in, index_t out) {
  auto neighbours = RowNeighbours<Arithmetic>(in, out);
  for (auto& x : neighbours) {
    if (x.first != x.second) continue;
    x.of_first = Arithmetic::Weight(1);
    x.of_second = Arithmetic::Weight(0);
  }
  return neighbours;
}

/// Computes rows of resized images. A row of data that was resized for one row of the output is
/// kept for the next.
template <typename Arithmetic>
class RowResizer {
 public:
  using T = typename Arithmetic::Number;

  RowResizer(const TBlob& data, const std::vector<Between<T>>& columns)
      : data_(data), extents_(data.shape_), columns_(columns) {
    const auto length = columns.size() * static_cast<size_t>(extents_.channels);
    row_.resize(static_cast<size_t>(extents_.width * extents_.channels));
    for (std::vector<T>* line : {&first_, &second_, &mean_}) line->resize(length);
  }

  /// Computes the row between two rows of an image of data.
  const std::vector<T>& Compute(index_t image, const Between<T>& rows) {
    const index_t first = image * extents_.height + rows.first;
    const index_t second = image * extents_.height + rows.second;
    if (first == second_index_) {
      first_.swap(second_);
      std::swap(first_index_, second_index_);
    }
    if (first != first_index_) Resize(first, &first_);
    if (second != second_index_) Resize(second, &second_);
    first_index_ = first;
    second_index_ = second;
    const T of_first = rows.of_first, of_second = rows.of_second;
    for (size_t i = 0; i < mean_.size(); ++i) {
      mean_[i] = Arithmetic::OfRows(first_[i], second_[i], of_first, of_second);
    }
    return mean_;
  }

 private:
  void Resize(index_t index, std::vector<T>* line) {
    const index_t channels = extents_.channels, length = extents_.width * channels;
    RowReader<T>(data_).Copy(index * length, length, row_.data());
    T* to = line->data();
    for (const Between<T>& x : columns_) {
      const T* const a = row_.data() + x.first * channels;
      const T* const b = row_.data() + x.second * channels;
      for (index_t c = 0; c < channels; ++c) {
        *to++ = Arithmetic::AlongRow(a[c], b[c], x.of_first, x.of_second);
      }
    }
  }

  const TBlob& data_;
  const ImageExtents extents_;
  const std::vector<Between<T>>& columns_;
  std::vector<T> row_, first_, second_, mean_;
  index_t first_index_ = -1, second_index_ = -1;  // of the rows in first_ and second_
};

class ResizeOperator final : public Operator {
 public:
  explicit ResizeOperator(const ResizeParameters& param) : interp_(param.interp) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const TBlob &data = in_data[0], &out = out_data[0];
    if (req[0] == kNullOp || out.shape_.Size() == 0) return;
    if (interp_ == kNearest) {
      CopyNearest(data, out);
    } else if (data.type_flag_ == DType::kUint8) {
      Interpolate<FixedPoint>(data, out);
    } else {
      VisitComputedIn(ComputedInReal(data.type_flag_),
                      [&](auto one) { Interpolate<FloatingPoint<decltype(one)>>(data, out); });
    }
  }

 private:
  static constexpr index_t kCost = 4;

  template <typename Arithmetic>
  static void Interpolate(const TBlob& data, const TBlob& out) {
    const ImageExtents from(data.shape_), to(out.shape_);
    const auto ys = RowNeighbours<Arithmetic>(from.height, to.height);
    const auto xs = ColumnNeighbours<Arithmetic>(from.width, to.width);
    const index_t length = to.width * to.channels;
    ParallelFor(to.images * to.height, StepsPerTask(from.width * from.channels + length, kCost),
                [&](index_t begin, index_t end) {
                  RowResizer<Arithmetic> resizer(data, xs);
                  for (index_t row = begin; row < end; ++row) {
                    const auto& y = ys[static_cast<size_t>(row % to.height)];
                    RowWriter<typename Arithmetic::Number>(out, kWriteTo)
                        .Write(row * length, length, resizer.Compute(row / to.height, y).data());
                  }
                });
  }

  static void CopyNearest(const TBlob& data, const TBlob& out) {
    const ImageExtents from(data.shape_), to(out.shape_);
    const auto ys = Nearest(from.height, to.height), xs = Nearest(from.width, to.width);
    const index_t channels = to.channels;
    const auto pixel_bytes = static_cast<size_t>(channels * DTypeSizeBytes(data.type_flag_));
    ParallelFor(to.images * to.height, StepsPerTask(to.width * channels),
                [&](index_t begin, index_t end) {
                  for (index_t row = begin; row < end; ++row) {
                    const index_t y = ys[static_cast<size_t>(row % to.height)];
                    const index_t first = (row / to.height * from.height + y) * from.width;
                    for (index_t i = 0; i < to.width; ++i) {
                      const index_t pixel = first + xs[static_cast<size_t>(i)];
                      std::memcpy(ElementAt(out, (row * to.width + i) * channels),
                                  ElementAt(data, pixel * channels), pixel_bytes);
                    }
                  }
                });
  }

  const int interp_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<ResizeProperty, ResizeOperator>(
    TESSERA_TABLE_PLACE, "_image_resize", "Images in another size.", TakenTypes::kAny);

}  // namespace
}  // namespace tessera
