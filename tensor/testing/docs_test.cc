// The samples of docs/tensor.md and of docs/performance-guide.md's tensors, and that they do what
// the pages say.
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <type_traits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tensor/testing/node_example.h"
#include "tessera/tensor/testing/node_test_util.h"

// Names that a program may have of its own beside `using namespace tessera`: Tessera has helpers of
// these names, which its namespace does not show.
// clang-format off
#define OWN_NAMES(define) \
  define(AddRuns) define(AssignLabelGrad) define(Avx2Packet) define(BesideFloat16) \
  define(ConvertInLoop) define(ConvertPacket) define(DecodeHalves) define(DecodedHalves) \
  define(Digamma) define(ElementGroup) define(EncodeHalves) define(FenceStreamed) \
  define(ForColumnRanges) define(Gamma) define(Gelu) define(GeluSlope) define(HalfFrom) \
  define(HalvesFrom) \
  define(HasBinaryPacket) define(HasTernaryPacket) define(HasUnaryPacket) define(HighHalf) \
  define(HighHalves) define(InstructionSet) define(IsElementGroup) define(KeyOrder) \
  define(LoadPacket) define(LogGamma) define(LowHalf) define(LowHalves) define(MapPackets) \
  define(Name) define(PacketInSteps) define(PacketTraits) define(ParallelForLines) \
  define(ParallelForRange) define(RangeFunction) define(RangeUnits) define(RowsAreAligned) \
  define(RunsAvx2) define(Scratch) define(SetPacket) define(ShareOfOthers) define(SoftmaxLine) \
  define(SoftmaxLines) define(SoftmaxLinesOf) define(SoftmaxOfLine) define(SoftmaxOfRow) \
  define(SortOrder) define(StableSortByKey) define(StorePacket) define(StreamAvx2) \
  define(TaskPlan) define(UnitsOfLines) define(UsedInstructionSet) \
  define(kDefaultElementsPerTask) define(kHasAvx2PacketsOf) define(kHasPacketsInSteps) \
  define(kInstructionSet) define(kIsHalfPacket) define(kUsesArrayKernels) define(packet_math)
// clang-format on
#define DEFINE_OWN(name) \
  struct name {};
OWN_NAMES(DEFINE_OWN)

// Where programs have their functors: beside Tessera's names and not among them.
namespace user {

#define EXPECT_OWN(name) static_assert(std::is_empty_v<name>);
OWN_NAMES(EXPECT_OWN)

struct Squared : WideFunctor {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return static_cast<T>(a * a);
  }
  template <typename P>
  TESSERA_HD static P MapPacket(const P& a) {
    return pk::pmul(a, a);
  }
};

TEST(DocsTest, FunctorsOfOnesOwnHavePackets) {
  TensorContainer<cpu, 1> a(Shape1(1000), 3.0f), b(a.shape_, 1.0f), r(a.shape_);

  r = F<Squared>(a) + b;

  for (index_t i = 0; i < 1000; ++i) ASSERT_EQ(r[i], 10.0f);
  EXPECT_THAT(Inspect(r, F<Squared>(a) + b), testing::HasSubstr("packets"));
}

TEST(DocsTest, NodesOfOnesOwnStandWhereOthersDo) {
  TensorContainer<cpu, 2> x(Shape2(2, 3)), r(x.shape_), w(Shape2(3, 2), 1.0f), s;
  TensorContainer<cpu, 1> rows;
  x = reshape(range<float>(0, 6), x.shape_);

  r = 0.5f * (roll(x, 1) + roll(x, -1));  // of each element's two neighbours the mean
  x = roll(x, 1);                         // through a temporary

  EXPECT_EQ(r[0][0], 1.5f);
  EXPECT_EQ(r[1][1], 4.0f);
  EXPECT_EQ(x[0][0], 2.0f);
  EXPECT_EQ(x[0][1], 0.0f);
  EXPECT_EQ(x[1][2], 4.0f);
  EXPECT_THAT(Inspect(x, roll(x, 1)), testing::HasSubstr("an operand shares memory"));
  rows = sum<1>(roll(x - mean(x), 1));  // over what is computed first
  EXPECT_EQ(rows[1], 4.5f);
  s = roll(dot(x, w), 1);
  EXPECT_EQ(s[0][1], 3.0f);
}

TEST(DocsTest, NodesOfOnesOwnHaveTheirElementsInEveryLoop) {
  for (const index_t columns : {0, 1, 2, 7, 33, 1500}) {
    const Shape<3> shape = Shape3(2, 2, columns);
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<3, float> x(shape, layout);
      for (const index_t n : {index_t{0}, index_t{1}, index_t{-1}, columns, 3 * columns + 2}) {
        const auto expected = [&](Shape<3> index) {
          index[2] = ((index[2] - n) % columns + columns) % columns;
          return x.at(index);
        };
        ExpectElements<3>(roll(*x, n), shape, expected, "roll");
        ExpectElements<3>(roll(2.0f * *x, n) - roll(*x, n), shape, expected, "twice less once");
      }
    }
  }
}

}  // namespace user

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(DocsTest, TreesOfExpressions) {
  const TensorContainer<cpu, 2> a(Shape2(5, 9), 1.0f);
  const std::string tree = InspectTree((a - sum(a)) * 2);
  EXPECT_THAT(tree, HasSubstr("BinaryMapExp<mul> (5,9) float32"));
  EXPECT_THAT(tree, HasSubstr("BinaryMapExp<minus> (5,9) float32"));
  EXPECT_THAT(tree, HasSubstr("Tensor<cpu, 2, float> (5,9) float32"));
  EXPECT_THAT(tree, HasSubstr("ReduceAllExp<sum, None, float> number float32"));
  EXPECT_THAT(tree, HasSubstr("ScalarExp<float> number float32: 2"));
}

