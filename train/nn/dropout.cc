#include "tessera/train/nn/dropout.h"

#include "tessera/base/error.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::Text;

Dropout::Dropout(double rate, const TShape& axes) : rate_(rate), axes_(axes) {
  if (!(rate >= 0 && rate < 1)) {
    throw InvalidArgument("Dropout: rate is ", rate, ", expected 0 <= rate < 1");
  }
}

NDArray Dropout::Forward(const NDArray& x) const {
  return nn_internal::CallOne("Dropout", {x}, {{"p", Text(rate_)}, {"axes", Text(axes_)}});
}

}  // namespace tessera::nn
