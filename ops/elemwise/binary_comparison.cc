// Comparisons and logic of two arrays, or of an array and a number: rows of RegisterBinary. The
// result is 1 or 0 in the type of the operands, and its gradient is 0. Integers are compared with
// the number as it is, with its fraction and whatever their type holds. (MXNet converts the number
// to the integers' type first: there uint8 > -1 is 0.)
#include "tessera/ops/elemwise/binary.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: this file is a table of its functions

struct And {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>((a != T(0)) & (b != T(0)));
  }
};
struct Or {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>((a != T(0)) | (b != T(0)));
  }
};
struct Xor {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return static_cast<T>((a != T(0)) != (b != T(0)));
  }
};

template <typename Op>
BinaryRow Row(BinaryRow row) {
  row.numbers = NumberBesideIntegers::kExact;
  row.value = MakeMapFunction<Op, 2, MapTypes::kArithmetic>();
  row.left = row.right = MakeMapFunction<op::identity, 1, MapTypes::kArithmetic>();
  return row;
}

[[maybe_unused]] const bool kRegistered =
    RegisterBinary(TESSERA_TABLE_PLACE, MakeReduceFunction<SumReducer>(),
                   {
                       Row<op::eq>({"_equal", "broadcast_equal", "_equal_scalar", "",
                                    "1 where lhs == rhs, else 0"}),
                       Row<op::ne>({"_not_equal", "broadcast_not_equal", "_not_equal_scalar", "",
                                    "1 where lhs != rhs, else 0"}),
                       Row<op::gt>({"_greater", "broadcast_greater", "_greater_scalar", "",
                                    "1 where lhs > rhs, else 0"}),
                       Row<op::ge>({"_greater_equal", "broadcast_greater_equal",
                                    "_greater_equal_scalar", "", "1 where lhs >= rhs, else 0"}),
                       Row<op::lt>({"_lesser", "broadcast_lesser", "_lesser_scalar", "",
                                    "1 where lhs < rhs, else 0"}),
                       Row<op::le>({"_lesser_equal", "broadcast_lesser_equal",
                                    "_lesser_equal_scalar", "", "1 where lhs <= rhs, else 0"}),
                       Row<And>({"_logical_and", "broadcast_logical_and", "_logical_and_scalar", "",
                                 "1 where neither lhs nor rhs is 0, else 0"}),
                       Row<Or>({"_logical_or", "broadcast_logical_or", "_logical_or_scalar", "",
                                "0 where lhs and rhs are 0, else 1"}),
                       Row<Xor>({"_logical_xor", "broadcast_logical_xor", "_logical_xor_scalar", "",
                                 "1 where one of lhs and rhs is 0 and the other is not, else 0"}),
                   });

}  // namespace
}  // namespace tessera
