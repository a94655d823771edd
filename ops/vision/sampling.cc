#include "tessera/ops/vision/sampling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

/// The points that are located before their pixels are read.
constexpr index_t kBlock = 256;
/// The cost of a point for each channel, and of its location, see tensor/expr/cost.h.
constexpr index_t kCost = 8;

/// The pixels around a point: (top, left), (top, right), (bottom, left), (bottom, right).
template <typename T>
struct Point {
  index_t pixel[4];  ///< of the plane, or -1 outside of it
  T top, left;       ///< the weights of the upper row and of the left column

  T Weight(int k) const { return (k < 2 ? top : 1 - top) * (k % 2 == 0 ? left : 1 - left); }
  T Value(const T* plane, int k) const { return pixel[k] < 0 ? T(0) : plane[pixel[k]]; }
};

template <typename T>
Point<T> Locate(const SamplingExtents& e, T grid_x, T grid_y) {
  const T y = (grid_y + 1) * static_cast<T>(e.height - 1) / 2;
  const T x = (grid_x + 1) * static_cast<T>(e.width - 1) / 2;
  const T y0 = std::floor(y), x0 = std::floor(x);
  // NaN and what no integer holds are outside.
  const auto inside = [](T i, index_t extent) { return i >= 0 && i <= static_cast<T>(extent - 1); };
  Point<T> point;
  point.top = 1 - (y - y0);
  point.left = 1 - (x - x0);
  for (int k = 0; k < 4; ++k) {
    const T row = k < 2 ? y0 : y0 + 1, column = k % 2 == 0 ? x0 : x0 + 1;
    const bool in_plane = inside(row, e.height) && inside(column, e.width);
    point.pixel[k] =
        in_plane ? static_cast<index_t>(row) * e.width + static_cast<index_t>(column) : -1;
  }
  return point;
}

/// Locates points [first, first + count) of sample n.
template <typename T>
void LocateAll(const SamplingExtents& e, const T* grid, index_t n, index_t first, index_t count,
               Point<T>* points) {
  const T* const x = grid + 2 * n * e.points + first;
  const T* const y = x + e.points;
  for (index_t i = 0; i < count; ++i) points[i] = Locate(e, x[i], y[i]);
}

/// Calls body(n, first, count) for blocks of points of all samples, in parallel.
template <typename Body>
void ForEachBlock(const SamplingExtents& e, const Body& body) {
  const index_t blocks = (e.points + kBlock - 1) / kBlock;
  const index_t work = std::min(kBlock, e.points) * (e.channels + 2);
  ParallelFor(e.batch * blocks, StepsPerTask(work, kCost), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const index_t first = i % blocks * kBlock;
      body(i / blocks, first, std::min(kBlock, e.points - first));
    }
  });
}

/// Returns coordinate i of `extent` that divide [-1, 1] evenly.
template <typename T>
T EvenCoordinate(index_t i, index_t extent) {
  return T(-1) + static_cast<T>(i) * (T(2) / static_cast<T>(extent - 1));
}

}  // namespace

template <typename T>
void SampleImages(const SamplingExtents& e, const T* images, const T* grid, OpReqType req,
                  const TBlob& out) {
  if (req == kNullOp || out.shape_.Size() == 0) return;
  ForEachBlock(e, [&](index_t n, index_t first, index_t count) {
    Point<T> points[kBlock];
    T line[kBlock];
    LocateAll(e, grid, n, first, count, points);
    for (index_t c = 0; c < e.channels; ++c) {
      const index_t plane = n * e.channels + c;
      const T* const pixels = images + plane * e.PlaneSize();
      for (index_t i = 0; i < count; ++i) {
        T sum = 0;
        for (int k = 0; k < 4; ++k) sum += points[i].Value(pixels, k) * points[i].Weight(k);
        line[i] = sum;
      }
      RowWriter<T>(out, req).Write(plane * e.points + first, count, line);
    }
  });
}

template <typename T>
void ImageGradient(const SamplingExtents& e, const T* grid, const T* g, OpReqType req,
                   const TBlob& grad) {
  if (req == kNullOp || grad.shape_.Size() == 0) return;
  const index_t size = e.PlaneSize();
  const index_t steps = StepsPerTask(size + e.points, kCost);
  ParallelFor(e.batch * e.channels, steps, [&](index_t begin, index_t end) {
    std::vector<Point<T>> points(static_cast<size_t>(e.points));
    std::vector<T> sums(static_cast<size_t>(size));
    for (index_t plane = begin; plane < end; ++plane) {
      const index_t n = plane / e.channels;
      if (plane == begin || plane % e.channels == 0) {
        LocateAll(e, grid, n, 0, e.points, points.data());
      }
      std::fill(sums.begin(), sums.end(), T(0));
      const T* head = g + plane * e.points;
      for (const Point<T>& point : points) {
        for (int k = 0; k < 4; ++k) {
          if (point.pixel[k] < 0) continue;
          sums[static_cast<size_t>(point.pixel[k])] += *head * point.Weight(k);
        }
        ++head;
      }
      RowWriter<T>(grad, req).Write(plane * size, size, sums.data());
    }
  });
}

