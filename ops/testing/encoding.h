#ifndef TESSERA_OPS_TESTING_ENCODING_H_
#define TESSERA_OPS_TESTING_ENCODING_H_

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/test_device.h"

namespace tessera::ops_testing {

/// Returns doubles, rounded to an element type, as bytes.
Bytes Encode(const Values& values, DType dtype);

/// Returns the bytes of an array as doubles.
Values Decode(const Bytes& bytes, const TShape& shape, DType dtype);

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_ENCODING_H_
