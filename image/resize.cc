// Resizing by a weighted sum along rows and then of rows. The weights follow OpenCV's conventions
// (resize of imgproc), so that its numbers come out.
#include "tessera/image/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numbers>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

/// The weighted sums along an axis. That of the output's element o has the terms [begin[o],
/// begin[o + 1]), whose sources are neighbors in ascending order.
template <typename Weight>
struct Sums {
  std::vector<int64_t> begin = {0};
  std::vector<int64_t> source;
  std::vector<Weight> weight;
  int64_t most_terms = 0;

  int64_t count() const { return static_cast<int64_t>(begin.size()) - 1; }
};

/// Adds a sum; sources beyond the axis are its ends.
template <typename Weight>
class SumsBuilder {
 public:
  /// `is_rounded` tells whether weights become multiples of 1/2048.
  SumsBuilder(int64_t in, bool is_rounded) : in_(in), is_rounded_(is_rounded) {}

  void Term(int64_t source, double weight) {
    // OpenCV's weights are float.
    auto given = static_cast<float>(weight);
    if (is_rounded_) given = std::nearbyint(given * kUnits) / kUnits;
    sums_.source.push_back(std::clamp<int64_t>(source, 0, in_ - 1));
    sums_.weight.push_back(static_cast<Weight>(given));
  }
  void EndSum() {
    const auto end = static_cast<int64_t>(sums_.source.size());
    sums_.most_terms = std::max(sums_.most_terms, end - sums_.begin.back());
    sums_.begin.push_back(end);
  }
  Sums<Weight> Take() { return std::move(sums_); }

 private:
  static constexpr float kUnits = 2048;

  const int64_t in_;
  const bool is_rounded_;
  Sums<Weight> sums_;
};

/// The quotient of two sides, by OpenCV's rounding.
double ScaleOf(int64_t in, int64_t out) {
  return 1 / (static_cast<double>(out) / static_cast<double>(in));
}

/// The place of an output's center: the source to its left, and the distance from there.
struct Place {
  Place(int64_t o, double scale) {
    const auto x = static_cast<float>((static_cast<double>(o) + 0.5) * scale - 0.5);
    const float floor = std::floor(x);
    left = static_cast<int64_t>(floor);
    distance = static_cast<double>(x - floor);
  }
  int64_t left;
  double distance;
};

template <typename Weight>
void AddBilinear(int64_t o, double scale, SumsBuilder<Weight>* sums) {
  const Place at(o, scale);
  sums->Term(at.left, 1 - at.distance);
  sums->Term(at.left + 1, at.distance);
}

/// Bilinear interpolation in the place of areas for a side that grows: pixels keep their colors
/// wherever one source covers all of the output's.
template <typename Weight>
void AddGrownArea(int64_t o, double scale, SumsBuilder<Weight>* sums) {
  const auto left = static_cast<int64_t>(std::floor(static_cast<double>(o) * scale));
  const double over = static_cast<double>(o + 1) - static_cast<double>(left + 1) / scale;
  const double right_weight = over <= 0 ? 0 : over - std::floor(over);
  sums->Term(left, 1 - right_weight);
  sums->Term(left + 1, right_weight);
}

/// Keys, "Cubic convolution interpolation for digital image processing", 1981, equation 4 with
/// a = -3/4.
template <typename Weight>
void AddCubic(int64_t o, double scale, SumsBuilder<Weight>* sums) {
  constexpr double kA = -0.75;
  const Place at(o, scale);
  const double d = at.distance;
  const auto outer = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  const auto inner = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const double weights[] = {outer(d + 1), inner(d), inner(1 - d)};
  for (int k = 0; k < 3; ++k) sums->Term(at.left - 1 + k, weights[k]);
  sums->Term(at.left + 2, 1 - weights[0] - weights[1] - weights[2]);
}

