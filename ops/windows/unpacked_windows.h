#ifndef TESSERA_OPS_WINDOWS_UNPACKED_WINDOWS_H_
#define TESSERA_OPS_WINDOWS_UNPACKED_WINDOWS_H_

#include <algorithm>

#include "tessera/base/shape.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera::ops_internal {

/// Positions of a result: whole lines (rows of the last axis), or a part of one line.
struct PositionTile {
  index_t line_begin = 0, line_end = 0;
  index_t x_begin = 0, x_end = 0;

  index_t size() const { return (line_end - line_begin) * (x_end - x_begin); }
};

/// The windows of a convolution as rows (im2col): the row of a channel's tap has the element under
/// that tap for each position, and 0 outside of the image.
template <typename A>
class UnpackedWindows {
 public:
  /// The geometry must outlive this object.
  explicit UnpackedWindows(const ConvolutionGeometry& geometry)
      : g_(geometry),
        lines_alike_(g_.image[0] == 1 && g_.kernel[0] == 1 && g_.pad[0] == 0 &&
                     Volume(g_.stride) == 1 && g_.positions[2] == g_.image[2]) {}

  /// Return the tile of all positions, and the first position of a tile.
  PositionTile AllPositions() const {
    return {0, g_.positions[0] * g_.positions[1], 0, g_.positions[2]};
  }
  index_t Begin(const PositionTile& tile) const {
    return tile.line_begin * g_.positions[2] + tile.x_begin;
  }

  /// Returns the coordinates of a tap in the kernel.
  WindowExtents TapAt(index_t tap) const {
    const index_t x = tap % g_.kernel[2], rest = tap / g_.kernel[2];
    return {rest / g_.kernel[1], rest % g_.kernel[1], x};
  }
  /// Return the place of a tap: its coordinate at position o is o * stride + offset.
  WindowExtents OffsetOf(const WindowExtents& tap) const {
    return {tap[0] * g_.dilate[0] - g_.pad[0], tap[1] * g_.dilate[1] - g_.pad[1],
            tap[2] * g_.dilate[2] - g_.pad[2]};
  }
  WindowExtents TapOffset(index_t tap) const { return OffsetOf(TapAt(tap)); }

  /// Calls visit(i, o, n) for the runs of positions of the tile at which a tap lies in the image: n
  /// elements from position o on, counted from the tile's first, and from the plane's element i on,
  /// stride[2] apart.
  template <typename Visit>
  __attribute__((always_inline)) void ForEachRun(const WindowExtents& offset,
                                                 const PositionTile& tile,
                                                 const Visit& visit) const {
    const index_t stride = g_.stride[2], width = g_.positions[2];
    const auto ceiling = [stride](index_t n) { return n <= 0 ? 0 : (n - 1) / stride + 1; };
    const index_t x_begin = std::max(tile.x_begin, ceiling(-offset[2]));
    const index_t x_end = std::min(tile.x_end, ceiling(g_.image[2] - offset[2]));
    if (x_begin >= x_end) return;
    const index_t begin = Begin(tile);
    index_t oz = tile.line_begin / g_.positions[1];
    index_t oy = tile.line_begin - oz * g_.positions[1];
    for (index_t line = tile.line_begin; line < tile.line_end; ++line) {
      const index_t z = oz * g_.stride[0] + offset[0], y = oy * g_.stride[1] + offset[1];
      if (z >= 0 && z < g_.image[0] && y >= 0 && y < g_.image[1]) {
        visit((z * g_.image[1] + y) * g_.image[2] + x_begin * stride + offset[2],
              line * width + x_begin - begin, x_end - x_begin);
      }
      if (++oy == g_.positions[1]) {
        oy = 0;
        ++oz;
      }
    }
  }

