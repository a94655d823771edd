#include "tessera/ops/nn/pooling_loops.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;

/// The elements [begin, end) of a window along one axis, and its extent up to the padding's end.
struct AxisWindow {
  index_t begin, end, padded;
};

/// The windows of an image along its axes.
class Windows {
 public:
  Windows(const PoolingWindow& window, const WindowExtents& image) : w(window), image(image) {}

  AxisWindow Along(size_t axis, index_t position) const {
    const index_t begin = position * w.stride[axis] - w.pad[axis];
    const index_t end = std::min(begin + w.kernel[axis], image[axis] + w.pad[axis]);
    return {std::max<index_t>(0, begin), std::min(end, image[axis]), end - begin};
  }
  /// Returns taps [first, last) along the last axis that lie in the image at some position.
  std::array<index_t, 2> TapsInImage() const {
    const index_t last_begin = (w.positions[2] - 1) * w.stride[2] - w.pad[2];
    return {std::max<index_t>(0, -last_begin), std::min(w.kernel[2], image[2] + w.pad[2])};
  }
  /// Returns positions [first, last) at which a tap of the last axis lies in the image.
  std::array<index_t, 2> PositionsOf(index_t tap) const {
    const index_t offset = tap - w.pad[2], stride = w.stride[2];
    const auto ceiling = [stride](index_t n) { return n <= 0 ? 0 : (n - 1) / stride + 1; };
    const index_t first = ceiling(-offset);
    return {first, std::max(first, std::min(w.positions[2], ceiling(image[2] - offset)))};
  }
  /// Windows are so wide, and so few, that loops run over elements and not over windows.
  bool FewWindows() const { return w.positions[2] < 8 && w.positions[2] < w.kernel[2]; }

  const PoolingWindow& w;
  const WindowExtents image;
};

/// Maxima: NaN is larger than all numbers.
struct Maximum {
  template <typename A>
  static constexpr A kInitial = -std::numeric_limits<A>::infinity();
  template <typename A>
  __attribute__((always_inline)) static A Map(A x) {
    return x;
  }
  template <typename A>
  __attribute__((always_inline)) static A Combine(A a, A b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};
/// Sums of powers.
template <int kPower>
struct PowerSum {
  template <typename A>
  static constexpr A kInitial = A(0);
  template <typename A>
  __attribute__((always_inline)) static A Map(A x) {
    if constexpr (kPower == 1) return x;
    if constexpr (kPower == 2) return x * x;
    if constexpr (kPower == 3) return x * x * x;
  }
  template <typename A>
  __attribute__((always_inline)) static A Combine(A a, A b) {
    return a + b;
  }
};

/// Combines rows element by element.
template <typename R, typename A>
void CombineRow(const A* row, index_t n, A* totals) {
  ForEach(n,
          [=](index_t i) TESSERA_LOOP_BODY { totals[i] = R::Combine(totals[i], R::Map(row[i])); });
}

/// Combines the elements of each window along the last axis.
template <typename R, typename A>
void CombineAlong(const Windows& windows, const A* totals, A* line) {
  const index_t stride = windows.w.stride[2], pad = windows.w.pad[2];
  std::fill_n(line, windows.w.positions[2], R::template kInitial<A>);
  if (windows.FewWindows()) {
    for (index_t o = 0; o < windows.w.positions[2]; ++o) {
      const AxisWindow x = windows.Along(2, o);
      for (index_t i = x.begin; i < x.end; ++i) line[o] = R::Combine(line[o], totals[i]);
    }
    return;
  }
  const auto [first_tap, last_tap] = windows.TapsInImage();
  for (index_t tap = first_tap; tap < last_tap; ++tap) {
    const auto [first, last] = windows.PositionsOf(tap);
    const A* const from = totals + first * stride + tap - pad;
    A* const to = line + first;
    if (stride == 1) {
      ForEach(last - first,
              [=](index_t i) TESSERA_LOOP_BODY { to[i] = R::Combine(to[i], from[i]); });
    } else if (stride == 2) {
      ForEach(last - first,
              [=](index_t i) TESSERA_LOOP_BODY { to[i] = R::Combine(to[i], from[2 * i]); });
    } else {
      for (index_t i = 0; i < last - first; ++i) to[i] = R::Combine(to[i], from[i * stride]);
    }
  }
}

/// Combines n adjacent elements.
template <typename R, typename A>
A Reduce(const A* x, index_t n) {
  if constexpr (std::is_same_v<R, Maximum>) {
    const auto num_nan =
        SumOf<A>(n, [=](index_t i) TESSERA_LOOP_BODY { return x[i] == x[i] ? A(0) : A(1); });
    return num_nan > 0 ? std::numeric_limits<A>::quiet_NaN() : LargestOf(x, n);
  } else {
    return static_cast<A>(SumOf<A>(n, [=](index_t i) TESSERA_LOOP_BODY { return R::Map(x[i]); }));
  }
}

/// Pooling in arithmetic of A: float or double.
template <typename A>
class Pooling {
 public:
  Pooling(const PoolRule& rule, const PoolingWindow& window, const TBlob& data)
      : rule_(rule),
        windows_(window, SpatialExtents(data.shape_)),
        dtype_(data.type_flag_),
        direct_(dtype_ == kDTypeOf<A>),
        planes_(data.shape_[0] * data.shape_[1]),
        image_size_(Volume(windows_.image)),
        positions_(Volume(window.positions)),
        is_whole_(image_size_ > 0 && window.IsWhole(windows_.image)) {}

