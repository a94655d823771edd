#ifndef TESSERA_OPS_TESTING_STATED_VALUES_H_
#define TESSERA_OPS_TESTING_STATED_VALUES_H_

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/ops/parameter.h"

namespace tessera::ops_testing {

/// A call and its results, worked out by hand. Where a derivative has no limit, it is PyTorch's, or
/// a subgradient where PyTorch has NaN.
struct Stated {
  std::string op;
  ParameterMap parameters;
  std::vector<std::pair<TShape, std::vector<double>>> inputs;
  std::vector<double> output;
  /// Of the inputs, for head gradients 1; empty where none is stated.
  std::vector<std::vector<double>> gradients{};
  /// The derivative of the sum of the first input's gradient by that input.
  std::vector<double> second{};
};

/// Returns calls at zeros, ties, huge and tiny values, and infinities.
const std::vector<Stated>& StatedValues();

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_STATED_VALUES_H_
