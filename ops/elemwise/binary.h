#ifndef TESSERA_OPS_ELEMWISE_BINARY_H_
#define TESSERA_OPS_ELEMWISE_BINARY_H_

#include <string_view>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/map.h"
#include "tessera/ops/loops/reduce.h"
#include "tessera/ops/table.h"

// The families of operators f(lhs, rhs): of arrays of one shape, of arrays that are broadcast to a
// common shape, and of an array and a number.
namespace tessera::ops_internal {

/// The function that gives an operand's gradient, where g is the head gradient.
enum class OperandGradient {
  kZero,    ///< 0
  kLinear,  ///< f(g), which is linear
  kOther,   ///< f(g, the other operand)
  kBoth,    ///< f(g, lhs, rhs)
};

/// The formula of an operand's gradient, from the head gradient g, the operands a and b, one of
/// which may be a number, and the output y.
using BinaryGraph = Term (*)(const Term& g, const Term& a, const Term& b, const Term& y);

/// One function, under the names of its operators. A name is empty where there is no such operator.
struct BinaryRow {
  std::string_view elementwise;     ///< of two arrays of one shape
  std::string_view broadcast;       ///< of two arrays that are broadcast
  std::string_view scalar;          ///< of data and the number `scalar`
  std::string_view reverse_scalar;  ///< of `scalar` and data
  std::string_view formula;         ///< with lhs and rhs, for the documentation
  /// How `scalar` is taken beside integers. Gradients that choose compare with it exactly.
  NumberBesideIntegers numbers = NumberBesideIntegers::kTruncate;
  MapFunction value;
  OperandGradient left_form = OperandGradient::kZero;  ///< of lhs
  MapFunction left{};                                  ///< for kZero, the identity
  OperandGradient right_form = OperandGradient::kZero;
  MapFunction right{};
  /// The gradients as graphs; null if there are none. A gradient of 0 needs none.
  BinaryGraph left_graph = nullptr;
  BinaryGraph right_graph = nullptr;
};

/// Registers operators from a table whose functions, and `sum`, were compiled for that kind of
/// device, and returns true. The table for the CPU also registers the operators' properties.
bool RegisterBinary(TablePlace place, const ReduceFunction& sum, std::vector<BinaryRow> rows);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_ELEMWISE_BINARY_H_
