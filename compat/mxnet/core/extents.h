#ifndef TESSERA_COMPAT_MXNET_CORE_EXTENTS_H_
#define TESSERA_COMPAT_MXNET_CORE_EXTENTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/tshape.h"

// Shapes between clients and functions, of which many have 32-bit extents.
namespace tessera::mxnet {

/// Returns a number in the type in which a function gives it to a client. Throws
/// Error(kOutOfRange), which names the function, what the number is, and the limit, for a number
/// that the type does not hold.
template <typename Number>
Number NumberForClient(std::string_view function, std::string_view what, int64_t number);

/// Returns a shape's extents as a function gives them to a client: unless the thread uses NumPy's
/// shapes, an unknown extent is 0. Throws Error(kOutOfRange) as NumberForClient does.
template <typename Extent>
std::vector<Extent> ExtentsForClient(std::string_view function, const TShape& shape);

/// Returns a shape that a client gives a function: unless the thread uses NumPy's shapes, 0 is an
/// unknown extent and rank 0 an unknown rank. Throws Error(kInvalidArgument), which names the
/// function and the limit, for an extent below TShape::kUnknown; extents from 2^31 on that a client
/// writes as 32-bit integers arrive so.
template <typename Extent>
TShape ShapeFromApi(std::string_view function, const Extent* extents, size_t rank);

/// Returns shape i of a client's list, whose extents are those from offsets[i] to offsets[i + 1].
/// Throws Error(kInvalidArgument) if that is no range of at most TShape::kMaxRank extents.
template <typename Extent, typename Offset>
TShape ShapeFromApi(std::string_view function, const Extent* extents, const Offset* offsets,
                    size_t i);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_EXTENTS_H_
