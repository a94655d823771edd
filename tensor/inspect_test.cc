#include "tessera/tensor/inspect.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/reduce.h"
#include "tessera/tensor/test_values.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Cube {
  TESSERA_HD static float Map(float a) { return a * a * a; }
};

class InspectTest : public testing::Test {
 protected:
  GuardedTensor<2, float> a{Shape2(5, 9), RandomValues<float>(45, -1, 1)};
  GuardedTensor<2, float> b{Shape2(5, 9), RandomValues<float>(45, -1, 1)};
  GuardedTensor<2, float> r{Shape2(5, 9), std::vector<float>(45, 7.0f)};
};

TEST_F(InspectTest, ElementwiseExpressionsTakeOnePass) {
  const std::string text = Inspect(*r, *a * *b + *a);
  EXPECT_THAT(text, HasSubstr("pass 1: writes (5,9) float32 as one row; reads 3, writes 1"));
  EXPECT_THAT(text, HasSubstr("packets of " + std::to_string(PacketTraits<float>::kSize)));
  EXPECT_THAT(text, HasSubstr("1 thread"));
  EXPECT_THAT(text, HasSubstr("temporaries: none"));
  EXPECT_THAT(text, Not(HasSubstr("pass 2")));
  EXPECT_EQ(Inspect(*a * *b + *a), text);
  EXPECT_THAT(Inspect(*r, F<Cube>(*a)), HasSubstr("one element at a time"));
  EXPECT_THAT(Inspect(*r, 3), HasSubstr("writes 1"));
}

TEST_F(InspectTest, ReductionsInsideAreCountedAndNotRun) {
  const std::string text = Inspect(*r, (*a - sum(*a * *b)) / (maximum<1>(*b).spread() + 1));
  EXPECT_THAT(text, HasSubstr("pass 1: reduces (5,9) float32 to a number; reads 2 per element"));
  EXPECT_THAT(text, HasSubstr("pass 2: reduces (5,9) float32 to (5,) float32"));
  EXPECT_THAT(text, HasSubstr("pass 3: writes (5,9) float32 row by row; reads 2, writes 1"));
  EXPECT_THAT(text, HasSubstr("temporaries: (5,) float32"));
  EXPECT_EQ(r.values(), std::vector<float>(45, 7.0f));
  EXPECT_THAT(Inspect(sum(*a)), HasSubstr("pass 1: reduces (5,9) float32 to a number"));
  EXPECT_THAT(Inspect(1 + sum_rows(*a)), HasSubstr("pass 1: computes (9,) float32 as a whole"));
}

TEST_F(InspectTest, OverlapShowsAsATemporary) {
  GuardedTensor<2, float> square(Shape2(4, 4));
  const std::string text = Inspect(*square, square->T());
  EXPECT_THAT(text, HasSubstr("pass 2: copies"));
  EXPECT_THAT(text, HasSubstr("temporaries: (4,4) float32 because an operand shares memory"));
  EXPECT_THAT(Inspect(*square, *square * 2), HasSubstr("temporaries: none"));
}

TEST_F(InspectTest, ShapesThatDifferAreRefused) {
  GuardedTensor<2, float> other(Shape2(9, 5));
  ExpectError([&] { Inspect(*r, *other * 2); }, absl::StatusCode::kInvalidArgument,
              {"(9,5)", "(5,9)"});
}

}  // namespace
}  // namespace tessera
