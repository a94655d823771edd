#ifndef TESSERA_NDARRAY_NAMED_ARRAY_H_
#define TESSERA_NDARRAY_NAMED_ARRAY_H_

#include <string>

#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// An array and its name in a file.
struct NamedArray {
  std::string name;  ///< the name, which may be empty
  NDArray array;     ///< the array
};

}  // namespace tessera

#endif  // TESSERA_NDARRAY_NAMED_ARRAY_H_