  template <typename R>
  void Forward(const TBlob& data, OpReqType req, const TBlob& out) const {
    if (is_whole_) return ForwardOfImages<R>(data, req, out);
    const PoolingWindow& w = windows_.w;
    // An image without elements may have a huge width or height.
    const bool is_empty = image_size_ == 0;
    const index_t width = is_empty ? 0 : windows_.image[2], out_width = w.positions[2];
    const index_t lines = w.positions[0] * w.positions[1];
    const index_t rows =
        std::min(w.kernel[0], windows_.image[0]) * std::min(w.kernel[1], windows_.image[1]);
    const index_t work = rows * width + std::min(w.kernel[2], width) * out_width;
    ParallelFor(planes_ * lines, StepsPerTask(work), [&](index_t begin, index_t end) {
      std::vector<A> buffer(At(2 * width + out_width));
      A* const totals = buffer.data();
      A* const converted = totals + width;
      A* const line = converted + width;
      for (index_t i = begin; i < end; ++i) {
        const index_t plane = i / lines, position = i % lines;
        const AxisWindow z = windows_.Along(0, position / w.positions[1]);
        const AxisWindow y = windows_.Along(1, position % w.positions[1]);
        if (is_empty) {
          std::fill_n(line, out_width, R::template kInitial<A>);
        } else {
          std::fill_n(totals, width, R::template kInitial<A>);
          for (index_t iz = z.begin; iz < z.end; ++iz) {
            for (index_t iy = y.begin; iy < y.end; ++iy) {
              CombineRow<R>(Row(data, plane, iz, iy, converted), width, totals);
            }
          }
          CombineAlong<R>(windows_, totals, line);
        }
        Finish(z, y, line);
        RowWriter<A>(out, req).Write(plane * positions_ + position * out_width, out_width, line);
      }
    });
  }

