#ifndef TESSERA_OPS_MAP_FORM_H_
#define TESSERA_OPS_MAP_FORM_H_

#include <vector>

#include "tessera/base/number.h"

namespace tessera {

namespace ops_internal {
struct MapFunction;
}  // namespace ops_internal

/// The form of an array that a call of an operator computes element by element: a function of the
/// elements of operands, which are broadcast to the array's shape and aligned at their last
/// dimensions, as NumPy does it. ops_internal::MapCall computes it.
struct MapForm {
  /// The list of the call's arguments that an operand belongs to. Forward has inputs alone.
  enum class Role { kNumber, kOutGrad, kInData, kOutData };
  /// An operand: an argument of the call, or a number.
  struct Operand {
    Role role = Role::kNumber;
    int index = 0;       ///< the position in the list; 0 for a number
    Number number = {};  ///< of Role::kNumber
  };

  /// Return the head gradient, an input, an output and a number as operands.
  static Operand OutGrad() { return {.role = Role::kOutGrad}; }
  static Operand Input(int index) { return {.role = Role::kInData, .index = index}; }
  static Operand Output() { return {.role = Role::kOutData}; }
  static Operand Of(const Number& number) { return {.number = number}; }

  /// The function, for the CPU. It lives as long as the property that has told the form.
  const ops_internal::MapFunction* function = nullptr;
  std::vector<Operand> operands = {};  ///< as many as the function takes
};

}  // namespace tessera

#endif  // TESSERA_OPS_MAP_FORM_H_
