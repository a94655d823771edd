#ifndef TESSERA_TENSOR_NN_PATCH_BATCH_H_
#define TESSERA_TENSOR_NN_PATCH_BATCH_H_

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/nn/patch.h"
#include "tessera/tensor/shape/row_map.h"

/// Patches of several images at once, which may be any expression: `unpack_patch2col(pad(images,
/// 1), 3, 3, 1)`. patch.h has the form with padding.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of unpack_patch2col for several images, which is described at the function.
template <typename E>
struct UnpackBatchExp : Exp<UnpackBatchExp<E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = 2;
  static constexpr int kImageRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kReusesOperand = true;
  static constexpr bool kIsMaterialized = IsMaterializedForReuse<E>();

  E e;
  PatchGeometry g;
  index_t channels, height;  // the operand's channels and height
  index_t out_y, out_x;      // the window's positions
  Shape<2> target;

  UnpackBatchExp(const E& images, const PatchGeometry& geometry)
      : e(images), g(tensor_internal::CheckedGeometry(geometry, "unpack_patch2col")) {
    const Shape<kImageRank> source = images.shape();
    channels = source[kImageRank - 3];
    height = source[kImageRank - 2];
    out_y = g.OutputY(height);
    out_x = g.OutputX(source[kImageRank - 1]);
    if (out_y <= 0 || out_x <= 0) {
      throw InvalidArgument("unpack_patch2col: a kernel of ", g.kernel_y, "x", g.kernel_x,
                            " with dilation ", g.dilate_y, "x", g.dilate_x,
                            " does not fit images of shape ", source);
    }
    target = tensor_internal::UnpackedShape(
        g, tensor_internal::CheckedProduct(source, 0, kImageRank - 3), channels, out_y, out_x,
        "unpack_patch2col");
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  UnpackBatchExp<A> WithOperands(const A& a) const {
    return {a, g};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    return WithOperands(MaterializeForReuse(e, scratch));
  }

  const Shape<2>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const Tap tap(g, y);
    const index_t line = x / out_x;
    return e.Eval(ImageRow(tap, line), (x - line * out_x) * g.stride_x + tap.x * g.dilate_x);
  }
  bool IsFlat() const { return false; }

  /// Copies contiguous parts of the images' rows, without a division for each element.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    const Tap tap(g, y);
    const index_t offset = tap.x * g.dilate_x;
    for (index_t x = begin; x < end;) {
      const index_t line = x / out_x;
      const index_t row = ImageRow(tap, line);
      const index_t first = x - line * out_x;
      const index_t count = std::min(out_x - first, end - x);
      if (g.stride_x == 1) {
        EvalSpan(e, row, first + offset, first + offset + count, out);
      } else {
        for (index_t i = 0; i < count; ++i) {
          out[i] = e.Eval(row, (first + i) * g.stride_x + offset);
        }
      }
      out += count;
      x += count;
    }
  }

 private:
  /// The channel and the tap of a row of the matrix.
  struct Tap {
    index_t channel, y, x;

    TESSERA_HD Tap(const PatchGeometry& g, index_t row) {
      const index_t rest = row / g.kernel_x;
      x = row - rest * g.kernel_x;
      channel = rest / g.kernel_y;
      y = rest - channel * g.kernel_y;
    }
  };
  /// Returns the operand's row under a tap at line (image, oy) of the window's positions.
  TESSERA_HD index_t ImageRow(const Tap& tap, index_t line) const {
    const index_t image = line / out_y;
    const index_t oy = line - image * out_y;
    return (image * channels + tap.channel) * height + oy * g.stride_y + tap.y * g.dilate_y;
  }
};