  void Backward(const TBlob& out_grad, const TBlob& data, const TBlob& out, OpReqType req,
                const TBlob& grad) const {
    if (rule_.type == PoolType::kMax && image_size_ > std::numeric_limits<int32_t>::max()) {
      throw Unimplemented("images of 2^31 elements or more have no gradient of a maximum");
    }
    if (is_whole_) return BackwardOfImages(out_grad, data, out, req, grad);
    const PoolingWindow& w = windows_.w;
    const index_t out_width = w.positions[2], width = windows_.image[2];
    const index_t lines = w.positions[0] * w.positions[1];
    const RowWriter<A> writer(grad, req);
    const bool reads_values = rule_.type == PoolType::kMax || rule_.type == PoolType::kLp;
    const index_t window_size = std::min(w.kernel[0], windows_.image[0]) *
                                std::min(w.kernel[1], windows_.image[1]) *
                                std::min(w.kernel[2], width);
    const index_t work = image_size_ + positions_ * std::min<index_t>(window_size, 1024);
    ParallelFor(planes_, StepsPerTask(work), [&](index_t begin, index_t end) {
      std::vector<A> g(At(out_width)), pooled(At(out_width)), shares(At(width));
      std::vector<int32_t> best(At(out_width));
      std::vector<A> gradient(writer.is_direct() ? 0 : At(image_size_));
      std::vector<A> converted(direct_ || !reads_values ? 0 : At(image_size_));
      for (index_t plane = begin; plane < end; ++plane) {
        A* const to = writer.Out(plane * image_size_, gradient.data());
        std::fill_n(to, image_size_, A(0));
        const A* image = nullptr;
        if (reads_values) {
          image = RowReader<A>(data).Read(plane * image_size_, image_size_, converted.data());
        }
        for (index_t position = 0; position < lines; ++position) {
          const AxisWindow z = windows_.Along(0, position / w.positions[1]);
          const AxisWindow y = windows_.Along(1, position % w.positions[1]);
          const index_t first = plane * positions_ + position * out_width;
          RowReader<A>(out_grad).Copy(first, out_width, g.data());
          if (reads_values) RowReader<A>(out).Copy(first, out_width, pooled.data());
          if (rule_.type != PoolType::kMax) {
            SpreadSums(z, y, g.data(), pooled.data(), image, shares.data(), to);
          } else if (rule_.zero_padding) {
            SpreadToAllMaxima(z, y, g.data(), pooled.data(), image, to);
          } else {
            SpreadToFirstMaxima(z, y, g.data(), pooled.data(), image, best.data(), to);
          }
        }
        writer.Write(plane * image_size_, image_size_, to);
      }
    });
  }

 private:
  /// Forward where a window is an image, which is reduced as a row of elements.
  template <typename R>
  void ForwardOfImages(const TBlob& data, OpReqType req, const TBlob& out) const {
    const RowReader<A> reader(data);
    const RowWriter<A> writer(out, req);
    const AxisWindow z = windows_.Along(0, 0), y = windows_.Along(1, 0);
    ParallelFor(planes_, StepsPerTask(image_size_), [&](index_t begin, index_t end) {
      std::vector<A> converted(direct_ ? 0 : At(image_size_));
      for (index_t plane = begin; plane < end; ++plane) {
        const A* const image = reader.Read(plane * image_size_, image_size_, converted.data());
        A result = Reduce<R>(image, image_size_);
        Finish(z, y, &result);
        writer.Write(plane, result);
      }
    });
  }

