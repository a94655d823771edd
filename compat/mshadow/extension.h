#ifndef MSHADOW_EXTENSION_H_
#define MSHADOW_EXTENSION_H_

// The expressions of mshadow's folder extension/, and the functions beside them.

#include "mshadow/base.h"
#include "mshadow/expression.h"
#include "mshadow/tensor_base.h"
#include "tessera/tensor/tensor.h"

namespace mshadow {

namespace expr {

using tessera::expr::batch_dot;
using tessera::expr::broadcast;
using tessera::expr::broadcast_keepdim;
using tessera::expr::broadcast_multi_axes;
using tessera::expr::broadcast_scalar;
using tessera::expr::broadcast_to;
using tessera::expr::broadcast_with_axis;
using tessera::expr::ch_unpool;
using tessera::expr::chpool;
using tessera::expr::concat;
using tessera::expr::crop;
using tessera::expr::flip;
using tessera::expr::implicit_dot;
using tessera::expr::mask;
using tessera::expr::mat_choose_row_element;
using tessera::expr::mat_fill_row_element;
using tessera::expr::mirror;
using tessera::expr::one_hot_encode;
using tessera::expr::pack_col2patch;
using tessera::expr::pad;
using tessera::expr::pool;
using tessera::expr::range;
using tessera::expr::reduce_except_dim;
using tessera::expr::reduce_keepdim;
using tessera::expr::reduce_with_axis;
using tessera::expr::repmat;
using tessera::expr::reshape;
using tessera::expr::slice;
using tessera::expr::sum_rows;
using tessera::expr::sumall_except_dim;
using tessera::expr::swapaxis;
using tessera::expr::take;
using tessera::expr::take_grad;
using tessera::expr::transpose;
using tessera::expr::transpose_indices;
using tessera::expr::unpack_patch2col;
using tessera::expr::unpool;
using tessera::expr::upsampling_nearest;

/// True for an expression whose last three dimensions are (channel, height, width).
template <typename E>
concept ImageOperand = tessera::expr::Operand<E> &&(E::kRank >= 3);

/// Returns tessera's chpool of as many windows as mshadow counted: (channels - size + 2 pad + 1) /
/// stride, rounded down. With a stride above 1 that may be one less than fit. Throws
/// Error(kInvalidArgument) as tessera's does, and if the number is 0.
template <typename Red, ImageOperand E>
auto chpool(const E& e, index_t size, index_t stride, index_t pad) {
  using Pool =
      tessera::expr::ChannelPoolExp<tessera::expr::ReducerOf<Red>, tessera::expr::OperandNode<E>>;
  const index_t channels = e.shape()[E::kRank - 3];
  // The check comes before the division by the stride.
  const tessera::ChannelWindow window =
      tessera::tensor_internal::CheckedWindow({size, stride, pad}, channels, "chpool");
  const index_t steps = channels + 2 * pad - size + 1;
  if (steps > 0 && steps < stride) {
    throw tessera::InvalidArgument("chpool: shape ", e.shape(), " padded by ", pad,
                                   " has no window of ", size, " channels with stride ", stride,
                                   ": mshadow's number of windows is ", steps, " / ", stride);
  }
  return Pool(tessera::expr::AsNode(e), window, steps > 0 ? steps / stride : 0);
}

}  // namespace expr

using tessera::AddTakeGrad;
using tessera::AddTakeGradLargeBatch;
using tessera::BatchGEMM;
using tessera::IndexFill;
using tessera::MapExp;
using tessera::MapReduceKeepHighDim;
using tessera::MapReduceKeepLowest;
using tessera::SmoothSoftmaxGrad;
using tessera::Softmax;
using tessera::SoftmaxGrad;
using tessera::SortByKey;
using tessera::VectorDot;
using tessera::VectorizedSort;

/// Saves an expression in a destination with mshadow's parameter type; see tessera::TRValue.
template <typename Saver, typename R, typename Device, int dim, typename DType,
          tessera::expr::Operand E>
inline void MapExp(TRValue<R, Device, dim, DType>* dst, const E& e) {
  tessera::MapExp<Saver>(dst->ptrself(), e);
}
template <typename Saver, typename Reducer, typename R, typename Device, typename DType,
          tessera::expr::Operand E>
inline void MapReduceKeepLowest(TRValue<R, Device, 1, DType>* dst, const E& e, DType scale = 1) {
  tessera::MapReduceKeepLowest<Saver, Reducer>(dst->ptrself(), e, scale);
}
template <typename Saver, typename Reducer, int dimkeep, typename R, typename Device,
          typename DType, tessera::expr::Operand E>
inline void MapReduceKeepHighDim(TRValue<R, Device, 1, DType>* dst, const E& e, DType scale = 1) {
  tessera::MapReduceKeepHighDim<Saver, Reducer, dimkeep>(dst->ptrself(), e, scale);
}

}  // namespace mshadow

#endif  // MSHADOW_EXTENSION_H_
