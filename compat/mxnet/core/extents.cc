#include "tessera/compat/mxnet/core/extents.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"

namespace tessera::mxnet {

template <typename Number>
Number NumberForClient(std::string_view function, std::string_view what, int64_t number) {
  if (!std::in_range<Number>(number)) {
    throw OutOfRange(function, ": the ", what, " ", number, " is above ",
                     std::numeric_limits<Number>::max(), ", the limit of this function");
  }
  return static_cast<Number>(number);
}
template int NumberForClient(std::string_view, std::string_view, int64_t);
template uint32_t NumberForClient(std::string_view, std::string_view, int64_t);
template int64_t NumberForClient(std::string_view, std::string_view, int64_t);

template <typename Extent>
std::vector<Extent> ExtentsForClient(std::string_view function, const TShape& shape) {
  std::vector<Extent> extents;
  extents.reserve(static_cast<size_t>(std::max(shape.ndim(), 0)));
  for (const index_t extent : shape) {
    if (extent == TShape::kUnknown) {
      extents.push_back(NumpyShape() ? static_cast<Extent>(extent) : 0);
    } else {
      extents.push_back(NumberForClient<Extent>(function, "extent", extent));
    }
  }
  return extents;
}
template std::vector<int> ExtentsForClient(std::string_view, const TShape&);
template std::vector<uint32_t> ExtentsForClient(std::string_view, const TShape&);
template std::vector<int64_t> ExtentsForClient(std::string_view, const TShape&);

template <typename Extent>
TShape ShapeFromApi(std::string_view function, const Extent* extents, size_t rank) {
  std::vector<index_t> shape;
  for (const Extent extent : std::span(extents, rank)) {
    const auto value = static_cast<index_t>(extent);
    if (value < TShape::kUnknown) {
      throw InvalidArgument(function, ": the extent ", value, " is negative; expected at most ",
                            std::numeric_limits<Extent>::max(), ", the limit of this function");
    }
    shape.push_back(value == 0 && !NumpyShape() ? TShape::kUnknown : value);
  }
  return rank == 0 && !NumpyShape() ? TShape() : TShape(shape);
}

template <typename Extent, typename Offset>
TShape ShapeFromApi(std::string_view function, const Extent* extents, const Offset* offsets,
                    size_t i) {
  const auto begin = static_cast<int64_t>(offsets[i]), end = static_cast<int64_t>(offsets[i + 1]);
  if (begin < 0 || end < begin || end - begin > TShape::kMaxRank) {
    throw InvalidArgument(function, ": shape ", i, " of the list has the extents from ", begin,
                          " to ", end, ", expected 0 to ", int64_t{TShape::kMaxRank}, " extents");
  }
  if (begin != end) NotNull(extents, "the extents of shapes");
  return ShapeFromApi(function, extents + begin, static_cast<size_t>(end - begin));
}

#define TESSERA_SHAPE_FROM_API(Extent)                                                    \
  template TShape ShapeFromApi(std::string_view, const Extent*, size_t);                  \
  template TShape ShapeFromApi(std::string_view, const Extent*, const uint32_t*, size_t); \
  template TShape ShapeFromApi(std::string_view, const Extent*, const int64_t*, size_t);
TESSERA_SHAPE_FROM_API(uint32_t)
TESSERA_SHAPE_FROM_API(int)
TESSERA_SHAPE_FROM_API(int64_t)
#undef TESSERA_SHAPE_FROM_API

}  // namespace tessera::mxnet
