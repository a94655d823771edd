#include <string>

#include "tessera/ops/elemwise/binary_row.h"

namespace tessera::ops_testing {
namespace {

double Zero(double, double) { return 0; }

/// A comparison or logical function, at values that are equal, 0 or neither.
BinaryFunction Function(const std::string& name, double (*value)(double, double)) {
  const Fill fill = Fill::Integers(-1, 1);
  return {.elementwise = "_" + name,
          .broadcast = "broadcast_" + name,
          .scalar = "_" + name + "_scalar",
          .value = value,
          .left = &Zero,
          .right = &Zero,
          .left_fill = fill,
          .right_fill = fill,
          .is_smooth = false};
}

const BinaryRows kRows[] = {
    BinaryRows(Function("equal", [](double a, double b) { return a == b ? 1.0 : 0.0; })),
    BinaryRows(Function("not_equal", [](double a, double b) { return a != b ? 1.0 : 0.0; })),
    BinaryRows(Function("greater", [](double a, double b) { return a > b ? 1.0 : 0.0; })),
    BinaryRows(Function("greater_equal", [](double a, double b) { return a >= b ? 1.0 : 0.0; })),
    BinaryRows(Function("lesser", [](double a, double b) { return a < b ? 1.0 : 0.0; })),
    BinaryRows(Function("lesser_equal", [](double a, double b) { return a <= b ? 1.0 : 0.0; })),
    BinaryRows(
        Function("logical_and", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; })),
    BinaryRows(
        Function("logical_or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; })),
    BinaryRows(Function("logical_xor",
                        [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; })),
};

}  // namespace
}  // namespace tessera::ops_testing
