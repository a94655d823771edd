#include "tessera/train/nn/norm.h"

#include "tessera/base/error.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::RequireRank;
using nn_internal::Text;

namespace {

OpReqType Request(bool is_trained) { return is_trained ? kWriteTo : kNullOp; }

/// Returns the extent of an axis, which is counted from the end if it is negative.
index_t Extent(const char* layer, const NDArray& x, int axis) {
  const int rank = x.shape().ndim();
  if (axis < -rank || axis >= rank) {
    throw InvalidArgument(layer, ": the input has shape ", x.shape(), ", expected one with axis ",
                          axis);
  }
  return x.shape()[axis < 0 ? axis + rank : axis];
}

}  // namespace

BatchNorm::BatchNorm(const BatchNormOptions& options)
    : options_(options),
      gamma_(AddParameter("gamma", {.grad_req = Request(options.scale)})),
      beta_(AddParameter("beta", {.grad_req = Request(options.center)})),
      running_mean_(AddParameter("running_mean", {.grad_req = kNullOp})),
      running_var_(AddParameter("running_var", {.grad_req = kNullOp})) {}

NDArray BatchNorm::Forward(const NDArray& x) const {
  const TShape shape = {Extent("BatchNorm", x, options_.axis)};
  const Device device = x.device();
  return CallOne("BatchNorm",
                 {x, gamma_.Use(device, shape), beta_.Use(device, shape),
                  running_mean_.Use(device, shape), running_var_.Use(device, shape)},
                 {{"axis", Text(options_.axis)},
                  {"momentum", Text(options_.momentum)},
                  {"eps", Text(options_.epsilon)},
                  {"fix_gamma", Text(!options_.scale)},
                  {"use_global_stats", Text(options_.use_global_stats)}});
}

LayerNorm::LayerNorm(const NormOptions& options, int axis)
    : options_(options),
      axis_(axis),
      gamma_(AddParameter("gamma", {.grad_req = Request(options.scale)})),
      beta_(AddParameter("beta", {.grad_req = Request(options.center)})) {}

NDArray LayerNorm::Forward(const NDArray& x) const {
  const TShape shape = {Extent("LayerNorm", x, axis_)};
  return CallOne("LayerNorm", {x, gamma_.Use(x.device(), shape), beta_.Use(x.device(), shape)},
                 {{"axis", Text(axis_)}, {"eps", Text(options_.epsilon)}});
}

GroupNorm::GroupNorm(index_t num_groups, const NormOptions& options)
    : num_groups_(num_groups),
      options_(options),
      gamma_(AddParameter("gamma", {.grad_req = Request(options.scale)})),
      beta_(AddParameter("beta", {.grad_req = Request(options.center)})) {
  nn_internal::RequireAtLeast("GroupNorm", "num_groups", num_groups, 1);
}

NDArray GroupNorm::Forward(const NDArray& x) const {
  const TShape shape = {num_groups_};
  return CallOne("GroupNorm", {x, gamma_.Use(x.device(), shape), beta_.Use(x.device(), shape)},
                 {{"num_groups", Text(num_groups_)}, {"eps", Text(options_.epsilon)}});
}

RMSNorm::RMSNorm(double epsilon) : epsilon_(epsilon), gamma_(AddParameter("gamma")) {}

NDArray RMSNorm::Forward(const NDArray& x) const {
  const TShape shape = {Extent("RMSNorm", x, -1)};
  const NDArray square = CallOne("square", {x});
  const NDArray mean = CallOne("mean", {square}, {{"axis", "-1"}, {"keepdims", "True"}});
  const NDArray scaled = CallOne("broadcast_mul", {x, CallOne("rsqrt", {mean + epsilon_})});
  return CallOne("broadcast_mul", {scaled, gamma_.Use(x.device(), shape)});
}

}  // namespace tessera::nn
