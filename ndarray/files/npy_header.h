#ifndef TESSERA_NDARRAY_FILES_NPY_HEADER_H_
#define TESSERA_NDARRAY_FILES_NPY_HEADER_H_

#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/files/byte_source.h"

namespace tessera::ndarray_internal {

/// The description before the elements of an `.npy` file:
///
///   "\x93NUMPY", u8 major version, u8 minor version, u16 (from 2.0: u32) length, text
///
/// The text is a Python dictionary, padded by spaces and ended by a line feed:
///
///   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
///
/// Source: NumPy Enhancement Proposal 1.
struct NpyHeader {
  DType dtype = DType::kUnknown;
  bool is_big_endian = false;
  bool is_fortran_order = false;  ///< the first index varies fastest
  std::vector<index_t> extents;   ///< of any rank
};

/// Reads the description. Throws Error(kDataLoss) if it is damaged, and Error(kUnimplemented) for
/// an element type without a DType.
NpyHeader ReadNpyHeader(ByteSource& source);

/// Returns the description of an array in row-major order, version 1.0, of a length that is a
/// multiple of 64. Throws Error(kUnimplemented) that begins with `name` for bfloat16.
std::string FormatNpyHeader(const std::string& name, DType dtype, const TShape& shape);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_NPY_HEADER_H_
