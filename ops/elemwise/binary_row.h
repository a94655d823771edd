#ifndef TESSERA_OPS_ELEMWISE_BINARY_ROW_H_
#define TESSERA_OPS_ELEMWISE_BINARY_ROW_H_

#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {

/// f(lhs, rhs) with its partial derivatives, and the operators that compute it; see BinaryRow.
struct BinaryFunction {
  std::string elementwise;
  std::string broadcast;
  std::string scalar;
  std::string reverse_scalar;
  double (*value)(double a, double b);
  double (*left)(double a, double b);
  double (*right)(double a, double b);
  Fill left_fill = Fill();
  Fill right_fill = Fill::Uniform(0.5, 2);
  bool is_smooth = true;  ///< whether the value has these derivatives at all elements of the test
  /// Pairs of operands, beyond the fills, at which the value need not be differentiable.
  std::vector<double> special_left{};
  std::vector<double> special_right{};
};

/// Registers the rows of the operators of one function.
class BinaryRows {
 public:
  explicit BinaryRows(const BinaryFunction& function);
};

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_ELEMWISE_BINARY_ROW_H_
