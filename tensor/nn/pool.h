#ifndef TESSERA_TENSOR_NN_POOL_H_
#define TESSERA_TENSOR_NN_POOL_H_

#include <algorithm>
#include <tuple>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/nn/pool_rows.h"

namespace tessera {

/// The movement of a pooling window over an image. Elements of a window outside the image are
/// ignored by a maximum and are zeros in a sum.
struct PoolGeometry {
  index_t kernel_y = 1, kernel_x = 1;  ///< the window's size, in pixels
  index_t stride_y = 1, stride_x = 1;  ///< pixels from one position to the next
  index_t pad_y = 0, pad_x = 0;        ///< pixels outside each side
};

/// The function that pooling applies to the elements in a window.
enum class PoolKind {
  kMax,
  kSum,
  kAverage,            ///< the sum divided by the window's size, including padding
  kAverageWithoutPad,  ///< the sum divided by the number of image elements in the window
};

namespace tensor_internal {

/// Returns the geometry. Throws Error(kInvalidArgument) unless kernels and strides are at least 1
/// and padding is at least 0.
inline const PoolGeometry& CheckedGeometry(const PoolGeometry& g, const char* operation) {
  if (g.kernel_y < 1 || g.kernel_x < 1 || g.stride_y < 1 || g.stride_x < 1 || g.pad_y < 0 ||
      g.pad_x < 0) {
    throw InvalidArgument(operation, ": kernel ", g.kernel_y, "x", g.kernel_x, " and stride ",
                          g.stride_y, "x", g.stride_x, " must be at least 1, padding ", g.pad_y,
                          "x", g.pad_x, " at least 0");
  }
  return g;
}

/// Throws Error(kInvalidArgument) if coordinates of windows at out_y x out_x positions over images
/// of height x width, or the number of elements in a window, are not below 2^63.
inline void RequireCountable(const PoolGeometry& g, index_t height, index_t width, index_t out_y,
                             index_t out_x, const char* operation) {
  // Returns the number of a window's elements along an axis, or -1 if a coordinate overflows.
  const auto length = [](index_t extent, index_t positions, index_t kernel, index_t stride,
                         index_t pad) -> CheckedSize {
    const auto padded = (CheckedSize(extent) + pad + pad).value();
    const bool ends = (CheckedSize(std::max(positions, index_t{1}) - 1) * stride + kernel).valid();
    return padded && ends ? std::min(kernel, *padded) : -1;
  };
  const CheckedSize elements = length(height, out_y, g.kernel_y, g.stride_y, g.pad_y) *
                               length(width, out_x, g.kernel_x, g.stride_x, g.pad_x);
  if (!elements.valid()) {
    throw InvalidArgument(operation, ": kernel ", g.kernel_y, "x", g.kernel_x, ", stride ",
                          g.stride_y, "x", g.stride_x, " and padding ", g.pad_y, "x", g.pad_x,
                          " at ", out_y, "x", out_x, " positions over images of ", height, "x",
                          width, " give coordinates or sizes that are not below 2^63");
  }
}

}  // namespace tensor_internal

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The window of one output position: [y_begin, y_end) x [x_begin, x_end), clipped to the image,
/// and the divisor of an average.
struct PoolWindow {
  index_t y_begin, y_end, x_begin, x_end, count;

  TESSERA_HD PoolWindow(const PoolGeometry& g, PoolKind kind, index_t height, index_t width,
                        index_t oy, index_t ox) {
    y_begin = oy * g.stride_y - g.pad_y;
    x_begin = ox * g.stride_x - g.pad_x;
    y_end = Min(y_begin + g.kernel_y, height + g.pad_y);
    x_end = Min(x_begin + g.kernel_x, width + g.pad_x);
    const index_t padded_y = y_end - y_begin, padded_x = x_end - x_begin;
    y_begin = y_begin < 0 ? 0 : y_begin;
    x_begin = x_begin < 0 ? 0 : x_begin;
    y_end = Min(y_end, height);
    x_end = Min(x_end, width);
    if (y_begin >= y_end || x_begin >= x_end) {
      count = 1;  // no element is summed; the average is 0, not 0/0
    } else if (kind == PoolKind::kAverageWithoutPad) {
      count = (y_end - y_begin) * (x_end - x_begin);
    } else {
      count = padded_y * padded_x;
    }
  }