template <typename T>
void GridGradient(const SamplingExtents& e, const T* images, const T* grid, const T* g,
                  OpReqType req, const TBlob& grad) {
  if (req == kNullOp || grad.shape_.Size() == 0) return;
  ForEachBlock(e, [&](index_t n, index_t first, index_t count) {
    Point<T> points[kBlock];
    T of_x[kBlock] = {}, of_y[kBlock] = {};
    LocateAll(e, grid, n, first, count, points);
    for (index_t c = 0; c < e.channels; ++c) {
      const index_t plane = n * e.channels + c;
      const T* const pixels = images + plane * e.PlaneSize();
      const T* const head = g + plane * e.points + first;
      for (index_t i = 0; i < count; ++i) {
        const Point<T>& p = points[i];
        const T top_left = p.Value(pixels, 0), top_right = p.Value(pixels, 1);
        const T bottom_left = p.Value(pixels, 2), bottom_right = p.Value(pixels, 3);
        const T twist = top_left - top_right - bottom_left + bottom_right;
        of_x[i] -= head[i] * (bottom_left - bottom_right + twist * p.top);
        of_y[i] -= head[i] * (top_right - bottom_right + twist * p.left);
      }
    }
    for (index_t i = 0; i < count; ++i) {
      of_x[i] *= static_cast<T>(e.width - 1) / 2;
      of_y[i] *= static_cast<T>(e.height - 1) / 2;
    }
    const index_t at = 2 * n * e.points + first;
    RowWriter<T>(grad, req).Write(at, count, of_x);
    RowWriter<T>(grad, req).Write(at + e.points, count, of_y);
  });
}

template <typename T>
void AffineGrid(const AffineExtents& e, const T* matrices, OpReqType req, const TBlob& grid) {
  if (req == kNullOp || grid.shape_.Size() == 0) return;
  // A step is one row of the x or of the y of a sample.
  ParallelFor(2 * e.batch * e.height, StepsPerTask(e.width), [&](index_t begin, index_t end) {
    std::vector<T> even(static_cast<size_t>(e.width)), line(static_cast<size_t>(e.width));
    for (index_t i = 0; i < e.width; ++i) {
      even[static_cast<size_t>(i)] = EvenCoordinate<T>(i, e.width);
    }
    for (index_t row = begin; row < end; ++row) {
      const T* const m = matrices + 3 * (row / e.height);
      const T slope = m[0], of_y = m[1] * EvenCoordinate<T>(row % e.height, e.height), shift = m[2];
      const T* const x = even.data();
      T* const to = line.data();
      ForEach(e.width, [=](index_t i) TESSERA_LOOP_BODY { to[i] = slope * x[i] + of_y + shift; });
      RowWriter<T>(grid, req).Write(row * e.width, e.width, to);
    }
  });
}

template <typename T>
void MatrixGradient(const AffineExtents& e, const T* g, OpReqType req, const TBlob& grad) {
  if (req == kNullOp || grad.shape_.Size() == 0) return;
  ParallelFor(2 * e.batch, StepsPerTask(e.height * e.width), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      double sums[3] = {};
      for (index_t y = 0; y < e.height; ++y) {
        const T* const line = g + (i * e.height + y) * e.width;
        double of_line = 0;
        for (index_t x = 0; x < e.width; ++x) {
          of_line += line[x];
          sums[0] += line[x] * EvenCoordinate<T>(x, e.width);
        }
        sums[1] += of_line * EvenCoordinate<T>(y, e.height);
        sums[2] += of_line;
      }
      RowWriter<double>(grad, req).Write(3 * i, 3, sums);
    }
  });
}

#define TESSERA_SAMPLING(T)                                                                        \
  template void SampleImages(const SamplingExtents&, const T*, const T*, OpReqType, const TBlob&); \
  template void ImageGradient(const SamplingExtents&, const T*, const T*, OpReqType,               \
                              const TBlob&);                                                       \
  template void GridGradient(const SamplingExtents&, const T*, const T*, const T*, OpReqType,      \
                             const TBlob&);                                                        \
  template void AffineGrid(const AffineExtents&, const T*, OpReqType, const TBlob&);               \
  template void MatrixGradient(const AffineExtents&, const T*, OpReqType, const TBlob&)
TESSERA_SAMPLING(float);
TESSERA_SAMPLING(double);
#undef TESSERA_SAMPLING

}  // namespace tessera::ops_internal
