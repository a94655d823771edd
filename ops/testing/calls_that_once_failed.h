#ifndef TESSERA_OPS_TESTING_CALLS_THAT_ONCE_FAILED_H_
#define TESSERA_OPS_TESTING_CALLS_THAT_ONCE_FAILED_H_

#include <string>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"

namespace tessera::ops_testing {

/// A call of an operator.
struct FailedCall {
  std::string op;
  ParameterMap parameters;
  std::vector<TShape> in_shape;
};

/// Returns calls that ended the process, took too long or had errors without the operator's name
/// when random parameters found them.
const std::vector<FailedCall>& CallsThatOnceFailed();

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_CALLS_THAT_ONCE_FAILED_H_