  /// Backward where a window is an image.
  void BackwardOfImages(const TBlob& out_grad, const TBlob& data, const TBlob& out, OpReqType req,
                        const TBlob& grad) const {
    const RowReader<A> reader(data), heads(out_grad), results(out);
    const RowWriter<A> writer(grad, req);
    const bool is_max = rule_.type == PoolType::kMax;
    const index_t n = image_size_;
    const int power = rule_.type == PoolType::kLp ? rule_.power : 1;
    const bool reads_values = is_max || rule_.type == PoolType::kLp;
    const AxisWindow z = windows_.Along(0, 0), y = windows_.Along(1, 0);
    ParallelFor(planes_, StepsPerTask(n), [&](index_t begin, index_t end) {
      std::vector<A> gradient(writer.is_direct() ? 0 : At(n));
      std::vector<A> converted(direct_ || !reads_values ? 0 : At(n));
      for (index_t plane = begin; plane < end; ++plane) {
        A* const to = writer.Out(plane * n, gradient.data());
        A g = heads[plane], pooled = 0;
        const A* x = nullptr;
        if (reads_values) {
          pooled = results[plane];
          x = reader.Read(plane * n, n, converted.data());
        }
        if (is_max && rule_.zero_padding) {
          ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { to[i] = x[i] == pooled ? g : A(0); });
        } else if (is_max) {
          const index_t first = std::find(x, x + n, pooled) - x;
          std::fill_n(to, n, A(0));
          if (first < n) to[first] = g;
        } else {
          DivideGradients(z, y, &pooled, &g);
          if (power == 1) {
            std::fill_n(to, n, g);
          } else if (power == 2) {
            ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { to[i] = g * x[i]; });
          } else {
            ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { to[i] = g * x[i] * x[i]; });
          }
        }
        writer.Write(plane * n, n, to);
      }
    });
  }

  const A* Row(const TBlob& data, index_t plane, index_t z, index_t y, A* memory) const {
    const index_t first =
        ((plane * windows_.image[0] + z) * windows_.image[1] + y) * windows_.image[2];
    return RowReader<A>(data).Read(first, windows_.image[2], memory);
  }

  /// Returns the lowest number of the element type.
  A Lowest() const {
    switch (dtype_) {
      case DType::kFloat16:
        return A(-65504);
      case DType::kBFloat16:
        return static_cast<A>(-0x1.fep127);
      default:
        return std::numeric_limits<A>::lowest();
    }
  }

  index_t Divisor(const AxisWindow& z, const AxisWindow& y, const AxisWindow& x) const {
    switch (rule_.divisor) {
      case PoolDivisor::kWithPadding:
        return z.padded * y.padded * x.padded;
      case PoolDivisor::kElements:
        return (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin);
      case PoolDivisor::kKernel:
        break;
    }
    return Volume(windows_.w.kernel);
  }
  static bool Empty(const AxisWindow& z, const AxisWindow& y, const AxisWindow& x) {
    return z.begin >= z.end || y.begin >= y.end || x.begin >= x.end;
  }
  /// Returns whether the window holds padding.
  static bool Padded(const AxisWindow& z, const AxisWindow& y, const AxisWindow& x) {
    if (z.padded <= 0 || y.padded <= 0 || x.padded <= 0) return false;
    return Empty(z, y, x) || z.padded > z.end - z.begin || y.padded > y.end - y.begin ||
           x.padded > x.end - x.begin;
  }

  /// Calls body(first, count, divisor) for runs of windows of a line; all windows inside the image
  /// are one run.
  template <typename Body>
  void ForEachDivisor(const AxisWindow& z, const AxisWindow& y, const Body& body) const {
    const index_t n = windows_.w.positions[2];
    for (index_t o = 0; o < n;) {
      const AxisWindow x = windows_.Along(2, o);
      index_t end = o + 1;
      if (x.padded == windows_.w.kernel[2] && x.end - x.begin == x.padded) {
        const index_t inside =
            (windows_.image[2] + windows_.w.pad[2] - windows_.w.kernel[2]) / windows_.w.stride[2] +
            1;
        end = std::clamp(inside, end, n);
      }
      // An empty window's sum is 0, whatever it is divided by.
      const index_t divisor = Empty(z, y, x) ? 1 : Divisor(z, y, x);
      body(o, end - o, static_cast<A>(divisor));
      o = end;
    }
  }

  /// Makes results of what was combined.
  void Finish(const AxisWindow& z, const AxisWindow& y, A* line) const {
    const index_t n = windows_.w.positions[2];
    switch (rule_.type) {
      case PoolType::kMax: {
        const bool inside = z.begin < z.end && y.begin < y.end;
        const bool first_and_last_inside =
            inside && !Empty(z, y, windows_.Along(2, n - 1)) && !Empty(z, y, windows_.Along(2, 0));
        if (first_and_last_inside && !rule_.zero_padding) return;
        for (index_t o = 0; o < n; ++o) {
          const AxisWindow x = windows_.Along(2, o);
          if (rule_.zero_padding && Padded(z, y, x)) {
            line[o] = Maximum::Combine(line[o], A(0));
          } else if (Empty(z, y, x)) {
            line[o] = Lowest();
          }
        }
        return;
      }
      case PoolType::kAvg:
        ForEachDivisor(z, y, [=](index_t first, index_t count, A divisor) {
          A* const to = line + first;
          ForEach(count, [=](index_t i) TESSERA_LOOP_BODY { to[i] /= divisor; });
        });
        return;
      case PoolType::kLp:
        if (rule_.power == 2) {
          ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { line[i] = std::sqrt(line[i]); });
        } else if (rule_.power == 3) {
          for (index_t i = 0; i < n; ++i) line[i] = std::cbrt(line[i]);
        }
        return;
      case PoolType::kSum:
        return;
    }
  }

  /// Divides a line's gradients by the divisors of its averages, or by the powers of its results.
  void DivideGradients(const AxisWindow& z, const AxisWindow& y, const A* pooled, A* g) const {
    const index_t n = windows_.w.positions[2];
    const int power = rule_.type == PoolType::kLp ? rule_.power : 1;
    if (rule_.type == PoolType::kAvg) {
      ForEachDivisor(z, y, [=](index_t first, index_t count, A divisor) {
        A* const to = g + first;
        ForEach(count, [=](index_t i) TESSERA_LOOP_BODY { to[i] /= divisor; });
      });
    } else if (power > 1) {
      for (index_t i = 0; i < n; ++i) {
        const A divisor = power == 2 ? pooled[i] : pooled[i] * pooled[i];
        g[i] = pooled[i] == A(0) ? A(0) : g[i] / divisor;
      }
    }
  }

  /// Adds a line's gradients to all elements of its windows. `shares` is scratch memory.
  void SpreadSums(const AxisWindow& z, const AxisWindow& y, A* g, const A* pooled, const A* image,
                  A* shares, A* grad) const {
    const index_t width = windows_.image[2], n = windows_.w.positions[2];
    const int power = rule_.type == PoolType::kLp ? rule_.power : 1;
    DivideGradients(z, y, pooled, g);
    std::fill_n(shares, width, A(0));
    const index_t stride = windows_.w.stride[2], pad = windows_.w.pad[2];
    if (windows_.FewWindows()) {
      for (index_t o = 0; o < n; ++o) {
        const AxisWindow x = windows_.Along(2, o);
        for (index_t i = x.begin; i < x.end; ++i) shares[i] += g[o];
      }
    } else {
      const auto [first_tap, last_tap] = windows_.TapsInImage();
      for (index_t tap = first_tap; tap < last_tap; ++tap) {
        const auto [first, last] = windows_.PositionsOf(tap);
        const A* const from = g + first;
        A* const to = shares + first * stride + tap - pad;
        for (index_t i = 0; i < last - first; ++i) to[i * stride] += from[i];
      }
    }
    for (index_t iz = z.begin; iz < z.end; ++iz) {
      for (index_t iy = y.begin; iy < y.end; ++iy) {
        const index_t row = (iz * windows_.image[1] + iy) * width;
        A* const to = grad + row;
        const A* const x = image + (power > 1 ? row : 0);
        if (power == 1) {
          ForEach(width, [=](index_t i) TESSERA_LOOP_BODY { to[i] += shares[i]; });
        } else if (power == 2) {
          ForEach(width, [=](index_t i) TESSERA_LOOP_BODY { to[i] += shares[i] * x[i]; });
        } else {
          ForEach(width, [=](index_t i) TESSERA_LOOP_BODY { to[i] += shares[i] * x[i] * x[i]; });
        }
      }
    }
  }

  /// Adds a line's gradients to the first maximum of each window. `best` is scratch memory.
  void SpreadToFirstMaxima(const AxisWindow& z, const AxisWindow& y, const A* g, const A* pooled,
                           const A* image, int32_t* best, A* grad) const {
    const index_t n = windows_.w.positions[2];
    const index_t stride = windows_.w.stride[2], pad = windows_.w.pad[2];
    std::fill_n(best, n, -1);
    const auto [first_tap, last_tap] = windows_.TapsInImage();
    // The search runs backwards and has no branches, because the position of the maximum is
    // unpredictable.
    for (index_t iz = z.end - 1; iz >= z.begin; --iz) {
      for (index_t iy = y.end - 1; iy >= y.begin; --iy) {
        const index_t row = (iz * windows_.image[1] + iy) * windows_.image[2];
        for (index_t tap = last_tap - 1; tap >= first_tap; --tap) {
          const auto [first, last] = windows_.PositionsOf(tap);
          const index_t offset = row + first * stride + tap - pad;
          const A* const from = image + offset;
          const A* const maximum = pooled + first;
          int32_t* const found = best + first;
          const int32_t at = static_cast<int32_t>(offset);
          if (stride == 1) {
            ForEach(last - first, [=](index_t i) TESSERA_LOOP_BODY {
              found[i] = from[i] == maximum[i] ? at + static_cast<int32_t>(i) : found[i];
            });
          } else if (stride == 2) {
            ForEach(last - first, [=](index_t i) TESSERA_LOOP_BODY {
              found[i] = from[2 * i] == maximum[i] ? at + static_cast<int32_t>(2 * i) : found[i];
            });
          } else {
            for (index_t i = 0; i < last - first; ++i) {
              if (from[i * stride] == maximum[i]) found[i] = at + static_cast<int32_t>(i * stride);
            }
          }
        }
      }
    }
    for (index_t o = 0; o < n; ++o) {
      if (best[o] >= 0) grad[best[o]] += g[o];
    }
  }

  void SpreadToAllMaxima(const AxisWindow& z, const AxisWindow& y, const A* g, const A* pooled,
                         const A* image, A* grad) const {
    for (index_t iz = z.begin; iz < z.end; ++iz) {
      for (index_t iy = y.begin; iy < y.end; ++iy) {
        const index_t row = (iz * windows_.image[1] + iy) * windows_.image[2];
        for (index_t o = 0; o < windows_.w.positions[2]; ++o) {
          const AxisWindow x = windows_.Along(2, o);
          for (index_t i = x.begin; i < x.end; ++i) {
            if (image[row + i] == pooled[o]) grad[row + i] += g[o];
          }
        }
      }
    }
  }

  const PoolRule rule_;
  const Windows windows_;
  const DType dtype_;
  const bool direct_;  ///< whether arrays hold elements of A
  const index_t planes_, image_size_, positions_;
  const bool is_whole_;  ///< whether the only window is the whole image, which has elements
};