/// The node of pack_col2patch for several images, which is described at the function.
template <int N, typename E>
struct PackBatchExp : Exp<PackBatchExp<N, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E e;
  PatchGeometry g;
  Shape<N> target;
  index_t out_y, out_x;

  PackBatchExp(const E& matrix, const Shape<N>& images, const PatchGeometry& geometry)
      : e(matrix),
        g(tensor_internal::CheckedGeometry(geometry, "pack_col2patch")),
        target(images),
        out_y(geometry.OutputY(images[N - 2])),
        out_x(geometry.OutputX(images[N - 1])) {
    const Shape<2> expected =
        tensor_internal::UnpackedShape(g, tensor_internal::CheckedProduct(images, 0, N - 3),
                                       images[N - 3], out_y, out_x, "pack_col2patch");
    if (matrix.shape() != expected || out_y <= 0 || out_x <= 0) {
      throw InvalidArgument("pack_col2patch: the matrix has shape ", matrix.shape(),
                            ", but images of shape ", images, " unpack to ", expected);
    }
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  PackBatchExp<N, A> WithOperands(const A& a) const {
    return {a, target, g};
  }

  const Shape<N>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const Line line(*this, y);
    Accumulator sum = Accumulator(0);
    for (index_t tap_y = 0; tap_y < g.kernel_y; ++tap_y) {
      const index_t from_y = line.y - tap_y * g.dilate_y;
      if (from_y < 0 || from_y % g.stride_y != 0 || from_y / g.stride_y >= out_y) continue;
      for (index_t tap_x = 0; tap_x < g.kernel_x; ++tap_x) {
        const index_t from_x = x - tap_x * g.dilate_x;
        if (from_x < 0 || from_x % g.stride_x != 0 || from_x / g.stride_x >= out_x) continue;
        sum += static_cast<Accumulator>(
            e.Eval((line.channel * g.kernel_y + tap_y) * g.kernel_x + tap_x,
                   line.FirstColumn(*this, from_y / g.stride_y) + from_x / g.stride_x));
      }
    }
    return static_cast<value_type>(sum);
  }
  bool IsFlat() const { return false; }

  /// Adds contiguous parts of the matrix's rows, tap by tap in the order in which Eval adds.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if constexpr (!std::is_same_v<value_type, Accumulator>) {
      for (index_t x = begin; x < end; ++x) *out++ = Eval(y, x);
    } else if (begin < end) {
      std::fill_n(out, end - begin, value_type(0));
      const E matrix = e;
      const Line line(*this, y);
      for (index_t tap_y = 0; tap_y < g.kernel_y; ++tap_y) {
        const index_t from_y = line.y - tap_y * g.dilate_y;
        if (from_y < 0 || from_y % g.stride_y != 0 || from_y / g.stride_y >= out_y) continue;
        const index_t column = line.FirstColumn(*this, from_y / g.stride_y);
        for (index_t tap_x = 0; tap_x < g.kernel_x; ++tap_x) {
          const index_t row = (line.channel * g.kernel_y + tap_y) * g.kernel_x + tap_x;
          const index_t offset = tap_x * g.dilate_x;
          const index_t free = begin - offset;
          const index_t first = free <= 0 ? 0 : (free - 1) / g.stride_x + 1;
          const index_t last =
              end <= offset ? 0 : std::min(out_x, (end - 1 - offset) / g.stride_x + 1);
          for (index_t ox = first; ox < last; ++ox) {
            value_type& sum = out[ox * g.stride_x + offset - begin];
            sum = static_cast<value_type>(sum + matrix.Eval(row, column + ox));
          }
        }
      }
    }
  }

 private:
  /// The image, channel and y of a row of the result.
  struct Line {
    index_t image, channel, y;

    TESSERA_HD Line(const PackBatchExp& pack, index_t row) {
      const index_t plane = row / pack.target[N - 2];
      y = row - plane * pack.target[N - 2];
      image = plane / pack.target[N - 3];
      channel = plane - image * pack.target[N - 3];
    }
    /// Returns the matrix's column for position (oy, 0) in the image.
    TESSERA_HD index_t FirstColumn(const PackBatchExp& pack, index_t oy) const {
      return (image * pack.out_y + oy) * pack.out_x;
    }
  };
};

/// Returns the matrix whose columns are the patches under a moving window, so that a convolution of
/// all images becomes one product of matrices.
///
/// Shapes: images (channel, height, width) or (…, channel, height, width); result (channel *
/// kernel_y * kernel_x, images * out_y * out_x). Row (c, ky, kx) and column (n, oy, ox) of the
/// result hold element (n, c, oy * stride_y + ky * dilate_y, ox * stride_x + kx * dilate_x). The
/// shorter forms have one stride and one dilation for both axes. An operand that is a function of
/// others, such as tanh(x), is materialized in a temporary. Throws Error(kInvalidArgument) if the
/// window does not fit the images, or if a size, stride or dilation is below 1.
template <Operand E>
UnpackBatchExp<OperandNode<E>> unpack_patch2col(const E& images, index_t kernel_y, index_t kernel_x,
                                                index_t stride_y, index_t stride_x,
                                                index_t dilate_y, index_t dilate_x) {
  static_assert(E::kRank >= 3,
                "unpack_patch2col: the last three dimensions are (channel, height, width)");
  return {AsNode(images), {kernel_y, kernel_x, stride_y, stride_x, dilate_y, dilate_x}};
}
template <Operand E>
auto unpack_patch2col(const E& images, index_t kernel_y, index_t kernel_x, index_t stride,
                      index_t dilate = 1) {
  return unpack_patch2col(images, kernel_y, kernel_x, stride, stride, dilate, dilate);
}
template <Operand E>
auto unpack_patch2col(const E& images, index_t kernel, index_t stride) {
  return unpack_patch2col(images, kernel, kernel, stride, stride, 1, 1);
}

/// Returns the transpose of unpack_patch2col: each element of the images is the sum of the matrix
/// elements that were copied from it, in the order of the taps. half and bfloat16 accumulate in
/// float. Throws Error(kInvalidArgument) unless the matrix has the shape of the unpacked images.
template <Operand E, int N>
PackBatchExp<N, OperandNode<E>> pack_col2patch(const E& matrix, const Shape<N>& images,
                                               index_t kernel_y, index_t kernel_x, index_t stride_y,
                                               index_t stride_x, index_t dilate_y,
                                               index_t dilate_x) {
  static_assert(E::kRank == 2, "pack_col2patch: what is packed is a matrix");
  static_assert(N >= 3, "pack_col2patch: the images' last dimensions are (channel, height, width)");
  return {AsNode(matrix), images, {kernel_y, kernel_x, stride_y, stride_x, dilate_y, dilate_x}};
}
template <Operand E, int N>
auto pack_col2patch(const E& matrix, const Shape<N>& images, index_t kernel_y, index_t kernel_x,
                    index_t stride, index_t dilate = 1) {
  return pack_col2patch(matrix, images, kernel_y, kernel_x, stride, stride, dilate, dilate);
}
template <Operand E, int N>
auto pack_col2patch(const E& matrix, const Shape<N>& images, index_t kernel, index_t stride) {
  return pack_col2patch(matrix, images, kernel, kernel, stride, stride, 1, 1);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::pack_col2patch;
using expr::unpack_patch2col;

}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_PATCH_BATCH_H_