 private:
  TESSERA_HD static index_t Min(index_t a, index_t b) { return a < b ? a : b; }
};

/// The node of pool, which is described at the function.
template <PoolKind kKind, typename E>
struct PoolExp : Exp<PoolExp<kKind, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using T = value_type;
  using Accumulator = std::conditional_t<sizeof(T) == 2, float, T>;
  static constexpr int kRank = 4;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kReusesOperand = true;
  static constexpr bool kIsMaterialized = IsMaterializedForReuse<E>();
  static constexpr bool kSharesWork = true;

  E image;
  Shape<4> image_shape;
  Shape<4> target;
  PoolGeometry g;

  PoolExp(const E& source, index_t out_y, index_t out_x, const PoolGeometry& geometry)
      : image(source),
        image_shape(source.shape()),
        target(Shape4(image_shape[0], image_shape[1], out_y, out_x)),
        g(tensor_internal::CheckedGeometry(geometry, "pool")) {
    if (out_y < 0 || out_x < 0) {
      throw InvalidArgument("pool: the result cannot have ", out_y, "x", out_x, " positions");
    }
    tensor_internal::RequireCountable(g, image_shape[2], image_shape[3], out_y, out_x, "pool");
  }
  const Shape<4>& shape() const { return target; }
  std::tuple<E> operands() const { return {image}; }
  template <typename NewE>
  auto WithOperands(const NewE& new_image) const {
    return PoolExp<kKind, NewE>(new_image, target[2], target[3], g);
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    return WithOperands(MaterializeForReuse(image, scratch));
  }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    return EvalPlane(y / target[2] * image_shape[2], y % target[2], x);
  }
  bool IsFlat() const { return false; }

  /// Reduces adjacent windows together, each in Eval's order.
  void EvalRow(index_t y, index_t begin, index_t end, T* out) const {
    const index_t plane_row = y / target[2] * image_shape[2];
    const index_t oy = y % target[2];
    if constexpr (std::is_floating_point_v<Accumulator> &&
                  PacketTraits<Accumulator>::kVectorizable) {
      // Fewer windows are faster one by one.
      constexpr index_t kMinWindows = 8;
      if (end - begin >= kMinWindows && FitsRows()) {
        for (index_t x = begin; x < end; x += kPooledAtOnce) {
          EvalWindows(plane_row, oy, x, std::min(kPooledAtOnce, end - x), out + (x - begin));
        }
        return;
      }
    }
    for (index_t x = begin; x < end; ++x) *out++ = EvalPlane(plane_row, oy, x);
  }

 private:
  using Red = std::conditional_t<kKind == PoolKind::kMax, red::maximum, red::sum>;
  static constexpr bool kDivides =
      kKind == PoolKind::kAverage || kKind == PoolKind::kAverageWithoutPad;

  TESSERA_HD static Accumulator InitialValue() {
    return static_cast<Accumulator>(Red::template InitialValue<T>());
  }
  TESSERA_HD PoolWindow WindowAt(index_t oy, index_t ox) const {
    return {g, kKind, image_shape[2], image_shape[3], oy, ox};
  }

  /// Returns the result of one window. `plane_row` is the first row of the image's plane.
  TESSERA_HD T EvalPlane(index_t plane_row, index_t oy, index_t ox) const {
    const PoolWindow w = WindowAt(oy, ox);
    Accumulator result = InitialValue();
    if constexpr (kKind == PoolKind::kMax) {
      // The loop has no branches, because the position of the maximum is unpredictable. A row's
      // maximum does not wait for the rows above. The bits are those of the plain loop: the last of
      // equal elements is taken, and NaN is handled below.
      bool holds_nan = false;
      for (index_t y = w.y_begin; y < w.y_end; ++y) {
        Accumulator largest = InitialValue();
        for (index_t x = w.x_begin; x < w.x_end; ++x) {
          const Accumulator element = static_cast<Accumulator>(image.Eval(plane_row + y, x));
          largest = largest > element ? largest : element;
          holds_nan |= element != element;
        }
        result = result > largest ? result : largest;
      }
      if (!holds_nan) return static_cast<T>(result);
      result = InitialValue();
    }
    for (index_t y = w.y_begin; y < w.y_end; ++y) {
      for (index_t x = w.x_begin; x < w.x_end; ++x) {
        result = Red::OPType::Map(result, static_cast<Accumulator>(image.Eval(plane_row + y, x)));
      }
    }
    if constexpr (kDivides) result /= static_cast<Accumulator>(w.count);
    return static_cast<T>(result);
  }

  /// Returns whether kPooledAtOnce windows have at most kMaxPooledElements elements.
  bool FitsRows() const {
    constexpr index_t kMost = kMaxPooledElements;
    return g.kernel_y < kMost && g.kernel_x < kMost && g.stride_x < kMost &&
           g.kernel_y * (kPooledAtOnce * g.stride_x + g.kernel_x) <= kMost;
  }

  /// Writes the results of `count` windows from `begin` on. Requires: count <= kPooledAtOnce.
  void EvalWindows(index_t plane_row, index_t oy, index_t begin, index_t count, T* out) const {
    constexpr index_t kTogether = kPooledTogether<Accumulator>;
    const PoolWindow first = WindowAt(oy, begin);
    const index_t windows = (count + (kTogether - 1)) / kTogether * kTogether;
    PooledRows pooled = {.rows = std::max<index_t>(first.y_end - first.y_begin, 0),
                         .row_step = 0,
                         .kernel = g.kernel_x,
                         .stride = g.stride_x,
                         .windows = windows,
                         .steps = windows + (g.kernel_x - 1) / g.stride_x};
    const index_t columns = pooled.columns();
    // Image columns among the columns under the windows.
    const index_t from = begin * g.stride_x - g.pad_x;
    const index_t inside_begin = std::clamp<index_t>(-from, 0, columns);
    const index_t inside_end = std::clamp<index_t>(image_shape[3] - from, inside_begin, columns);
    alignas(64) Accumulator results[kPooledAtOnce];
    alignas(64) Accumulator elements[kMaxPooledElements];
    const Accumulator* source = elements;
    if constexpr (kIsTensor<E> && std::is_same_v<T, Accumulator>) {
      if (inside_end - inside_begin == columns) {
        source = image.dptr_ + (plane_row + first.y_begin) * image.stride_ + from;
        pooled.row_step = image.stride_;
      }
    }
    if (source == elements) {
      pooled.row_step = columns;
      for (index_t r = 0; r < pooled.rows; ++r) {
        Accumulator* const row = elements + r * columns;
        // A 0 changes no sum, and the lowest value changes no maximum.
        std::fill_n(row, inside_begin, InitialValue());
        std::fill_n(row + inside_end, columns - inside_end, InitialValue());
        const index_t y = plane_row + first.y_begin + r;
        if constexpr (kIsTensor<E> && std::is_same_v<T, Accumulator>) {
          std::copy_n(image.dptr_ + y * image.stride_ + from + inside_begin,
                      inside_end - inside_begin, row + inside_begin);
        } else {
          EvaluateSpans(tcast<Accumulator>(image), y, from + inside_begin,
                        inside_end - inside_begin, row + inside_begin);
        }
      }
    }
    ReducePooledRows<typename Red::OPType>(source, pooled, InitialValue(), results);
    if constexpr (kDivides) Divide(oy, begin, count, windows, results);
    if constexpr (std::is_same_v<T, Accumulator>) {
      std::copy_n(results, count, out);
    } else {
      EvaluatePackets(tcast<T>(BlockExp<Accumulator>(results)), 0, 0, count, out);
    }
  }

  /// Divides the sums of `count` windows from `begin` on; `windows` is the padded number of sums.
  void Divide(index_t oy, index_t begin, index_t count, index_t windows, Accumulator* sums) const {
    // All windows inside the image have the same divisor.
    index_t left = 0, right = count;
    while (left < count && (begin + left) * g.stride_x < g.pad_x) ++left;
    while (right > left &&
           (begin + right - 1) * g.stride_x - g.pad_x + g.kernel_x > image_shape[3]) {
      --right;
    }
    const auto divisor = [&](index_t i) {
      return static_cast<Accumulator>(WindowAt(oy, begin + i).count);
    };
    alignas(64) Accumulator divisors[kPooledAtOnce];
    std::fill_n(divisors, kPooledAtOnce, divisor(std::min(left, count - 1)));
    for (index_t i = 0; i < left; ++i) divisors[i] = divisor(i);
    for (index_t i = right; i < count; ++i) divisors[i] = divisor(i);
    // GCC vectorizes blocks of constant extent.
    constexpr index_t kBlock = kPooledTogether<Accumulator>;
    for (index_t i = 0; i < windows; i += kBlock) {
      for (index_t j = 0; j < kBlock; ++j) sums[i + j] /= divisors[i + j];
    }
  }
};

