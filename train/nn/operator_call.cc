#include "tessera/train/nn/operator_call.h"

#include "tessera/base/error.h"

namespace tessera::nn_internal {

void RequireAtLeast(std::string_view layer, std::string_view name, index_t value, index_t low) {
  if (value >= low) return;
  throw InvalidArgument(layer, ": ", name, " is ", value, ", expected ", low, " or more");
}

void RequireRank(std::string_view layer, const NDArray& x, int rank) {
  if (x.shape().ndim() >= rank) return;
  throw InvalidArgument(layer, ": the input has shape ", x.shape(), ", expected ", rank,
                        " or more dimensions");
}

}  // namespace tessera::nn_internal
