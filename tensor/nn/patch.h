#ifndef TESSERA_TENSOR_NN_PATCH_H_
#define TESSERA_TENSOR_NN_PATCH_H_

#include <algorithm>
#include <optional>
#include <tuple>
#include <type_traits>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/device/size_bytes.h"
#include "tessera/tensor/nn/patch_planes.h"

namespace tessera {

/// The movement of a two-dimensional window over an image that is padded with zeros on every side.
struct PatchGeometry {
  index_t kernel_y = 1, kernel_x = 1;  ///< the window's size, in taps
  index_t stride_y = 1, stride_x = 1;  ///< pixels from one position to the next
  index_t dilate_y = 1, dilate_x = 1;  ///< pixels from one tap to the next
  index_t pad_y = 0, pad_x = 0;        ///< zeros on each side

  /// Return the number of positions of the window along an axis of `extent` elements, or 0 if it
  /// does not fit. Throw Error(kInvalidArgument) if a size, stride or padding is out of range, or
  /// if the length of the padded axis or of the window overflows.
  index_t OutputY(index_t extent) const {
    return Positions(extent, pad_y, kernel_y, dilate_y, stride_y);
  }
  index_t OutputX(index_t extent) const {
    return Positions(extent, pad_x, kernel_x, dilate_x, stride_x);
  }

 private:
  static index_t Positions(index_t extent, index_t pad, index_t kernel, index_t dilate,
                           index_t stride) {
    const auto padded = (CheckedSize(extent) + pad + pad).value();
    const auto window = kernel < 1 ? std::nullopt : (CheckedSize(kernel - 1) * dilate + 1).value();
    if (!padded || !window || stride < 1) {
      throw InvalidArgument("PatchGeometry: an axis of ", extent, " elements padded by ", pad,
                            " and a window of ", kernel, " taps that lie ", dilate,
                            " apart, in steps of ", stride,
                            ", must be positive and their lengths below 2^63");
    }
    return *padded < *window ? 0 : (*padded - *window) / stride + 1;
  }
};

namespace tensor_internal {

/// Returns the geometry. Throws Error(kInvalidArgument) unless kernels, strides and dilations are
/// at least 1 and padding is at least 0.
inline const PatchGeometry& CheckedGeometry(const PatchGeometry& g, const char* operation) {
  if (g.kernel_y < 1 || g.kernel_x < 1 || g.stride_y < 1 || g.stride_x < 1 || g.dilate_y < 1 ||
      g.dilate_x < 1 || g.pad_y < 0 || g.pad_x < 0) {
    throw InvalidArgument(operation, ": kernel ", g.kernel_y, "x", g.kernel_x, ", stride ",
                          g.stride_y, "x", g.stride_x, " and dilation ", g.dilate_y, "x",
                          g.dilate_x, " must be at least 1, padding ", g.pad_y, "x", g.pad_x,
                          " at least 0");
  }
  return g;
}

/// Returns the shape of the matrix that images unpack to. Throws Error(kInvalidArgument) if it
/// overflows, or if an extent of the images is negative.
inline Shape<2> UnpackedShape(const PatchGeometry& g, CheckedSize images, index_t channels,
                              index_t out_y, index_t out_x, const char* operation) {
  const auto rows = (CheckedSize(channels) * g.kernel_y * g.kernel_x).value();
  const auto columns = (images * out_y * out_x).value();
  if (!rows || !columns) {
    throw InvalidArgument(operation, ": a kernel of ", g.kernel_y, "x", g.kernel_x, " over ",
                          channels, " channels at ", out_y, "x", out_x,
                          " positions gives a matrix with an extent that is negative or not below "
                          "2^63");
  }
  return CountableShape(Shape2(*rows, *columns), operation);
}

/// Returns the window over planes of the image's (channel, height, width) if it moves by single
/// steps, else nothing.
inline std::optional<PlaneWindow> SamePlaneWindow(const PatchGeometry& g, const Shape<3>& image) {
  if (g.stride_y != 1 || g.stride_x != 1) return std::nullopt;
  return PlaneWindow{image[1],   image[2],   g.kernel_y, g.kernel_x,
                     g.dilate_y, g.dilate_x, g.pad_y,    g.pad_x};
}

}  // namespace tensor_internal

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The output positions [begin, end) of an axis at which a tap is inside the image. The tap's
/// coordinate at position o is o * stride + offset.
struct TapRange {
  index_t begin;
  index_t end;

