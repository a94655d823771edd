#include "tessera/train/nn/dense.h"

#include "tessera/train/nn/activation.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::Text;

Dense::Dense(index_t units, const DenseOptions& options)
    : units_(units),
      options_(options),
      weight_(AddParameter("weight", {.shape = {units, options.in_units},
                                      .initializer = options.weight_initializer})),
      bias_(options.use_bias ? AddParameter("bias", {.shape = {units}}) : Parameter("bias")) {
  nn_internal::RequireAtLeast("Dense", "units", units, 1);
  Activation::CheckName(options.activation);
}

NDArray Dense::Forward(const NDArray& x) const {
  nn_internal::RequireRank("Dense", x, 1);
  const TShape& shape = x.shape();
  const int rank = shape.ndim();
  const index_t in_units = options_.flatten ? shape.ProdShape(1, rank) : shape[rank - 1];
  const NDArray weight = weight_.Use(x.device(), {units_, in_units});
  const ParameterMap parameters = {{"num_hidden", Text(units_)},
                                   {"no_bias", Text(!options_.use_bias)},
                                   {"flatten", Text(options_.flatten)}};
  const NDArray y =
      options_.use_bias
          ? CallOne("FullyConnected", {x, weight, bias_.Use(x.device(), {units_})}, parameters)
          : CallOne("FullyConnected", {x, weight}, parameters);
  return Activation::Apply(options_.activation, y);
}

NDArray Flatten::Forward(const NDArray& x) const { return CallOne("Flatten", {x}); }

}  // namespace tessera::nn