/// The node of unpool, which is described at the function.
template <PoolKind kKind, typename Device, typename T>
struct UnpoolExp : Exp<UnpoolExp<kKind, Device, T>, T> {
  using value_type = T;
  using device_type = Device;
  using Accumulator = std::conditional_t<sizeof(T) == 2, float, T>;
  static constexpr int kRank = 4;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  Tensor<Device, 4, T> image;
  Tensor<Device, 4, T> pooled;
  Tensor<Device, 4, T> grad;
  PoolGeometry g;

  UnpoolExp(const Tensor<Device, 4, T>& data, const Tensor<Device, 4, T>& pooled_data,
            const Tensor<Device, 4, T>& pooled_grad, const PoolGeometry& geometry)
      : image(data),
        pooled(pooled_data),
        grad(pooled_grad),
        g(tensor_internal::CheckedGeometry(geometry, "unpool")) {
    if (pooled.shape_ != grad.shape_) {
      throw InvalidArgument("unpool: pooled data of shape ", pooled.shape_,
                            " and its gradient of shape ", grad.shape_, " differ");
    }
    if (pooled.shape_[0] != image.shape_[0] || pooled.shape_[1] != image.shape_[1]) {
      throw InvalidArgument("unpool: pooled data of shape ", pooled.shape_,
                            " does not come from an image of shape ", image.shape_);
    }
    tensor_internal::RequireCountable(g, image.shape_[2], image.shape_[3], pooled.shape_[2],
                                      pooled.shape_[3], "unpool");
  }
  const Shape<4>& shape() const { return image.shape_; }
  std::tuple<Tensor<Device, 4, T>, Tensor<Device, 4, T>, Tensor<Device, 4, T>> operands() const {
    return {image, pooled, grad};
  }
  auto WithOperands(const Tensor<Device, 4, T>& new_image, const Tensor<Device, 4, T>& new_pooled,
                    const Tensor<Device, 4, T>& new_grad) const {
    return UnpoolExp(new_image, new_pooled, new_grad, g);
  }
  TESSERA_HD T Eval(index_t y, index_t x) const {
    const index_t plane = y / image.shape_[2];
    const index_t iy = y % image.shape_[2];
    Accumulator sum = Accumulator(0);
    for (index_t oy = FirstWindow(iy, g.pad_y, g.kernel_y, g.stride_y);
         oy < EndWindow(iy, g.pad_y, g.stride_y, pooled.shape_[2]); ++oy) {
      for (index_t ox = FirstWindow(x, g.pad_x, g.kernel_x, g.stride_x);
           ox < EndWindow(x, g.pad_x, g.stride_x, pooled.shape_[3]); ++ox) {
        sum += Share(plane, oy, ox, iy, x);
      }
    }
    return static_cast<T>(sum);
  }
  bool IsFlat() const { return false; }

