#include <algorithm>
#include <vector>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/nn/pooling_loops.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

/// The elements [begin, end) of a window along one axis.
struct Range {
  index_t begin, end;

  Range(const PoolingWindow& w, const WindowExtents& image, size_t axis, index_t position) {
    const index_t first = position * w.stride[axis] - w.pad[axis];
    begin = std::max<index_t>(0, first);
    end = std::min(first + w.kernel[axis], image[axis]);
  }
};

/// Returns the first maximum of a window in an image, or -1 if it has no element or a NaN.
template <typename A>
index_t FirstMaximum(const A* image, const WindowExtents& extents, const Range& z, const Range& y,
                     const Range& x) {
  // The other ranges of a window without elements may be long.
  if (y.begin >= y.end || x.begin >= x.end) return -1;
  index_t best = -1;
  for (index_t iz = z.begin; iz < z.end; ++iz) {
    for (index_t iy = y.begin; iy < y.end; ++iy) {
      const index_t row = (iz * extents[1] + iy) * extents[2];
      for (index_t i = row + x.begin; i < row + x.end; ++i) {
        if (image[i] != image[i]) return -1;
        if (best < 0 || image[i] > image[best]) best = i;
      }
    }
  }
  return best;
}

/// Picks in arithmetic of A: float or double.
template <typename A>
void Pick(const PoolingWindow& w, const TBlob& values, const TBlob& data, OpReqType req,
          const TBlob& out) {
  const WindowExtents image = SpatialExtents(data.shape_);
  const index_t planes = data.shape_[0] * data.shape_[1];
  const index_t size = Volume(image), positions = Volume(w.positions);
  const index_t window_size = std::min(Volume(w.kernel), size);
  ParallelFor(
      planes, StepsPerTask(size + positions * window_size), [&](index_t begin, index_t end) {
        std::vector<A> maxima(static_cast<size_t>(size)), from(maxima),
            to(static_cast<size_t>(positions));
        for (index_t plane = begin; plane < end; ++plane) {
          RowReader<A>(data).Copy(plane * size, size, maxima.data());
          RowReader<A>(values).Copy(plane * size, size, from.data());
          for (index_t o = 0; o < positions; ++o) {
            const index_t line = o / w.positions[2];
            const index_t best = FirstMaximum(
                maxima.data(), image, Range(w, image, 0, line / w.positions[1]),
                Range(w, image, 1, line % w.positions[1]), Range(w, image, 2, o % w.positions[2]));
            to[static_cast<size_t>(o)] = best < 0 ? A(0) : from[static_cast<size_t>(best)];
          }
          RowWriter<A>(out, req).Write(plane * positions, positions, to.data());
        }
      });
}

}  // namespace

void PickMaxima(const PoolingWindow& window, const TBlob& values, const TBlob& data, OpReqType req,
                const TBlob& out) {
  if (req == kNullOp || out.Size() == 0) return;
  if (data.type_flag_ == DType::kFloat64) {
    Pick<double>(window, values, data, req, out);
  } else {
    Pick<float>(window, values, data, req, out);
  }
}

}  // namespace tessera::ops_internal
