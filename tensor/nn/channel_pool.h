#ifndef TESSERA_TENSOR_NN_CHANNEL_POOL_H_
#define TESSERA_TENSOR_NN_CHANNEL_POOL_H_

#include <tuple>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/reduce/reducer.h"

namespace tessera {

/// The movement of a window over the channels of an image. The window ignores channels before the
/// first and after the last.
struct ChannelWindow {
  index_t size = 1;    ///< channels in a window
  index_t stride = 1;  ///< channels from one window to the next
  index_t pad = 0;     ///< ignored channels on each side
};

namespace tensor_internal {

/// Returns the window. Throws Error(kInvalidArgument) unless size and stride are at least 1, pad is
/// at least 0, and every coordinate of a window over that many channels is below 2^63.
inline const ChannelWindow& CheckedWindow(const ChannelWindow& w, index_t channels,
                                          const char* operation) {
  if (w.size < 1 || w.stride < 1 || w.pad < 0) {
    throw InvalidArgument(operation, ": a window of ", w.size, " channels and its stride ",
                          w.stride, " must be at least 1, padding ", w.pad, " at least 0");
  }
  if (!(CheckedSize(channels) + w.pad + w.pad).valid() ||
      !(CheckedSize(channels) + w.size).valid()) {
    throw InvalidArgument(operation, ": ", channels, " channels with padding ", w.pad,
                          " and a window of ", w.size, " are not below 2^63");
  }
  return w;
}

}  // namespace tensor_internal

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of chpool, which is described at the function.
template <typename Red, typename E>
struct ChannelPoolExp : Exp<ChannelPoolExp<Red, E>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using Accumulator = AccumulatorOf<Red, value_type>;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kReusesOperand = true;
  static constexpr bool kIsMaterialized = IsMaterializedForReuse<E>();

  E e;
  ChannelWindow w;
  index_t channels;  // the operand's channels
  Shape<kRank> target;

  ChannelPoolExp(const E& operand, const ChannelWindow& window, index_t positions)
      : e(operand),
        w(tensor_internal::CheckedWindow(window, operand.shape()[kRank - 3], "chpool")),
        channels(operand.shape()[kRank - 3]),
        target(operand.shape()) {
    if (positions < 1) {
      throw InvalidArgument("chpool: a window of ", w.size, " channels does not fit shape ", target,
                            " padded by ", w.pad);
    }
    target[kRank - 3] = positions;
  }

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  ChannelPoolExp<Red, A> WithOperands(const A& a) const {
    return {a, w, target[kRank - 3]};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    return WithOperands(MaterializeForReuse(e, scratch));
  }

  const Shape<kRank>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const RowsToReduce rows = RowsOf(y);
    Accumulator result = Red::template InitialValue<Accumulator>();
    for (index_t k = 0; k < rows.count; ++k) {
      result =
          Red::OPType::Map(result, static_cast<Accumulator>(e.Eval(rows.first + k * rows.step, x)));
    }
    return static_cast<value_type>(result);
  }
  bool IsFlat() const { return false; }

  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const {
    if (begin < end) ReduceRows<Red>(e, RowsOf(y), begin, end, out);
  }

 private:
  TESSERA_HD RowsToReduce RowsOf(index_t y) const {
    const index_t height = target[kRank - 2];
    const index_t row = y % height;
    const index_t plane = y / height;
    const index_t batch = plane / target[kRank - 3];
    const index_t begin = (plane - batch * target[kRank - 3]) * w.stride - w.pad;
    const index_t first = begin < 0 ? 0 : begin;
    const index_t end = begin + w.size < channels ? begin + w.size : channels;
    return {(batch * channels + first) * height + row, height, end - first};
  }
};