  /// Writes rows of a maximum's gradient. It visits each window once, in the order in which Eval
  /// adds.
  bool EvalRows(index_t begin, index_t end, T* data, index_t stride) const
      requires(kKind == PoolKind::kMax && std::is_same_v<T, Accumulator>) {
    const index_t height = image.shape_[2];
    for (index_t y = begin; y < end; ++y) std::fill_n(data + y * stride, image.shape_[3], T(0));
    for (index_t y = begin; y < end;) {
      // Rows [first, last) belong to one plane; a task's rows may end anywhere in it.
      const index_t plane = y / height, first = y - plane * height;
      const index_t last = std::min(height, first + (end - y));
      y += last - first;
      const index_t end_oy = EndWindow(last - 1, g.pad_y, g.stride_y, pooled.shape_[2]);
      for (index_t oy = FirstWindow(first, g.pad_y, g.kernel_y, g.stride_y); oy < end_oy; ++oy) {
        for (index_t ox = 0; ox < pooled.shape_[3]; ++ox) {
          const PoolWindow w(g, kKind, height, image.shape_[3], oy, ox);
          const T maximum = pooled.dptr_[(plane * pooled.shape_[2] + oy) * pooled.stride_ + ox];
          // The search runs backwards and has no branches, because the position of the maximum is
          // unpredictable.
          index_t row = -1, column = 0;
          for (index_t iy = w.y_end - 1; iy >= w.y_begin; --iy) {
            const T* const from = image.dptr_ + (plane * height + iy) * image.stride_;
            for (index_t x = w.x_end - 1; x >= w.x_begin; --x) {
              const bool found = from[x] == maximum;
              row = found ? iy : row;
              column = found ? x : column;
            }
          }
          if (first <= row && row < last) {
            data[(plane * height + row) * stride + column] += GradientAt(plane, oy, ox);
          }
        }
      }
    }
    return true;
  }

