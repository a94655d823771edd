#ifndef TESSERA_TENSOR_NN_WINDOW_POOL_H_
#define TESSERA_TENSOR_NN_WINDOW_POOL_H_

#include <algorithm>
#include <array>
#include <tuple>

#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/nn/pool.h"
#include "tessera/tensor/reduce/reducer.h"
#include "tessera/tensor/shape/row_map.h"

/// Pooling of any expression with a reducer: `pool<red::maximum>(pad(image, 1), 3, 3, 2)`. pool.h
/// has averages, and the fastest kinds for images in memory.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of pool<Red>, which is described at the function.
template <typename Red, typename E>
struct WindowPoolExp : Exp<WindowPoolExp<Red, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using Accumulator = AccumulatorOf<Red, value_type>;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kReusesOperand = true;
  static constexpr bool kIsMaterialized = IsMaterializedForReuse<E>();

  E e;
  PoolGeometry g;
  index_t height, width;  // the operand's last two extents
  Shape<kRank> target;

  WindowPoolExp(const E& operand, const Shape<2>& positions, const PoolGeometry& geometry)
      : e(operand), g(tensor_internal::CheckedGeometry(geometry, "pool")), target(operand.shape()) {
    height = target[kRank - 2];
    width = target[kRank - 1];
    if (positions[0] < 0 || positions[1] < 0) {
      throw InvalidArgument("pool: the result cannot have ", positions, " positions");
    }
    target[kRank - 2] = positions[0];
    target[kRank - 1] = positions[1];
    tensor_internal::RequireCountable(g, height, width, positions[0], positions[1], "pool");
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  WindowPoolExp<Red, A> WithOperands(const A& a) const {
    return {a, Shape2(target[kRank - 2], target[kRank - 1]), g};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    return WithOperands(MaterializeForReuse(e, scratch));
  }

  const Shape<kRank>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const index_t plane = y / target[kRank - 2];
    return EvalWindow(plane * height, y - plane * target[kRank - 2], x);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if (begin >= end) return;
    const WindowPoolExp local = *this;
    const index_t plane = y / target[kRank - 2];
    const index_t position = y - plane * target[kRank - 2];
    for (index_t x = begin; x < end; ++x) {
      *out++ = local.EvalWindow(plane * height, position, x);
    }
  }

 private:
  /// Returns the reduction of the window at position (oy, ox) of the plane whose rows begin at
  /// `row`.
  TESSERA_HD value_type EvalWindow(index_t row, index_t oy, index_t ox) const {
    const PoolWindow w(g, PoolKind::kSum, height, width, oy, ox);
    Accumulator result = Red::template InitialValue<Accumulator>();
    for (index_t y = w.y_begin; y < w.y_end; ++y) {
      for (index_t x = w.x_begin; x < w.x_end; ++x) {
        result = Red::OPType::Map(result, static_cast<Accumulator>(e.Eval(row + y, x)));
      }
    }
    return static_cast<value_type>(result);
  }
};

