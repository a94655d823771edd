#ifndef TESSERA_NDARRAY_PRINT_H_
#define TESSERA_NDARRAY_PRINT_H_

#include <ostream>
#include <string>

#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// Returns the elements as NumPy's str prints them, and a line of shape, element type and device:
///
///     [[1.   2.5 ]
///      [3.   0.25]]
///     <NDArray 2x2 float32 @cpu(0)>
///
/// Numbers have the fewest digits that tell them from others of their type, at most 8 after the
/// point. They are in scientific notation if the largest is at least 1e8, the smallest is below
/// 1e-4, or both differ by more than a factor of 1000. Of more than 1000 elements, the first and
/// last three on each axis are printed. An array that is_none() is "<NDArray none>". Of a sparse
/// array, what it stores is printed:
///
///     [[1. 2.]]
///     indices [1]
///     <NDArray 4x2 float32 row_sparse @cpu(0)>
///
/// Blocks until pending writes are done, and throws their Error.
std::string ToString(const NDArray& array);

/// Prints ToString().
std::ostream& operator<<(std::ostream& os, const NDArray& array);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_PRINT_H_