  TESSERA_HD TapRange(index_t offset, index_t stride, index_t extent, index_t positions) {
    if (stride == 1) {  // the common case avoids two divisions a row
      begin = offset >= 0 ? 0 : -offset;
      end = extent - offset;
    } else {
      begin = offset >= 0 ? 0 : (-offset - 1) / stride + 1;
      end = offset >= extent ? 0 : (extent - 1 - offset) / stride + 1;
    }
    if (begin > positions) begin = positions;
    if (end > positions) end = positions;
    if (end < begin) end = begin;
  }
};

/// The node of unpack_patch2col, which is described at the function.
template <typename E>
struct UnpackPatchExp : Exp<UnpackPatchExp<E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using T = value_type;
  static constexpr int kRank = 2;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kReusesOperand = true;
  static constexpr bool kIsMaterialized = IsMaterializedForReuse<E>();

  E image;
  Shape<3> image_shape;
  PatchGeometry g;
  index_t out_y, out_x;
  Shape<2> target;

  UnpackPatchExp(const E& source, const PatchGeometry& geometry)
      : image(source),
        image_shape(source.shape()),
        g(tensor_internal::CheckedGeometry(geometry, "unpack_patch2col")),
        out_y(geometry.OutputY(image_shape[1])),
        out_x(geometry.OutputX(image_shape[2])) {
    if (out_y <= 0 || out_x <= 0) {
      throw InvalidArgument("unpack_patch2col: a kernel of ", g.kernel_y, "x", g.kernel_x,
                            " with dilation ", g.dilate_y, "x", g.dilate_x,
                            " does not fit an image of shape ", image_shape, " padded by ", g.pad_y,
                            "x", g.pad_x);
    }
    target = tensor_internal::UnpackedShape(g, 1, image_shape[0], out_y, out_x, "unpack_patch2col");
  }
  const Shape<2>& shape() const { return target; }
  std::tuple<E> operands() const { return {image}; }
  template <typename NewE>
  auto WithOperands(const NewE& new_image) const {
    return UnpackPatchExp<NewE>(new_image, g);
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    return WithOperands(MaterializeForReuse(image, scratch));
  }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    const index_t tap_x = y % g.kernel_x;
    const index_t rest = y / g.kernel_x;
    const index_t tap_y = rest % g.kernel_y;
    const index_t channel = rest / g.kernel_y;
    const index_t iy = (x / out_x) * g.stride_y + tap_y * g.dilate_y - g.pad_y;
    const index_t ix = (x % out_x) * g.stride_x + tap_x * g.dilate_x - g.pad_x;
    if (iy < 0 || iy >= image_shape[1] || ix < 0 || ix >= image_shape[2]) return T(0);
    return image.Eval(channel * image_shape[1] + iy, ix);
  }
  bool IsFlat() const { return false; }

  /// Writes rows [begin, end) of the matrix by masked copies of whole planes. Returns false, and
  /// writes nothing, unless the planes are small.
  bool EvalRows(index_t begin, index_t end, T* data, index_t stride) const
      requires(kIsTensor<E>&& std::is_same_v<T, float>) {
    if (image.stride_ != image_shape[2]) return false;
    const auto window = tensor_internal::SamePlaneWindow(g, image_shape);
    if (!window || !tensor_internal::MovesPlanes(*window)) return false;
    tensor_internal::UnpackPlanes(*window, image.dptr_, begin, end, data, stride);
    return true;
  }

  /// Copies contiguous parts of an image in memory, without a division for each element.
  void EvalRow(index_t y, index_t begin, index_t end, T* out) const requires kIsTensor<E> {
    if (begin != 0 || end != out_y * out_x) {
      for (index_t x = begin; x < end; ++x) *out++ = Eval(y, x);
      return;
    }
    const index_t tap_x = y % g.kernel_x;
    const index_t rest = y / g.kernel_x;
    const index_t offset_x = tap_x * g.dilate_x - g.pad_x;
    const index_t offset_y = rest % g.kernel_y * g.dilate_y - g.pad_y;
    const T* plane = image.dptr_ + rest / g.kernel_y * image_shape[1] * image.stride_;
    const TapRange columns(offset_x, g.stride_x, image_shape[2], out_x);
    const TapRange rows(offset_y, g.stride_y, image_shape[1], out_y);
    if (rows.begin == rows.end || columns.begin == columns.end) {
      std::fill_n(out, out_y * out_x, T(0));
      return;
    }
    std::fill_n(out, rows.begin * out_x, T(0));
    std::fill(out + rows.end * out_x, out + out_y * out_x, T(0));
    const T* from = plane + (rows.begin * g.stride_y + offset_y) * image.stride_ + offset_x;
    if (g.stride_x == 1 && g.stride_y == 1 && image.stride_ == out_x) {
      // The image's rows are as far apart as the result's. One shifted copy therefore moves all of
      // them. The elements that it carries from a row's end into the next row's padding are cleared
      // afterwards.
      std::copy(from + columns.begin, from + (rows.end - 1 - rows.begin) * out_x + columns.end,
                out + rows.begin * out_x + columns.begin);
    } else {
      for (index_t oy = rows.begin; oy < rows.end; ++oy) {
        const T* const row = from + (oy - rows.begin) * g.stride_y * image.stride_;
        T* const to = out + oy * out_x;
        for (index_t ox = columns.begin; ox < columns.end; ++ox) to[ox] = row[ox * g.stride_x];
      }
    }
    for (index_t oy = rows.begin; oy < rows.end; ++oy) {
      T* const to = out + oy * out_x;
      for (index_t ox = 0; ox < columns.begin; ++ox) to[ox] = T(0);
      for (index_t ox = columns.end; ox < out_x; ++ox) to[ox] = T(0);
    }
  }
};