/// sinc(x) sinc(x / 4) at eight places, divided by their sum (Duchon, "Lanczos filtering in one and
/// two dimensions", 1979).
template <typename Weight>
void AddLanczos(int64_t o, double scale, SumsBuilder<Weight>* sums) {
  constexpr int kTerms = 8, kLeft = 3;
  constexpr double kPi = std::numbers::pi, kNone = 1e-7;
  const Place at(o, scale);
  std::array<double, kTerms> weights = {};
  double sum = 1;
  if (at.distance < kNone) {
    weights[kLeft] = 1;
  } else {
    sum = 0;
    for (int k = 0; k < kTerms; ++k) {
      const double x = at.distance + kLeft - k;  // never 0: the distance is below 1
      weights[static_cast<size_t>(k)] = std::sin(kPi * x) * std::sin(kPi * x / 4) / (x * x);
      sum += weights[static_cast<size_t>(k)];
    }
  }
  for (int k = 0; k < kTerms; ++k) {
    sums->Term(at.left - kLeft + k, weights[static_cast<size_t>(k)] / sum);
  }
}

/// The sources that an output covers, weighted by the covered part of each.
template <typename Weight>
void AddArea(int64_t o, int64_t in, double scale, SumsBuilder<Weight>* sums) {
  constexpr double kNone = 1e-3;  // a part that OpenCV leaves out
  const double begin = static_cast<double>(o) * scale, end = begin + scale;
  const double covered = std::min(scale, static_cast<double>(in) - begin);
  const auto last = std::min(static_cast<int64_t>(std::floor(end)), in - 1);
  const auto first = std::min(static_cast<int64_t>(std::ceil(begin)), last);
  const double before = static_cast<double>(first) - begin, after = end - static_cast<double>(last);
  if (before > kNone) sums->Term(first - 1, before / covered);
  for (int64_t source = first; source < last; ++source) sums->Term(source, 1 / covered);
  if (after > kNone) sums->Term(last, std::min(std::min(after, 1.0), covered) / covered);
}

/// `shrinks` tells whether no side of the image grows.
template <typename T, typename Weight>
Sums<Weight> SumsOf(int64_t in, int64_t out, Interpolation interpolation, bool shrinks) {
  const double scale = ScaleOf(in, out);
  const bool is_area = interpolation == Interpolation::kArea && shrinks;
  SumsBuilder<Weight> sums(in, std::is_same_v<T, uint8_t> && !is_area);
  for (int64_t o = 0; o < out; ++o) {
    if (is_area) {
      AddArea(o, in, scale, &sums);
    } else if (interpolation == Interpolation::kArea) {
      AddGrownArea(o, scale, &sums);
    } else if (interpolation == Interpolation::kCubic) {
      AddCubic(o, scale, &sums);
    } else if (interpolation == Interpolation::kLanczos) {
      AddLanczos(o, scale, &sums);
    } else {
      AddBilinear(o, scale, &sums);
    }
    sums.EndSum();
  }
  return sums.Take();
}

/// Sums pixels of a row. kChannels is their number, or 0 for any other number.
template <int kChannels, typename T, typename Number>
void SumAlongRow(const Sums<Number>& sums, int64_t channels, const T* from, Number* to) {
  if constexpr (kChannels != 0) channels = kChannels;
  for (int64_t o = 0; o < sums.count(); ++o, to += channels) {
    std::fill_n(to, channels, Number{0});
    for (int64_t k = sums.begin[static_cast<size_t>(o)]; k < sums.begin[static_cast<size_t>(o) + 1];
         ++k) {
      const T* const pixel = from + sums.source[static_cast<size_t>(k)] * channels;
      const Number weight = sums.weight[static_cast<size_t>(k)];
      for (int64_t c = 0; c < channels; ++c) to[c] += weight * static_cast<Number>(pixel[c]);
    }
  }
}

/// Rounds to the nearest level, a half up.
void Store(const std::vector<float>& row, uint8_t* out) {
  for (size_t i = 0; i < row.size(); ++i) {
    const float level = std::min(std::max(row[i], 0.0f), 255.0f) + 0.5f;
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(level));
  }
}

template <typename T>
void Store(const std::vector<T>& row, T* out) {
  std::copy(row.begin(), row.end(), out);
}