/// The node of unpool<Red>, which is described at the function.
template <typename Red, typename E, typename Pooled, typename Grad>
struct WindowUnpoolExp : Exp<WindowUnpoolExp<Red, E, Pooled, Grad>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E e;
  Pooled pooled;
  Grad grad;
  PoolGeometry g;
  Shape<kRank> target;
  index_t positions_y, positions_x;

  WindowUnpoolExp(const E& data, const Pooled& result, const Grad& gradient,
                  const PoolGeometry& geometry)
      : e(data),
        pooled(result),
        grad(gradient),
        g(tensor_internal::CheckedGeometry(geometry, "unpool")),
        target(data.shape()),
        positions_y(result.shape()[kRank - 2]),
        positions_x(result.shape()[kRank - 1]) {
    Shape<kRank> expected = target;
    expected[kRank - 2] = positions_y;
    expected[kRank - 1] = positions_x;
    if (pooled.shape() != grad.shape() || pooled.shape() != expected) {
      throw InvalidArgument("unpool: pooled data of shape ", pooled.shape(),
                            " and its gradient of shape ", grad.shape(),
                            " do not come from an image of shape ", target);
    }
    tensor_internal::RequireCountable(g, target[kRank - 2], target[kRank - 1], positions_y,
                                      positions_x, "unpool");
  }

  auto operands() const { return std::tuple<E, Pooled, Grad>(e, pooled, grad); }
  template <typename A, typename B, typename C>
  WindowUnpoolExp<Red, A, B, C> WithOperands(const A& a, const B& b, const C& c) const {
    return {a, b, c, g};
  }

  const Shape<kRank>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const index_t plane = y / target[kRank - 2];
    const index_t iy = y - plane * target[kRank - 2];
    const index_t begin_x = First(x, g.pad_x, g.kernel_x, g.stride_x);
    const index_t end_x = End(x, g.pad_x, g.stride_x, positions_x);
    const index_t end_y = End(iy, g.pad_y, g.stride_y, positions_y);
    const value_type element = e.Eval(y, x);
    Accumulator sum = Accumulator(0);
    for (index_t oy = First(iy, g.pad_y, g.kernel_y, g.stride_y); oy < end_y; ++oy) {
      const index_t row = plane * positions_y + oy;
      for (index_t ox = begin_x; ox < end_x; ++ox) {
        sum = static_cast<Accumulator>(
            sum + static_cast<Accumulator>(Red::PartialGrad(pooled.Eval(row, ox), element)) *
                      static_cast<Accumulator>(grad.Eval(row, ox)));
      }
    }
    return static_cast<value_type>(sum);
  }
  bool IsFlat() const { return false; }

  /// Visits the windows over a block of elements, in the order in which Eval adds. The windows of
  /// each element are then not computed separately, and operands are not read again.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    constexpr index_t kBlock = 256;
    const WindowUnpoolExp local = *this;
    const PoolGeometry window = g;
    const index_t plane = y / target[kRank - 2];
    const index_t iy = y - plane * target[kRank - 2];
    const index_t begin_y = First(iy, g.pad_y, g.kernel_y, g.stride_y);
    const index_t end_y = End(iy, g.pad_y, g.stride_y, positions_y);
    alignas(64) std::array<value_type, kBlock> elements;
    alignas(64) std::array<Accumulator, kBlock> sums;
    for (index_t first = begin; first < end; first += kBlock) {
      const index_t width = std::min(kBlock, end - first);
      EvalSpan(e, y, first, first + width, elements.data());
      std::fill_n(sums.data(), width, Accumulator(0));
      const index_t begin_x = First(first, window.pad_x, window.kernel_x, window.stride_x);
      const index_t end_x = End(first + width - 1, window.pad_x, window.stride_x, positions_x);
      for (index_t oy = begin_y; oy < end_y; ++oy) {
        const index_t row = plane * positions_y + oy;
        for (index_t ox = begin_x; ox < end_x; ++ox) {
          const auto result = local.pooled.Eval(row, ox);
          const auto gradient = static_cast<Accumulator>(local.grad.Eval(row, ox));
          const index_t from = ox * window.stride_x - window.pad_x - first;
          const index_t to = std::min(from + window.kernel_x, width);
          for (index_t x = std::max<index_t>(from, 0); x < to; ++x) {
            const auto at = static_cast<size_t>(x);
            sums[at] = static_cast<Accumulator>(
                sums[at] +
                static_cast<Accumulator>(Red::PartialGrad(result, elements[at])) * gradient);
          }
        }
      }
      for (index_t x = 0; x < width; ++x) {
        *out++ = static_cast<value_type>(sums[static_cast<size_t>(x)]);
      }
    }
  }

 private:
  /// Return the positions [First, End) whose windows contain image coordinate `at`.
  TESSERA_HD static index_t First(index_t at, index_t pad, index_t kernel, index_t stride) {
    const index_t from = at + pad - kernel + 1;
    return from <= 0 ? 0 : (from - 1) / stride + 1;
  }
  TESSERA_HD static index_t End(index_t at, index_t pad, index_t stride, index_t positions) {
    const index_t end = (at + pad) / stride + 1;
    return end < positions ? end : positions;
  }
};

