#include "tessera/train/nn/convolution.h"

#include <string_view>

#include "tessera/base/error.h"
#include "tessera/train/nn/activation.h"
#include "tessera/train/nn/operator_call.h"
#include "tessera/train/nn/window.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::PerAxis;
using nn_internal::Text;

Convolution::Convolution(int rank, Kind kind, index_t channels, const TShape& kernel,
                         const ConvOptions& options)
    : kind_(kind),
      channels_(channels),
      kernel_(PerAxis("Convolution", "kernel", kernel, rank, 1)),
      options_(options),
      weight_(AddParameter("weight", {.initializer = options.weight_initializer})),
      bias_(options.use_bias ? AddParameter("bias", {.shape = {channels}}) : Parameter("bias")) {
  nn_internal::RequireAtLeast("Convolution", "channels", channels, 1);
  nn_internal::RequireAtLeast("Convolution", "groups", options.groups, 1);
  if (channels % options.groups != 0) {
    throw InvalidArgument("Convolution: ", channels, " channels in ", options.groups,
                          " groups, expected a multiple of the groups");
  }
  Activation::CheckName(options.activation);
  options_.stride = PerAxis("Convolution", "stride", options.stride, rank, 1);
  options_.pad = PerAxis("Convolution", "pad", options.pad, rank, 0);
  options_.dilate = PerAxis("Convolution", "dilate", options.dilate, rank, 1);
  options_.output_pad = PerAxis("Convolution", "output_pad", options.output_pad, rank, 0);
}

NDArray Convolution::Forward(const NDArray& x) const {
  nn_internal::RequireRank("Convolution", x, 2);
  const bool transposed = kind_ == Kind::kTransposed;
  const index_t in_channels = x.shape()[1];
  if (options_.in_channels != TShape::kUnknown && options_.in_channels != in_channels) {
    throw InvalidArgument("Convolution: the input has shape ", x.shape(), ", expected ",
                          options_.in_channels, " channels in axis 1");
  }
  TShape shape = TShape::OfRank(kernel_.ndim() + 2);
  shape[0] = transposed ? in_channels : channels_;
  shape[1] = (transposed ? channels_ : in_channels) / options_.groups;
  for (int i = 0; i < kernel_.ndim(); ++i) shape[i + 2] = kernel_[i];
  ParameterMap parameters = {{"kernel", Text(kernel_)},
                             {"stride", Text(options_.stride)},
                             {"dilate", Text(options_.dilate)},
                             {"pad", Text(options_.pad)},
                             {"num_filter", Text(channels_)},
                             {"num_group", Text(options_.groups)},
                             {"no_bias", Text(!options_.use_bias)}};
  if (transposed) parameters["adj"] = Text(options_.output_pad);
  const std::string_view op = transposed ? "Deconvolution" : "Convolution";
  const NDArray weight = weight_.Use(x.device(), shape);
  const NDArray y = options_.use_bias
                        ? CallOne(op, {x, weight, bias_.Use(x.device(), {channels_})}, parameters)
                        : CallOne(op, {x, weight}, parameters);
  return Activation::Apply(options_.activation, y);
}

}  // namespace tessera::nn
