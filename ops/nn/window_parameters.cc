#include "tessera/ops/nn/window_parameters.h"

#include "tessera/base/error.h"

namespace tessera::ops_internal {

WindowExtents ReadWindow(std::string_view op, std::string_view parameter, const TShape& given,
                         const TShape& kernel, index_t default_extent, index_t minimum) {
  if (given.ndim() <= 0) return {default_extent, default_extent};
  if (given.ndim() != kernel.ndim()) {
    throw InvalidArgument(op, ": parameter ", parameter, "=", given, " has ", given.ndim(),
                          " dimensions, expected the kernel's ", kernel.ndim());
  }
  for (const index_t extent : given) {
    // 2^31 leaves room for products of an extent with strides and dilations.
    if (extent < minimum || extent >= (index_t{1} << 31)) {
      throw InvalidArgument(op, ": parameter ", parameter, "=", given,
                            " holds an extent out of range; expected [", minimum, ", 2^31)");
    }
  }
  if (given.ndim() == 1) return {minimum, given[0]};
  return {given[0], given[1]};
}

void RequireKernelRank(std::string_view op, const TShape& kernel) {
  if (kernel.ndim() <= 0) {
    throw InvalidArgument(op, ": parameter kernel=", kernel,
                          " has no dimension, expected one or two");
  }
  if (kernel.ndim() > 2) {
    throw Unimplemented(op, ": parameter kernel=", kernel, " has ", kernel.ndim(),
                        " dimensions; one and two are implemented");
  }
}

void MergeDataRank(std::string_view op, const TShape& kernel, TShape* data) {
  const int rank = kernel.ndim() + 2;
  if (!data->Merge(TShape::OfRank(rank))) {
    throw InvalidArgument(op, ": data has shape ", *data, ", but kernel=", kernel, " expects ",
                          rank, " dimensions: batch, channel and the kernel's");
  }
}

Shape<4> ImageShape(const TShape& shape) {
  if (shape.ndim() == 3) return Shape4(shape[0], shape[1], 1, shape[2]);
  return shape.get<4>();
}

}  // namespace tessera::ops_internal
