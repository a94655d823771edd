#ifndef TESSERA_OPS_TESTING_SPECIAL_VALUE_EXCEPTIONS_H_
#define TESSERA_OPS_TESTING_SPECIAL_VALUE_EXCEPTIONS_H_

#include <set>
#include <string_view>
#include <vector>

namespace tessera::ops_testing {

/// The values that special_values_test gives to inputs.
enum class Pattern {
  kZeros,
  kSomeZeros,
  kTies,  ///< all elements equal the first one
  kHuge,  ///< the case's values times 2^100; in float16, times 2^12
  kTiny,  ///< the case's values times 2^-100
  kInfinity,
  kMinusInfinity,
  kNan,
};

/// The property that an exception takes from an operator.
enum class Check {
  kRefused,           ///< the call, or its gradient, throws an Error that names the operator
  kForward,           ///< outputs differ from the reference
  kGradient,          ///< a gradient in float32 or float16 differs from the one in float64
  kFiniteGradient,    ///< a gradient is not finite where the outputs are
  kForms,             ///< the gradient by a graph differs from Backward
  kSecondDerivative,  ///< the derivative of a finite gradient is not finite, or is refused
};

/// Checks that an operator does not pass for inputs of some patterns, and why.
struct Exception {
  std::string_view op;  ///< the operator, or the begin of its name with a final *
  std::set<Check> checks;
  std::set<Pattern> patterns;
  std::string_view reason;

  bool Names(std::string_view name) const {
    return op.ends_with('*') ? name.starts_with(op.substr(0, op.size() - 1)) : name == op;
  }
};

/// Returns what deviates. Each line is needed: special_values_test fails otherwise.
const std::vector<Exception>& Exceptions();

/// Returns the operators whose reference converts values to positions, which it does not check.
const std::set<std::string_view>& PositionsFromValues();

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_TESTING_SPECIAL_VALUE_EXCEPTIONS_H_