  /// Writes a row of the unpacked image at a tile's positions.
  void UnpackRow(const A* plane, const WindowExtents& offset, const PositionTile& tile,
                 A* to) const {
    if (lines_alike_ && tile.x_end - tile.x_begin == g_.positions[2]) {
      return UnpackLines(plane, offset, tile, to);
    }
    index_t written = 0;
    const index_t stride = g_.stride[2];
    ForEachRun(offset, tile, [&](index_t i, index_t o, index_t n) {
      std::fill_n(to + written, o - written, A(0));
      const A* const from = plane + i;
      A* const out = to + o;
      if (stride == 1) {
        std::copy_n(from, n, out);
      } else if (stride == 2) {
        for (index_t k = 0; k < n; ++k) out[k] = from[2 * k];
      } else {
        for (index_t k = 0; k < n; ++k) out[k] = from[k * stride];
      }
      written = o + n;
    });
    std::fill_n(to + written, tile.size() - written, A(0));
  }

  /// Writes positions [begin, end) of a row of the unpacked image.
  void UnpackRange(const A* plane, const WindowExtents& offset, index_t begin, index_t end,
                   A* to) const {
    const index_t width = g_.positions[2], last = end / width, x_end = end % width;
    index_t first = begin / width;
    const index_t x_begin = begin % width;
    if (first == last) return UnpackRow(plane, offset, {first, first + 1, x_begin, x_end}, to);
    if (x_begin > 0) {
      UnpackRow(plane, offset, {first, first + 1, x_begin, width}, to);
      to += width - x_begin;
      ++first;
    }
    if (first < last) UnpackRow(plane, offset, {first, last, 0, width}, to);
    if (x_end > 0) {
      UnpackRow(plane, offset, {last, last + 1, 0, x_end}, to + (last - first) * width);
    }
  }

  /// Adds a row of the unpacked image to the plane that it came from.
  void PackRow(const A* from, const WindowExtents& offset, const PositionTile& tile,
               A* plane) const {
    RunLoop([=, this]() TESSERA_LOOP_BODY {
      const index_t stride = g_.stride[2];
      ForEachRun(offset, tile, [=](index_t i, index_t o, index_t n) TESSERA_LOOP_BODY {
        A* const to = plane + i;
        const A* const in = from + o;
        if (stride == 1) {
#pragma GCC ivdep
          for (index_t k = 0; k < n; ++k) to[k] += in[k];
        } else {
          for (index_t k = 0; k < n; ++k) to[k * stride] += in[k];
        }
      });
    });
  }

 private:
  /// UnpackRow where lines are as far apart in the result as in the image. One shifted copy moves
  /// all of them; what it carries from a line's end into the next one's padding is cleared.
  void UnpackLines(const A* plane, const WindowExtents& offset, const PositionTile& tile,
                   A* to) const {
    const index_t width = g_.positions[2];
    const index_t first = std::clamp(-offset[1], tile.line_begin, tile.line_end);
    const index_t last = std::clamp(g_.image[1] - offset[1], first, tile.line_end);
    const index_t left = std::clamp<index_t>(-offset[2], 0, width);
    const index_t right = std::clamp<index_t>(width - offset[2], left, width);
    if (first == last || left == right) {
      std::fill_n(to, tile.size(), A(0));
      return;
    }
    std::fill_n(to, (first - tile.line_begin) * width, A(0));
    A* const begin = to + (first - tile.line_begin) * width;
    std::copy_n(plane + (first + offset[1]) * width + left + offset[2],
                (last - 1 - first) * width + right - left, begin + left);
    for (A* line = begin; line != begin + (last - first) * width; line += width) {
      for (index_t x = 0; x < left; ++x) line[x] = A(0);
      for (index_t x = right; x < width; ++x) line[x] = A(0);
    }
    std::fill_n(begin + (last - first) * width, (tile.line_end - last) * width, A(0));
  }

  const ConvolutionGeometry& g_;
  const bool lines_alike_;  ///< whether lines of one image have the same distance as positions
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_UNPACKED_WINDOWS_H_