/// Returns the reduction by Red of windows over the last two dimensions. A window has kernel_y x
/// kernel_x elements from (oy * stride_y - pad_y, ox * stride_x - pad_x) on; elements outside the
/// image are ignored. `positions` is the shape of the result's last two dimensions. By default,
/// there are as many positions as fit completely.
///
/// An operand that is a function of others, such as tanh(x), is materialized in a temporary.
///
/// Red is red::sum, red::maximum, red::minimum, or a struct with Reduce and SetInitValue as in
/// mshadow. half and bfloat16 are reduced in float. A window without elements gives the reducer's
/// initial value. The maximum or minimum of a window with a NaN is NaN. Throws
/// Error(kInvalidArgument) if a kernel or stride is below 1, if a padding or number of positions is
/// negative, if a coordinate overflows, or, without `positions`, if the window is larger than the
/// padded image.
template <typename Red, Operand E>
WindowPoolExp<ReducerOf<Red>, OperandNode<E>> pool(const E& e, const Shape<2>& positions,
                                                   index_t kernel_y, index_t kernel_x,
                                                   index_t stride_y, index_t stride_x,
                                                   index_t pad_y = 0, index_t pad_x = 0) {
  static_assert(E::kRank >= 2, "pool: the last two dimensions are an image's");
  return {AsNode(e), positions, {kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x}};
}
template <typename Red, Operand E>
auto pool(const E& e, const Shape<2>& positions, index_t kernel_y, index_t kernel_x,
          index_t stride) {
  return pool<Red>(e, positions, kernel_y, kernel_x, stride, stride);
}
template <typename Red, Operand E>
auto pool(const E& e, const Shape<2>& positions, index_t kernel, index_t stride) {
  return pool<Red>(e, positions, kernel, kernel, stride, stride);
}
template <typename Red, Operand E>
auto pool(const E& e, index_t kernel_y, index_t kernel_x, index_t stride_y, index_t stride_x,
          index_t pad_y = 0, index_t pad_x = 0) {
  static_assert(E::kRank >= 2, "pool: the last two dimensions are an image's");
  const PoolGeometry g = tensor_internal::CheckedGeometry(
      PoolGeometry{kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x}, "pool");
  const auto shape = e.shape();
  const index_t height = shape[E::kRank - 2], width = shape[E::kRank - 1];
  tensor_internal::RequireCountable(g, height, width, 1, 1, "pool");
  const index_t free_y = height + 2 * pad_y - kernel_y;
  const index_t free_x = width + 2 * pad_x - kernel_x;
  if (free_y < 0 || free_x < 0) {
    throw InvalidArgument("pool: a kernel of ", kernel_y, "x", kernel_x,
                          " does not fit an image of shape ", shape, " padded by ", pad_y, "x",
                          pad_x);
  }
  return pool<Red>(e, Shape2(free_y / g.stride_y + 1, free_x / g.stride_x + 1), kernel_y, kernel_x,
                   stride_y, stride_x, pad_y, pad_x);
}
template <typename Red, Operand E>
auto pool(const E& e, index_t kernel_y, index_t kernel_x, index_t stride) {
  return pool<Red>(e, kernel_y, kernel_x, stride, stride);
}
template <typename Red, Operand E>
auto pool(const E& e, index_t kernel, index_t stride) {
  return pool<Red>(e, kernel, kernel, stride, stride);
}

/// Returns, as unpool<Red>, the gradient of pool<Red> in data's shape. `data` is pool's operand,
/// `pooled` its result, and `grad` the result's gradient. Every element that equals a maximum or
/// minimum receives its gradient, from each window that contains it. Throws Error(kInvalidArgument)
/// if the shapes do not fit, if a kernel or stride is below 1, if a padding is negative, or if a
/// coordinate overflows.
template <typename Red, Operand E, Operand Pooled, Operand Grad>
requires(MatchingExpressions<E, Pooled>&& MatchingExpressions<E, Grad>)
    WindowUnpoolExp<ReducerOf<Red>, OperandNode<E>, OperandNode<Pooled>, OperandNode<Grad>> unpool(
        const E& data, const Pooled& pooled, const Grad& grad, index_t kernel_y, index_t kernel_x,
        index_t stride_y, index_t stride_x, index_t pad_y = 0, index_t pad_x = 0) {
  static_assert(E::kRank >= 2, "unpool: the last two dimensions are an image's");
  return {AsNode(data),
          AsNode(pooled),
          AsNode(grad),
          {kernel_y, kernel_x, stride_y, stride_x, pad_y, pad_x}};
}
template <typename Red, Operand E, Operand Pooled, Operand Grad>
auto unpool(const E& data, const Pooled& pooled, const Grad& grad, index_t kernel_y,
            index_t kernel_x, index_t stride) {
  return unpool<Red>(data, pooled, grad, kernel_y, kernel_x, stride, stride);
}
template <typename Red, Operand E, Operand Pooled, Operand Grad>
auto unpool(const E& data, const Pooled& pooled, const Grad& grad, index_t kernel, index_t stride) {
  return unpool<Red>(data, pooled, grad, kernel, kernel, stride, stride);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::pool;
using expr::unpool;

}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_WINDOW_POOL_H_