/// The node of ch_unpool, which is described at the function.
template <typename Red, typename E, typename Pooled, typename Grad>
struct ChannelUnpoolExp : Exp<ChannelUnpoolExp<Red, E, Pooled, Grad>, typename E::value_type> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  using Accumulator = typename AccumulateIn<value_type>::type;
  static constexpr int kRank = E::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  E e;
  Pooled pooled;
  Grad grad;
  ChannelWindow w;
  Shape<kRank> target;
  index_t positions;  // the window's positions

  ChannelUnpoolExp(const E& data, const Pooled& result, const Grad& gradient,
                   const ChannelWindow& window)
      : e(data),
        pooled(result),
        grad(gradient),
        w(tensor_internal::CheckedWindow(window, data.shape()[kRank - 3], "ch_unpool")),
        target(data.shape()),
        positions(result.shape()[kRank - 3]) {
    Shape<kRank> expected = target;
    expected[kRank - 3] = positions;
    if (pooled.shape() != grad.shape() || pooled.shape() != expected) {
      throw InvalidArgument("ch_unpool: pooled data of shape ", pooled.shape(),
                            " and its gradient of shape ", grad.shape(),
                            " do not come from an image of shape ", target);
    }
  }

  auto operands() const { return std::tuple<E, Pooled, Grad>(e, pooled, grad); }
  template <typename A, typename B, typename C>
  ChannelUnpoolExp<Red, A, B, C> WithOperands(const A& a, const B& b, const C& c) const {
    return {a, b, c, w};
  }

  const Shape<kRank>& shape() const { return target; }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const index_t height = target[kRank - 2];
    const index_t row = y % height;
    const index_t plane = y / height;
    const index_t batch = plane / target[kRank - 3];
    const index_t channel = plane - batch * target[kRank - 3];
    const index_t from = channel + w.pad - w.size + 1;
    index_t position = from <= 0 ? 0 : (from - 1) / w.stride + 1;
    index_t end = (channel + w.pad) / w.stride + 1;
    if (end > positions) end = positions;
    const value_type element = e.Eval(y, x);
    Accumulator sum = Accumulator(0);
    for (; position < end; ++position) {
      const index_t pooled_row = (batch * positions + position) * height + row;
      sum = static_cast<Accumulator>(
          sum + static_cast<Accumulator>(Red::PartialGrad(pooled.Eval(pooled_row, x), element)) *
                    static_cast<Accumulator>(grad.Eval(pooled_row, x)));
    }
    return static_cast<value_type>(sum);
  }
  bool IsFlat() const { return false; }
};

/// Returns the reduction by Red of windows of `size` adjacent channels. The last three dimensions
/// are (channel, height, width). In the form without stride and padding, each channel becomes the
/// reduction of the `size` channels around it, from channel - size / 2 on. An operand that is a
/// function of others, such as tanh(x), is materialized in a temporary.
///
/// Red is a reducer as in reduce_with_axis; half and bfloat16 are reduced in float. Throws
/// Error(kInvalidArgument) if size or stride is below 1, if pad is negative, or if no window fits.
template <typename Red, Operand E>
ChannelPoolExp<ReducerOf<Red>, OperandNode<E>> chpool(const E& e, index_t size, index_t stride,
                                                      index_t pad) {
  static_assert(E::kRank >= 3, "chpool: the last three dimensions are (channel, height, width)");
  // The check comes before the division by the stride.
  const index_t channels = e.shape()[E::kRank - 3];
  const ChannelWindow window =
      tensor_internal::CheckedWindow({size, stride, pad}, channels, "chpool");
  const index_t padded = channels + 2 * pad;
  return {AsNode(e), window, padded < size ? 0 : (padded - size) / stride + 1};
}
template <typename Red, Operand E>
ChannelPoolExp<ReducerOf<Red>, OperandNode<E>> chpool(const E& e, index_t size) {
  static_assert(E::kRank >= 3, "chpool: the last three dimensions are (channel, height, width)");
  return {AsNode(e), {size, 1, size / 2}, e.shape()[E::kRank - 3]};
}

/// Returns the gradient of chpool, in data's shape. `data` is the pooled operand, `pooled` the
/// result of chpool, and `grad` the result's gradient. Every element that equals a maximum or
/// minimum receives its gradient. Throws Error(kInvalidArgument) if the shapes do not fit, if size
/// or stride is below 1, or if pad is negative.
template <typename Red, Operand E, Operand Pooled, Operand Grad>
requires(MatchingExpressions<E, Pooled>&& MatchingExpressions<E, Grad>)
    ChannelUnpoolExp<ReducerOf<Red>, OperandNode<E>, OperandNode<Pooled>,
                     OperandNode<Grad>> ch_unpool(const E& data, const Pooled& pooled,
                                                  const Grad& grad, index_t size, index_t stride,
                                                  index_t pad) {
  static_assert(E::kRank >= 3, "ch_unpool: the last three dimensions are (channel, height, width)");
  return {AsNode(data), AsNode(pooled), AsNode(grad), {size, stride, pad}};
}
template <typename Red, Operand E, Operand Pooled, Operand Grad>
requires(MatchingExpressions<E, Pooled>&& MatchingExpressions<E, Grad>) auto ch_unpool(
    const E& data, const Pooled& pooled, const Grad& grad, index_t size) {
  return ch_unpool<Red>(data, pooled, grad, size, 1, size / 2);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::ch_unpool;
using expr::chpool;

}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_CHANNEL_POOL_H_