/// The node of pack_col2patch, which is described at the function.
template <typename E>
struct PackColExp : Exp<PackColExp<E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using T = value_type;
  static constexpr int kRank = 3;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E column;
  Shape<3> image_shape;
  PatchGeometry g;
  index_t out_y, out_x;

  PackColExp(const E& source, const Shape<3>& target, const PatchGeometry& geometry)
      : column(source),
        image_shape(target),
        g(tensor_internal::CheckedGeometry(geometry, "pack_col2patch")),
        out_y(geometry.OutputY(target[1])),
        out_x(geometry.OutputX(target[2])) {
    const Shape<2> expected =
        tensor_internal::UnpackedShape(g, 1, target[0], out_y, out_x, "pack_col2patch");
    if (source.shape() != expected) {
      throw InvalidArgument("pack_col2patch: the matrix has shape ", source.shape(),
                            ", but an image of shape ", target, " unpacks to ", expected);
    }
  }
  const Shape<3>& shape() const { return image_shape; }
  std::tuple<E> operands() const { return {column}; }
  template <typename NewE>
  auto WithOperands(const NewE& new_column) const {
    return PackColExp<NewE>(new_column, image_shape, g);
  }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    const index_t channel = y / image_shape[1];
    const index_t iy = y % image_shape[1];
    T sum = T(0);
    for (index_t tap_y = 0; tap_y < g.kernel_y; ++tap_y) {
      const index_t from_y = iy + g.pad_y - tap_y * g.dilate_y;
      if (from_y < 0 || from_y % g.stride_y != 0 || from_y / g.stride_y >= out_y) continue;
      for (index_t tap_x = 0; tap_x < g.kernel_x; ++tap_x) {
        const index_t from_x = x + g.pad_x - tap_x * g.dilate_x;
        if (from_x < 0 || from_x % g.stride_x != 0 || from_x / g.stride_x >= out_x) continue;
        const index_t row = (channel * g.kernel_y + tap_y) * g.kernel_x + tap_x;
        sum = static_cast<T>(sum +
                             column.Eval(row, from_y / g.stride_y * out_x + from_x / g.stride_x));
      }
    }
    return sum;
  }
  bool IsFlat() const { return false; }

  /// Writes rows [begin, end) of the image by masked additions of whole planes. Returns false, and
  /// writes nothing, unless the planes are small.
  bool EvalRows(index_t begin, index_t end, T* data, index_t stride) const
      requires(kIsTensor<E>&& std::is_same_v<T, float>) {
    const index_t height = image_shape[1];
    if (stride != image_shape[2] || begin % height != 0 || end % height != 0) return false;
    const auto window = tensor_internal::SamePlaneWindow(g, image_shape);
    if (!window || !tensor_internal::MovesPlanes(*window)) return false;
    tensor_internal::PackPlanes(*window, column.dptr_, column.stride_, begin / height, end / height,
                                data);
    return true;
  }

  /// Adds contiguous parts of a matrix in memory, tap by tap in the order in which Eval adds.
  void EvalRow(index_t y, index_t begin, index_t end, T* out) const requires kIsTensor<E> {
    if (begin != 0 || end != image_shape[2]) {
      for (index_t x = begin; x < end; ++x) *out++ = Eval(y, x);
      return;
    }
    const index_t channel = y / image_shape[1];
    const index_t iy = y % image_shape[1];
    std::fill_n(out, image_shape[2], T(0));
    for (index_t tap_y = 0; tap_y < g.kernel_y; ++tap_y) {
      index_t oy = iy + g.pad_y - tap_y * g.dilate_y;
      if (oy < 0) continue;
      if (g.stride_y != 1) {
        if (oy % g.stride_y != 0) continue;
        oy /= g.stride_y;
      }
      if (oy >= out_y) continue;
      for (index_t tap_x = 0; tap_x < g.kernel_x; ++tap_x) {
        const index_t offset_x = tap_x * g.dilate_x - g.pad_x;
        const TapRange inside(offset_x, g.stride_x, image_shape[2], out_x);
        const index_t row = (channel * g.kernel_y + tap_y) * g.kernel_x + tap_x;
        const T* from = column.dptr_ + row * column.stride_ + oy * out_x;
        T* to = out + offset_x;
        if (g.stride_x == 1) {
          AddSpan(to + inside.begin, from + inside.begin, inside.end - inside.begin);
        } else {
          for (index_t ox = inside.begin; ox < inside.end; ++ox) {
            to[ox * g.stride_x] = static_cast<T>(to[ox * g.stride_x] + from[ox]);
          }
        }
      }
    }
  }

 private:
  static void AddSpan(T* to, const T* from, index_t count) {
    index_t i = 0;
    if constexpr (PacketTraits<T>::kVectorizable) {
      using P = typename PacketTraits<T>::type;
      for (; i + PacketTraits<T>::kSize <= count; i += PacketTraits<T>::kSize) {
        pk::pstoreu(to + i, pk::padd(pk::ploadu<P>(to + i), pk::ploadu<P>(from + i)));
      }
    }
    for (; i < count; ++i) to[i] = static_cast<T>(to[i] + from[i]);
  }
};

