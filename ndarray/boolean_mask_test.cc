#include "tessera/ndarray/boolean_mask.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NDArray Matrix() { return NDArray::FromVector(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}); }

TEST(BooleanMaskTest, KeepsTheSlicesWhereTheMaskIsNotZero) {
  const NDArray rows = BooleanMask(Matrix(), Vector({0.5f, 0, -1}));
  EXPECT_EQ(rows.shape(), (TShape{2, 2}));
  EXPECT_THAT(rows.ToVector(), ElementsAre(1, 2, 5, 6));
  const NDArray column = BooleanMask(Matrix(), Vector({0, 1}).AsType(DType::kBool), -1);
  EXPECT_EQ(column.shape(), (TShape{3, 1}));
  EXPECT_THAT(column.ToVector(), ElementsAre(2, 4, 6));
}

TEST(BooleanMaskTest, AMaskOfZerosKeepsNothing) {
  const NDArray none = BooleanMask(Matrix(), Vector({0, 0, 0}));
  EXPECT_EQ(none.shape(), (TShape{0, 2}));
  EXPECT_THAT(none.ToVector(), IsEmpty());
  EXPECT_EQ(BooleanMask(none, Vector({})).shape(), (TShape{0, 2}));
}

TEST(BooleanMaskTest, TheGradientIsZeroWhereNothingIsKept) {
  NDArray data = Matrix();
  data.AttachGrad();
  NDArray rows;
  {
    const autograd::Record record;
    rows = BooleanMask(data, Vector({0, 1, 0})) * 3.0f;
  }
  rows.Backward();
  EXPECT_THAT(data.grad().ToVector(), ElementsAre(0, 0, 3, 3, 0, 0));
}

TEST(BooleanMaskTest, OtherShapesAreRefused) {
  const auto message = [](const NDArray& mask, int axis) -> std::string {
    try {
      BooleanMask(Matrix(), mask, axis);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message(Vector({1, 0}), 0), HasSubstr("the mask has shape (2,), expected (3,)"));
  EXPECT_THAT(message(Vector({1, 0, 1}), 1), HasSubstr("expected (2,)"));
  EXPECT_THAT(message(Vector({1, 0}), 2), HasSubstr("axis is 2"));
}

}  // namespace
}  // namespace tessera
