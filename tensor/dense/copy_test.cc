#include "tessera/tensor/dense/copy.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

template <typename T>
class CopyTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t, double, bfloat16_t, int32_t, uint8_t, int64_t>;
TYPED_TEST_SUITE(CopyTest, ElementTypes);

TYPED_TEST(CopyTest, CopiesBetweenAnyLayouts) {
  using T = TypeParam;
  for (const Shape<3>& shape :
       {Shape3(0, 2, 3), Shape3(2, 3, 0), Shape3(1, 1, 1), Shape3(2, 3, 17), Shape3(20, 30, 111)}) {
    const std::vector<T> values = RandomValues<T>(shape.Size(), 0, 100);
    for (const index_t from : {0, 3}) {
      for (const index_t to : {0, 5}) {
        GuardedTensor<3, T> source(shape, values, GuardedLayout{.row_padding = from});
        GuardedTensor<3, T> out(shape, GuardedLayout{.row_padding = to, .misalignment = to});
        Copy(*out, *source);
        ExpectSameValues(out.values(), values);
        EXPECT_TRUE(out.GuardsIntact() && source.GuardsIntact());
      }
    }
  }
}

TYPED_TEST(CopyTest, KeepsSpecialValues) {
  using T = TypeParam;
  const std::vector<T> values = SpecialValues<T>();
  const Shape<1> shape = Shape1(static_cast<index_t>(values.size()));
  GuardedTensor<1, T> source(shape, values), out(shape);
  Copy(*out, *source);
  ExpectSameValues(out.values(), values);
}

TEST(CopyTest, AStreamMayBeNamedAsOnAnyDevice) {
  GuardedTensor<2, float> a(Shape2(2, 3), {1, 2, 3, 4, 5, 6}), b(Shape2(2, 3)), c(Shape2(2, 3));
  Stream<cpu> stream;
  Copy(*b, *a, &stream);
  ExpectSameValues(b.values(), a.values());
  Copy(*c, *a, nullptr);
  ExpectSameValues(c.values(), a.values());
}

TEST(CopyErrorTest, ShapesThatDifferAreRefused) {
  GuardedTensor<2, float> a(Shape2(2, 3)), b(Shape2(3, 2));
  ExpectError([&] { Copy(*a, *b); }, Error::kInvalidArgument, {"Copy", "(2,3)", "(3,2)"});
}

}  // namespace
}  // namespace tessera
