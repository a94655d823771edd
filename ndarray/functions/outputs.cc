#include "tessera/ndarray/functions/outputs.h"

#include "tessera/base/error.h"

namespace tessera::ops {

Outputs::operator NDArray() const {
  if (size() != 1) {
    throw FailedPrecondition("ops::Outputs: ", size(),
                             " outputs as one array, expected one; choose one with operator[]");
  }
  return front();
}

}  // namespace tessera::ops
