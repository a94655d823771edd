#ifndef TESSERA_OPS_NN_WINDOW_PARAMETERS_H_
#define TESSERA_OPS_NN_WINDOW_PARAMETERS_H_

#include <string_view>

#include "tessera/base/tshape.h"

namespace tessera::ops_internal {

/// Extents of a window along (y, x). A one-dimensional window is one row high.
struct WindowExtents {
  index_t y = 0;
  index_t x = 0;
};

/// Returns a parameter such as stride or pad, which has the kernel's rank or is omitted. Throws
/// Error(kInvalidArgument) that names operator and parameter if its rank differs or if an extent is
/// below `minimum`.
WindowExtents ReadWindow(std::string_view op, std::string_view parameter, const TShape& given,
                         const TShape& kernel, index_t default_extent, index_t minimum);

/// Throws Error that names the operator unless the kernel has one or two dimensions: kUnimplemented
/// for more, kInvalidArgument for none.
void RequireKernelRank(std::string_view op, const TShape& kernel);

/// Completes the data's shape to (batch, channel) and the kernel's dimensions. Throws
/// Error(kInvalidArgument) that names kernel and data if the data has another rank.
void MergeDataRank(std::string_view op, const TShape& kernel, TShape* data);

/// Returns (batch, channel, width) or (batch, channel, height, width) as four dimensions.
Shape<4> ImageShape(const TShape& shape);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_NN_WINDOW_PARAMETERS_H_