/// Resizes by sums. A row that was summed for one row of the output is kept for the next ones.
template <typename T, typename Number>
void ResizeBySums(ImageView<const T> in, ImageView<T> out, Interpolation interpolation) {
  const bool shrinks = in.height >= out.height && in.width >= out.width;
  const Sums<Number> ys = SumsOf<T, Number>(in.height, out.height, interpolation, shrinks);
  const Sums<Number> xs = SumsOf<T, Number>(in.width, out.width, interpolation, shrinks);
  const auto sum_along_row = in.channels == 1   ? SumAlongRow<1, T, Number>
                             : in.channels == 3 ? SumAlongRow<3, T, Number>
                             : in.channels == 4 ? SumAlongRow<4, T, Number>
                                                : SumAlongRow<0, T, Number>;
  const int64_t length = out.row_size();
  // The sources of a sum are neighbors, so their rows have different slots.
  const int64_t slots = ys.most_terms;
  const CheckedSize kept_size = CheckedSize(slots) * length;
  std::vector<Number> kept(static_cast<size_t>(kept_size.ValueOrThrow("ResizeImage: the rows")));
  std::vector<int64_t> kept_source(static_cast<size_t>(slots), -1);
  std::vector<Number> row(static_cast<size_t>(length));
  for (int64_t y = 0; y < out.height; ++y) {
    std::fill(row.begin(), row.end(), Number{0});
    for (int64_t k = ys.begin[static_cast<size_t>(y)]; k < ys.begin[static_cast<size_t>(y) + 1];
         ++k) {
      const int64_t source = ys.source[static_cast<size_t>(k)];
      const Number weight = ys.weight[static_cast<size_t>(k)];
      Number* const summed = kept.data() + source % slots * length;
      int64_t& summed_source = kept_source[static_cast<size_t>(source % slots)];
      if (summed_source != source) {
        sum_along_row(xs, in.channels, in.row(source), summed);
        summed_source = source;
      }
      for (int64_t i = 0; i < length; ++i) row[static_cast<size_t>(i)] += weight * summed[i];
    }
    Store(row, out.row(y));
  }
}

template <typename T>
void CopyNearest(ImageView<const T> in, ImageView<T> out) {
  const auto nearest = [](int64_t o, int64_t from, int64_t to) {
    const auto source =
        static_cast<int64_t>(std::floor(static_cast<double>(o) * ScaleOf(from, to)));
    return std::min(source, from - 1);
  };
  std::vector<int64_t> offsets;
  for (int64_t x = 0; x < out.width; ++x) {
    offsets.push_back(nearest(x, in.width, out.width) * in.channels);
  }
  const size_t pixel_bytes = static_cast<size_t>(in.channels) * sizeof(T);
  for (int64_t y = 0; y < out.height; ++y) {
    const T* const from = in.row(nearest(y, in.height, out.height));
    T* to = out.row(y);
    for (const int64_t offset : offsets) {
      std::memcpy(to, from + offset, pixel_bytes);
      to += out.channels;
    }
  }
}

}  // namespace

Interpolation ChooseInterpolation(std::string_view what, int number, ImageSize from, ImageSize to,
                                  uint64_t draw) {
  constexpr int kKinds = 5, kBySize = 9, kDrawn = 10;
  if (number >= 0 && number < kKinds) return static_cast<Interpolation>(number);
  if (number == kDrawn) return static_cast<Interpolation>(draw % kKinds);
  if (number != kBySize) {
    throw InvalidArgument(what, ": there is no interpolation ", number,
                          "; expected 0 (nearest), 1 (bilinear), 2 (cubic), 3 (area), 4 (Lanczos), "
                          "9 (by the sizes) or 10 (drawn)");
  }
  if (to.height > from.height && to.width > from.width) return Interpolation::kCubic;
  if (to.height < from.height && to.width < from.width) return Interpolation::kArea;
  return Interpolation::kBilinear;
}

template <typename T>
void ResizeImage(ImageView<const T> in, ImageView<T> out, Interpolation interpolation) {
  image_internal::CheckHasPixels("ResizeImage", in.height, in.width, in.channels);
  image_internal::CheckHasPixels("ResizeImage", out.height, out.width, out.channels);
  if (in.channels != out.channels) {
    throw InvalidArgument("ResizeImage: the result has ", out.channels, " channels, expected ",
                          in.channels, " as the image has");
  }
  if (in.height == out.height && in.width == out.width) {
    std::copy_n(in.pixels, in.height * in.row_size(), out.pixels);
  } else if (interpolation == Interpolation::kNearest) {
    CopyNearest(in, out);
  } else {
    using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
    ResizeBySums<T, Number>(in, out, interpolation);
  }
}

template void ResizeImage(ImageView<const uint8_t>, ImageView<uint8_t>, Interpolation);
template void ResizeImage(ImageView<const float>, ImageView<float>, Interpolation);
template void ResizeImage(ImageView<const double>, ImageView<double>, Interpolation);

}  // namespace tessera