TEST(DocsTest, ReductionsStandInsideExpressions) {
  TensorContainer<cpu, 2> x(Shape2(2, 3)), y, a(Shape2(2, 3), 2.0f), b(Shape2(2, 3), 4.0f), r;
  TensorContainer<cpu, 1> rows;
  TensorContainer<cpu, 1, uint8_t> bytes(Shape1(1000), 200);
  x = reshape(range<float>(0, 6), x.shape_);
  a[0][0] = 8.0f;

  const float total = sum(x * x);                    // of all elements, a number
  r = (a - mean(a)) * b;                             // numbers fit every shape
  rows = sum<1>(x);                                  // along axis 1: a vector, one number a row
  y = exp(x - maximum<1>(x).spread());               // spread() puts the axis back:
  y = y / sum<1>(y).spread();                        // with this, the softmax of each row
  const int64_t count = sum(tcast<int64_t>(bytes));  // more than a byte holds

  EXPECT_EQ(total, 55.0f);
  EXPECT_EQ(r[0][0], 20.0f);
  EXPECT_EQ(r[1][2], -4.0f);
  EXPECT_EQ(rows[0], 3.0f);
  EXPECT_EQ(rows[1], 12.0f);
  EXPECT_NEAR(y[1][1], 1.0 / (std::exp(-1.0) + 1.0 + std::exp(1.0)), 1e-6);
  EXPECT_EQ(count, 200000);
}

TEST(DocsTest, TypesThatGoTogether) {
  TensorContainer<cpu, 1, int> counts(Shape1(2), 5);
  TensorContainer<cpu, 1> r(Shape1(2)), inside, v(Shape1(3), 2.0f);
  TensorContainer<cpu, 2> m(Shape2(2, 3), 1.0f);

  r = tcast<float>(counts) * 0.5f;     // counts * 0.5f does not compile
  counts = counts * scalar<int>(2.9);  // by 2
  inside = (r >= 2) & (r < 3);         // 1 or 0, of r's type
  m[1] = +v;                           // copies v into row 1; m[1] = v does not compile
  r = dot(m, v);                       // matrix times vector
  m += dot(r.T(), v);                  // the outer product of two vectors

  EXPECT_EQ(counts[1], 10);
  EXPECT_EQ(inside[0], 1.0f);
  EXPECT_EQ(r[0], 6.0f);
  EXPECT_EQ(r[1], 12.0f);
  EXPECT_EQ(m[0][2], 1.0f + 12.0f);
  EXPECT_EQ(m[1][2], 2.0f + 24.0f);
}

TEST(DocsTest, ViewsStandOnEitherSide) {
  const index_t n = 9;
  TensorContainer<cpu, 2> m(Shape2(5, n), 1.0f);
  TensorContainer<cpu, 1> v(Shape1(n));
  v = range<float>(0, 9);

  View(m, 2, kAll) = v;                      // row 2
  View(m, kAll, 0) += View(m, kAll, 3);      // column 0, by column 3
  View(m, Range(0, 2), Range(1, n, 2)) = 0;  // every other column of a block
  View(v, Range(n - 1, -1, -1)) = v;         // backwards

  EXPECT_EQ(m[2][0], 3.0f);
  EXPECT_EQ(m[2][8], 8.0f);
  EXPECT_EQ(m[4][0], 2.0f);
  EXPECT_EQ(m[1][3], 0.0f);
  EXPECT_EQ(m[1][4], 1.0f);
  EXPECT_EQ(v[0], 8.0f);
  EXPECT_EQ(v[8], 0.0f);
}

TEST(DocsTest, OverlapsGoThroughATemporary) {
  TensorContainer<cpu, 2> s(Shape2(2, 2), 0.0f), a(Shape2(2, 2), 2.0f), r(Shape2(2, 2));
  s[0][1] = 1.0f;

  s = s.T();               // through a temporary
  NoAlias(r) = a * s + a;  // without a look whether one is needed

  EXPECT_EQ(s[1][0], 1.0f);
  EXPECT_EQ(s[0][1], 0.0f);
  EXPECT_EQ(r[1][0], 4.0f);
}

TEST(DocsTest, InspectTellsThePasses) {
  TensorContainer<cpu, 2> a(Shape2(1000, 1000)), b(a.shape_), r(a.shape_);

  std::cout << Inspect(r, (a - sum(a)) * b);

  const std::string text = Inspect(r, (a - sum(a)) * b);
  EXPECT_THAT(text, HasSubstr("pass 1: reduces (1000,1000) float32 to a number; reads 1 per"));
  EXPECT_THAT(text, HasSubstr("pass 2: writes (1000,1000) float32 as one row; reads 2, writes 1"));
  EXPECT_THAT(text, HasSubstr("temporaries: none"));
}

}  // namespace
}  // namespace tessera
