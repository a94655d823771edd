#include "tessera/ops/windows/window_parameters.h"

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::ops_internal {

WindowExtents ReadWindow(std::string_view op, std::string_view parameter, const TShape& given,
                         const TShape& kernel, index_t default_extent, index_t minimum) {
  WindowExtents extents = {minimum, minimum, minimum};
  const int rank = kernel.ndim();
  if (given.ndim() <= 0) {
    for (int i = 0; i < rank; ++i) extents[static_cast<size_t>(3 - rank + i)] = default_extent;
    return extents;
  }
  if (given.ndim() != rank) {
    throw InvalidArgument(op, ": parameter ", parameter, "=", given, " has ", given.ndim(),
                          " dimensions, expected the kernel's ", rank);
  }
  for (int i = 0; i < rank; ++i) {
    // 2^31 leaves room for products of an extent with strides and dilations.
    if (given[i] < minimum || given[i] >= (index_t{1} << 31)) {
      throw InvalidArgument(op, ": parameter ", parameter, "=", given,
                            " holds an extent out of range; expected [", minimum, ", 2^31)");
    }
    extents[static_cast<size_t>(3 - rank + i)] = given[i];
  }
  return extents;
}

index_t WindowPositions(std::string_view op, index_t extent, index_t kernel, index_t stride,
                        index_t dilate, index_t pad) {
  constexpr index_t kLimit = index_t{1} << 62;
  if (extent >= kLimit - 2 * pad) {
    throw InvalidArgument(op, ": an axis of ", extent, " elements padded by ", pad,
                          " has 2^62 elements or more");
  }
  const index_t slack = extent + 2 * pad - ((kernel - 1) * dilate + 1);
  return slack < 0 ? 0 : slack / stride + 1;
}

void RequireKernelRank(std::string_view op, const TShape& kernel) {
  if (kernel.ndim() <= 0) {
    throw InvalidArgument(op, ": parameter kernel=", kernel,
                          " has no dimension, expected one, two or three");
  }
  if (kernel.ndim() > 3) {
    throw Unimplemented(op, ": parameter kernel=", kernel, " has ", kernel.ndim(),
                        " dimensions; one, two and three are implemented");
  }
}

void RequireChannelsFirst(std::string_view op, std::string_view layout, int rank) {
  const std::string_view expected = rank == 1 ? "NCW" : rank == 2 ? "NCHW" : "NCDHW";
  if (layout != "None" && layout != expected) {
    throw Unimplemented(op, ": layout=", Excerpt(layout), " is not implemented; expected ",
                        expected);
  }
}

void RequireLayout(std::string_view op, std::string_view layout, int rank) {
  const std::string_view first = rank == 1 ? "NCW" : rank == 2 ? "NCHW" : "NCDHW";
  const std::string_view last = rank == 1 ? "NWC" : rank == 2 ? "NHWC" : "NDHWC";
  if (layout != "None" && layout != first && layout != last) {
    throw Unimplemented(op, ": layout=", Excerpt(layout), " is not implemented; expected ", first,
                        " or ", last);
  }
}

bool IsChannelsLast(std::string_view layout) {
  return layout == "NWC" || layout == "NHWC" || layout == "NDHWC";
}

void MergeDataRank(std::string_view op, const TShape& kernel, TShape* data) {
  const int rank = kernel.ndim() + 2;
  if (!data->Merge(TShape::OfRank(rank))) {
    throw InvalidArgument(op, ": data has shape ", *data, ", but kernel=", kernel, " expects ",
                          rank, " dimensions: batch, channel and the kernel's");
  }
}

WindowExtents SpatialExtents(const TShape& shape) {
  WindowExtents extents = {1, 1, 1};
  for (int i = 2; i < shape.ndim(); ++i) {
    extents[static_cast<size_t>(5 - shape.ndim() + (i - 2))] = shape[i];
  }
  return extents;
}

Shape<4> ImageShape(const TShape& shape) {
  if (shape.ndim() == 3) return Shape4(shape[0], shape[1], 1, shape[2]);
  if (shape.ndim() == 5) {
    throw Unimplemented("windows of three dimensions are not implemented on this device");
  }
  return shape.get<4>();
}

}  // namespace tessera::ops_internal