/// Returns the matrix whose columns are the patches under a moving window (im2col), so that a
/// convolution becomes a product of matrices.
///
/// Shapes: image (channel, height, width); result (channel * kernel_y * kernel_x, out_y * out_x).
/// Row (c, ky, kx) and column (oy, ox) of the result hold the image's element (c, oy * stride_y +
/// ky * dilate_y - pad_y, ox * stride_x + kx * dilate_x - pad_x), or 0 outside the image. An image
/// that is a function of others, such as tanh(x), is materialized in a temporary. Throws
/// Error(kInvalidArgument) if the window does not fit the padded image, or if a size, stride,
/// dilation or padding is out of range.
template <Operand E>
UnpackPatchExp<OperandNode<E>> unpack_patch2col(const E& image, const PatchGeometry& geometry) {
  static_assert(E::kRank == 3, "unpack_patch2col: an image has shape (channel, height, width)");
  return {AsNode(image), geometry};
}

/// Returns the transpose of unpack_patch2col (col2im): each element of the image is the sum of the
/// matrix elements that were copied from it. Taps are added in row order, so results are
/// reproducible. Throws Error(kInvalidArgument) if the matrix does not have the unpacked image's
/// shape, or if a size, stride, dilation or padding is out of range.
template <Operand E>
PackColExp<OperandNode<E>> pack_col2patch(const E& column, const Shape<3>& image_shape,
                                          const PatchGeometry& geometry) {
  static_assert(E::kRank == 2, "pack_col2patch: what is packed is a matrix");
  return {AsNode(column), image_shape, geometry};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::pack_col2patch;
using expr::unpack_patch2col;

}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_PATCH_H_