/// Returns whether the powers of an lp pooling might overflow or underflow float, and so are
/// computed in double.
bool MayLeaveFloat(const PoolRule& rule, const TBlob& data) {
  if (rule.type != PoolType::kLp || rule.power == 1) return false;
  if (data.type_flag_ == DType::kFloat16) return false;
  constexpr index_t kBlock = 1024;
  const index_t size = data.shape_.Size();
  std::atomic<bool> found = false;
  ParallelFor((size + kBlock - 1) / kBlock, StepsPerTask(kBlock), [&](index_t begin, index_t end) {
    float buffer[kBlock];
    for (index_t block = begin; block < end; ++block) {
      const index_t n = std::min(kBlock, size - block * kBlock);
      const float* const x = RowReader<float>(data).Read(block * kBlock, n, buffer);
      // Sums of 10^11 cubes are finite, and cubes are normal numbers. A square that is infinite or
      // 0 counts, too.
      const auto is_extreme = [=](index_t i) TESSERA_LOOP_BODY {
        const float square = x[i] * x[i];
        return (square > 1e18f) | ((square < 1e-18f) & (x[i] != 0)) ? 1.0f : 0.0f;
      };
      // Others need not be ordered with it: the loop's end is what makes it visible.
      if (SumOf<float>(n, is_extreme) > 0) found.store(true, std::memory_order_relaxed);
    }
  });
  return found;
}

