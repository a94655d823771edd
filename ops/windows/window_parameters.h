#ifndef TESSERA_OPS_WINDOWS_WINDOW_PARAMETERS_H_
#define TESSERA_OPS_WINDOWS_WINDOW_PARAMETERS_H_

#include <array>
#include <string_view>

#include "tessera/base/tshape.h"

namespace tessera::ops_internal {

/// Extents along (depth, height, width). Windows and images of one or two dimensions have their
/// extents at the end, and in front those that change nothing: one element, stride 1, no padding.
using WindowExtents = std::array<index_t, 3>;

/// Returns the product of three extents.
constexpr index_t Volume(const WindowExtents& extents) {
  return extents[0] * extents[1] * extents[2];
}

/// Returns a parameter such as stride or pad, which has the kernel's rank or is omitted; axes in
/// front of it have `minimum`. Throws Error(kInvalidArgument) that names operator and parameter if
/// its rank differs or if an extent is below `minimum`.
WindowExtents ReadWindow(std::string_view op, std::string_view parameter, const TShape& given,
                         const TShape& kernel, index_t default_extent, index_t minimum);

/// Returns the number of positions of a window along an axis of `extent` elements, or 0 if it does
/// not fit. The other arguments are one axis of what ReadWindow returns. Throws
/// Error(kInvalidArgument) that names the operator if the padded axis has 2^62 elements or more.
index_t WindowPositions(std::string_view op, index_t extent, index_t kernel, index_t stride,
                        index_t dilate, index_t pad);

/// Throws Error that names the operator unless the kernel has one to three dimensions:
/// kUnimplemented for more, kInvalidArgument for none.
void RequireKernelRank(std::string_view op, const TShape& kernel);

/// Throws Error(kUnimplemented) that names operator and layout unless it is "None" or the one with
/// channels before `rank` spatial dimensions: NCW, NCHW or NCDHW.
void RequireChannelsFirst(std::string_view op, std::string_view layout, int rank);

/// Throws as RequireChannelsFirst does, but also accepts the layout with channels behind the
/// spatial dimensions: NWC, NHWC or NDHWC.
void RequireLayout(std::string_view op, std::string_view layout, int rank);

/// Returns whether the layout is NWC, NHWC or NDHWC.
bool IsChannelsLast(std::string_view layout);

/// Completes the data's shape to (batch, channel) and the kernel's dimensions. Throws
/// Error(kInvalidArgument) that names kernel and data if the data has another rank.
void MergeDataRank(std::string_view op, const TShape& kernel, TShape* data);

/// Returns the extents of (batch, channel, …) after the channel.
WindowExtents SpatialExtents(const TShape& shape);

/// Returns (batch, channel, width) or (batch, channel, height, width) as four dimensions. Throws
/// Error(kUnimplemented) for three spatial dimensions.
Shape<4> ImageShape(const TShape& shape);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_WINDOW_PARAMETERS_H_
