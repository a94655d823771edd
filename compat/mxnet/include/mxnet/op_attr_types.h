#ifndef MXNET_OP_ATTR_TYPES_H_
#define MXNET_OP_ATTR_TYPES_H_

#include <vector>

#include "mxnet/base.h"
#include "mxnet/engine.h"
#include "mxnet/resource.h"

namespace mxnet {

/// The treatment of an output's old contents. An operator in MXNet's style is never asked for
/// kAddTo, which many of them ignore: the caller adds.
enum OpReqType {
  kNullOp,        ///< the output is not wanted; it has memory nevertheless
  kWriteTo,       ///< overwrite
  kWriteInplace,  ///< overwrite; the output shares memory with an input that the property named
  kAddTo,         ///< add to the old contents
};

/// How an operator's call runs.
enum class ExecType {
  kSync,             ///< it is done when the function returns
  kAsync,            ///< it is done when it calls OpContext::async_on_complete
  kCrossDeviceCopy,  ///< refused
};

/// The context of an operator's call.
struct OpContext {
  bool need_grad = false;  ///< whether Backward may be called with this call's values
  bool is_train = false;   ///< whether to behave as in training
  RunContext run_ctx;      ///< the device
  engine::CallbackOnComplete async_on_complete;  ///< for ExecType::kAsync
  std::vector<Resource> requested;  ///< in the order of ForwardResource or BackwardResource

  template <typename xpu>
  mshadow::Stream<xpu>* get_stream() const {
    return run_ctx.get_stream<xpu>();
  }
};

}  // namespace mxnet

#endif  // MXNET_OP_ATTR_TYPES_H_