template <typename A>
void Forward(const PoolRule& rule, const PoolingWindow& window, const TBlob& data, OpReqType req,
             const TBlob& out) {
  const Pooling<A> pooling(rule, window, data);
  if (rule.type == PoolType::kMax) return pooling.template Forward<Maximum>(data, req, out);
  const int power = rule.type == PoolType::kLp ? rule.power : 1;
  if (power == 1) return pooling.template Forward<PowerSum<1>>(data, req, out);
  if (power == 2) return pooling.template Forward<PowerSum<2>>(data, req, out);
  pooling.template Forward<PowerSum<3>>(data, req, out);
}

}  // namespace

void PoolForward(const PoolRule& rule, const PoolingWindow& window, const TBlob& data,
                 OpReqType req, const TBlob& out) {
  if (req == kNullOp || out.Size() == 0) return;
  if (data.type_flag_ == DType::kFloat64 || MayLeaveFloat(rule, data)) {
    Forward<double>(rule, window, data, req, out);
  } else {
    Forward<float>(rule, window, data, req, out);
  }
}

void PoolBackward(const PoolRule& rule, const PoolingWindow& window, const TBlob& out_grad,
                  const TBlob& data, const TBlob& out, OpReqType req, const TBlob& grad) {
  if (req == kNullOp || grad.Size() == 0) return;
  if (data.type_flag_ == DType::kFloat64 || MayLeaveFloat(rule, data)) {
    Pooling<double>(rule, window, data).Backward(out_grad, data, out, req, grad);
  } else {
    Pooling<float>(rule, window, data).Backward(out_grad, data, out, req, grad);
  }
}

}  // namespace tessera::ops_internal