  /// Adds each window's gradient to the row's elements, in the order in which Eval adds.
  void EvalRow(index_t y, index_t begin, index_t end, T* out) const {
    if constexpr (std::is_same_v<T, Accumulator>) {
      if (begin == 0 && end == image.shape_[3]) {
        SpreadRow(y / image.shape_[2], y % image.shape_[2], out);
        return;
      }
    }
    for (index_t x = begin; x < end; ++x) *out++ = Eval(y, x);
  }

 private:
  void SpreadRow(index_t plane, index_t iy, T* out) const {
    for (index_t x = 0; x < image.shape_[3]; ++x) out[x] = T(0);
    const index_t end_y = EndWindow(iy, g.pad_y, g.stride_y, pooled.shape_[2]);
    for (index_t oy = FirstWindow(iy, g.pad_y, g.kernel_y, g.stride_y); oy < end_y; ++oy) {
      for (index_t ox = 0; ox < pooled.shape_[3]; ++ox) {
        const PoolWindow w(g, kKind, image.shape_[2], image.shape_[3], oy, ox);
        if constexpr (kKind == PoolKind::kMax) {
          const index_t x = FirstMaximumInRow(plane, oy, ox, w, iy);
          if (x < w.x_end) out[x] += GradientAt(plane, oy, ox);
        } else {
          T share = GradientAt(plane, oy, ox);
          if constexpr (kKind != PoolKind::kSum) share /= static_cast<T>(w.count);
          for (index_t x = w.x_begin; x < w.x_end; ++x) out[x] += share;
        }
      }
    }
  }

  /// Returns the column of the window's first maximum if it is in row iy, else w.x_end.
  index_t FirstMaximumInRow(index_t plane, index_t oy, index_t ox, const PoolWindow& w,
                            index_t iy) const {
    const T maximum = pooled.dptr_[(plane * pooled.shape_[2] + oy) * pooled.stride_ + ox];
    const T* row = image.dptr_ + (plane * image.shape_[2] + w.y_begin) * image.stride_;
    for (index_t y = w.y_begin; y <= iy; ++y, row += image.stride_) {
      for (index_t x = w.x_begin; x < w.x_end; ++x) {
        if (row[x] == maximum) return y == iy ? x : w.x_end;
      }
    }
    return w.x_end;
  }

