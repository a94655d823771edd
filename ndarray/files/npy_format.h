#ifndef TESSERA_NDARRAY_FILES_NPY_FORMAT_H_
#define TESSERA_NDARRAY_FILES_NPY_FORMAT_H_

#include <string>

#include "tessera/ndarray/files/byte_sink.h"
#include "tessera/ndarray/files/byte_source.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// Reads an `.npy` file that takes all of the source. Throws the errors of LoadNpy.
NDArray ReadNpy(ByteSource& source);

/// Writes an `.npy` file, whose errors begin with `name`. Requires: !array.is_none().
void WriteNpy(const std::string& name, const NDArray& array, ByteSink& sink);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_NPY_FORMAT_H_
