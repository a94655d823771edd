#include "tessera/train/nn/pooling.h"

#include "tessera/train/nn/operator_call.h"
#include "tessera/train/nn/window.h"

namespace tessera::nn {

using nn_internal::PerAxis;
using nn_internal::Text;

Pooling::Pooling(int rank, Kind kind, const PoolOptions& options) {
  const TShape size = PerAxis("Pooling", "size", options.size, rank, 2);
  const TShape stride =
      options.stride.ndim() == 0 ? size : PerAxis("Pooling", "stride", options.stride, rank, 1);
  parameters_ = {{"kernel", Text(size)},
                 {"stride", Text(stride)},
                 {"pad", Text(PerAxis("Pooling", "pad", options.pad, rank, 0))},
                 {"pool_type", kind == Kind::kMax ? "max" : "avg"},
                 {"pooling_convention", options.ceil_mode ? "full" : "valid"},
                 {"count_include_pad", Text(options.count_include_pad)}};
}

Pooling::Pooling(int rank, Kind kind)
    : parameters_{{"kernel", Text(PerAxis("Pooling", "size", TShape({}), rank, 1))},
                  {"pool_type", kind == Kind::kMax ? "max" : "avg"},
                  {"global_pool", Text(true)}} {}

NDArray Pooling::Forward(const NDArray& x) const {
  return nn_internal::CallOne("Pooling", {x}, parameters_);
}

}  // namespace tessera::nn