  TESSERA_HD Accumulator GradientAt(index_t plane, index_t oy, index_t ox) const {
    return static_cast<Accumulator>(grad.dptr_[(plane * grad.shape_[2] + oy) * grad.stride_ + ox]);
  }

  TESSERA_HD static index_t FirstWindow(index_t at, index_t pad, index_t kernel, index_t stride) {
    const index_t from = at + pad - kernel + 1;
    return from <= 0 ? 0 : (from - 1) / stride + 1;
  }
  TESSERA_HD static index_t EndWindow(index_t at, index_t pad, index_t stride, index_t windows) {
    const index_t end = (at + pad) / stride + 1;
    return end < windows ? end : windows;
  }

  /// Returns the gradient that window (oy, ox) contributes to image element (iy, ix).
  TESSERA_HD Accumulator Share(index_t plane, index_t oy, index_t ox, index_t iy,
                               index_t ix) const {
    const index_t out = (plane * pooled.shape_[2] + oy) * pooled.stride_ + ox;
    const Accumulator g_out = GradientAt(plane, oy, ox);
    if constexpr (kKind == PoolKind::kSum) return g_out;
    const PoolWindow w(g, kKind, image.shape_[2], image.shape_[3], oy, ox);
    if constexpr (kKind == PoolKind::kMax) {
      // The first of equal maxima in row order receives the gradient.
      const T maximum = pooled.dptr_[out];
      const T* data = image.dptr_ + plane * image.shape_[2] * image.stride_;
      if (data[iy * image.stride_ + ix] != maximum) return Accumulator(0);
      for (index_t y = w.y_begin; y <= iy; ++y) {
        const index_t end = y == iy ? ix : w.x_end;
        for (index_t x = w.x_begin; x < end; ++x) {
          if (data[y * image.stride_ + x] == maximum) return Accumulator(0);
        }
      }
      return g_out;
    } else {
      return g_out / static_cast<Accumulator>(w.count);
    }
  }
};

/// Returns the last two dimensions pooled: out[n][c][oy][ox] is the maximum, sum or average of the
/// window at (oy * stride_y - pad_y, ox * stride_x - pad_x).
///
/// Shapes: image (n, c, height, width), result (n, c, out_y, out_x). The caller chooses the number
/// of positions, so that both rounding conventions are available. Elements are combined row by row,
/// half and bfloat16 in float. A window outside the image has red::maximum's initial value as its
/// maximum, and 0 as its sum and average. The maximum of a window with a NaN is NaN. An image that
/// is a function of others, such as tanh(x), is materialized in a temporary. Throws
/// Error(kInvalidArgument) if a kernel or stride is below 1, if a padding or number of positions is
/// negative, or if a coordinate overflows.
template <PoolKind kKind, Operand E>
PoolExp<kKind, OperandNode<E>> pool(const E& image, index_t out_y, index_t out_x,
                                    const PoolGeometry& geometry) {
  static_assert(E::kRank == 4, "pool: an image has shape (n, c, height, width)");
  return {AsNode(image), out_y, out_x, geometry};
}

/// Returns the gradient of pool, in the image's shape. `image` is pool's operand, `pooled` its
/// result, and `pooled_grad` the result's gradient. The first of equal maxima in row order receives
/// the gradient. The gradient of a maximum that is NaN is dropped. Throws Error(kInvalidArgument)
/// if the shapes do not fit, if a kernel or stride is below 1, if a padding is negative, or if a
/// coordinate overflows.
template <PoolKind kKind, typename Device, typename T>
UnpoolExp<kKind, Device, T> unpool(const Tensor<Device, 4, T>& image,
                                   const Tensor<Device, 4, T>& pooled,
                                   const Tensor<Device, 4, T>& pooled_grad,
                                   const PoolGeometry& geometry) {
  return {image, pooled, pooled_grad, geometry};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::pool;
using expr::unpool;

}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_POOL_H_
