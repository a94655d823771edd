#include "tessera/tensor/reduce/reduce_axis.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/testing/node_test_util.h"
#include "tessera/tensor/testing/thread_meeting.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

static_assert(
    std::is_trivially_copyable_v<decltype(reduce_keepdim<red::sum, false>(Tensor<cpu, 2>(), 0))>);

template <typename T>
class ReduceAxisTest : public testing::Test {};
TYPED_TEST_SUITE(ReduceAxisTest, NodeElementTypes);

// What a reduction over `axis` gives at `index`, whose coordinate of that axis does not matter.
template <typename Red, bool kIndex, int N, typename T>
double Reduced(const Sample<N, T>& a, Shape<N> index, int axis) {
  double result = std::is_same_v<Red, red::sum> ? 0
                  : std::is_same_v<Red, red::maximum>
                      ? static_cast<double>(red::maximum::InitialValue<T>())
                      : static_cast<double>(red::minimum::InitialValue<T>());
  double at = 0;
  for (index_t k = 0; k < a.shape()[axis]; ++k) {
    index[axis] = k;
    const double element = a.at(index);
    if (std::is_same_v<Red, red::sum>) {
      result += element;
    } else if (std::is_same_v<Red, red::maximum> ? element > result : element < result) {
      result = element;
      at = static_cast<double>(k);
    }
  }
  return kIndex ? at : result;
}

template <typename Red, bool kIndex, typename T, int N>
void ExpectReduced(const Shape<N>& shape) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    for (int axis = 0; axis < N; ++axis) {
      const std::string what = "axis " + std::to_string(axis);
      Shape<N> kept = shape;
      kept[axis] = 1;
      ExpectElements<N>(
          reduce_keepdim<Red, kIndex>(*a, axis), kept,
          [&](const Shape<N>& index) { return Reduced<Red, kIndex>(a, index, axis); }, what);
      if constexpr (N > 1) {
        Shape<N - 1> target;
        for (int i = 0; i < N - 1; ++i) target[i] = shape[i < axis ? i : i + 1];
        ExpectElements<N - 1>(
            reduce_with_axis<Red, kIndex>(*a, axis), target,
            [&](const Shape<N - 1>& index) {
              Shape<N> at{};
              for (int i = 0; i < N - 1; ++i) at[i < axis ? i : i + 1] = index[i];
              return Reduced<Red, kIndex>(a, at, axis);
            },
            what);
      }
    }
  }
}

TYPED_TEST(ReduceAxisTest, EachReducerOverEachAxis) {
  using T = TypeParam;
  // Sums stay below 128, so that every type holds them.
  ExpectReduced<red::sum, false, T>(Shape3(3, 4, 9));
  ExpectReduced<red::minimum, true, T>(Shape3(3, 4, 9));
  if constexpr (std::is_same_v<T, float>) {
    ExpectReduced<red::maximum, false, T>(Shape3(3, 4, 9));
  }
}

TEST(ReduceAxisShapesTest, ManyShapes) {
  ExpectReduced<red::sum, false, float>(Shape1(17));
  ExpectReduced<red::sum, false, float>(Shape2(5, 17));
  ExpectReduced<red::sum, false, float>(Shape2(3, 600));
  ExpectReduced<red::maximum, true, float>(Shape2(1, 1));
  ExpectReduced<red::maximum, true, float>(Shape2(70, 9));
  ExpectReduced<red::maximum, false, float>(Shape3(0, 4, 9));
  ExpectReduced<red::sum, false, float>(Shape3(2, 0, 9));
  ExpectReduced<red::sum, false, float>(Shape3(2, 9, 0));
  ExpectReduced<red::minimum, true, int32_t>(Shape4(2, 1, 3, 9));
}

TEST(ReduceAxisSpecialTest, NanWinsAndKeepsItsIndex) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  GuardedTensor<2, float> a(Shape2(3, 4), {1, nan, 5, nan, 2, 2, 2, 2, -1, 0, 7, 7});
  GuardedTensor<1, float> out(Shape1(3));
  *out = reduce_with_axis<red::maximum, true>(*a, 1);
  ExpectSameValues(out.values(), {1, 0, 2});
  *out = reduce_with_axis<red::maximum, false>(*a, 1);
  ExpectSameValues(out.values(), {nan, 2, 7});
}

// Which of the elements first, first + step, … is the extreme: the first NaN, if there is one.
template <bool kMaximum, typename T>
index_t IndexByHand(const std::vector<T>& values, size_t first, size_t step, index_t extent) {
  const auto at = [&](index_t k) {
    return static_cast<double>(values[first + static_cast<size_t>(k) * step]);
  };
  index_t index = 0;
  for (index_t k = 0; k < extent; ++k) {
    if (std::isnan(at(k))) return k;
    if (kMaximum ? at(k) > at(index) : at(k) < at(index)) index = k;
  }
  return index;
}

template <typename T>
class ReduceAxisIndexTest : public testing::Test {};
TYPED_TEST_SUITE(ReduceAxisIndexTest, SizedElementTypes);

// Columns in packets and blocks, with what they leave, down rows that lie apart.
TYPED_TEST(ReduceAxisIndexTest, IndicesOfManyColumns) {
  using T = TypeParam;
  constexpr index_t kOuter = 2, kInner = 3;
  for (const index_t columns : {index_t{1}, index_t{7}, index_t{31}, index_t{32}, index_t{45},
                                expr::kIndexedColumns, expr::kIndexedColumns + 39}) {
    for (const index_t extent : {1, 2, 40}) {
      const Shape<4> shape = Shape4(kOuter, extent, kInner, columns);
      std::vector<T> values = RandomValues<T>(shape.Size(), 0, 9);
      if constexpr (kIsReal<T>) {
        const std::vector<T> special = SpecialValues<T>();
        for (size_t i = 0; i < values.size(); i += 17) values[i] = special[i / 17 % special.size()];
      }
      GuardedTensor<4, T> a(shape, values, {3, 1});
      GuardedTensor<3, T> largest(Shape3(kOuter, kInner, columns), GuardedLayout{1, 0});
      GuardedTensor<3, T> smallest(Shape3(kOuter, kInner, columns));
      *largest = reduce_with_axis<red::maximum, true>(*a, 1);
      *smallest = reduce_with_axis<red::minimum, true>(*a, 1);
      EXPECT_TRUE(largest.GuardsIntact() && smallest.GuardsIntact());
      const size_t step = static_cast<size_t>(kInner * columns);
      const std::vector<T> of_largest = largest.values(), of_smallest = smallest.values();
      for (size_t i = 0; i < kOuter * step; ++i) {
        const size_t first = i / step * step * static_cast<size_t>(extent) + i % step;
        ASSERT_EQ(static_cast<double>(of_largest[i]),
                  static_cast<double>(IndexByHand<true>(values, first, step, extent)))
            << "result " << i << " of " << shape;
        ASSERT_EQ(static_cast<double>(of_smallest[i]),
                  static_cast<double>(IndexByHand<false>(values, first, step, extent)))
            << "result " << i << " of " << shape;
      }
    }
  }
}

// A reducer in the form of programs that were written for mshadow.
struct AbsoluteSum {
  template <typename T>
  TESSERA_HD static void Reduce(T& dst, T src) {  // NOLINT: mshadow's form
    dst = dst + (src < 0 ? -src : src);
  }
  template <typename T>
  TESSERA_HD static void SetInitValue(T& value) {  // NOLINT
    value = 0;
  }
};

TEST(ReduceAxisSpecialTest, ReducersMayCombineInPlace) {
  Sample<2, float> a(Shape2(5, 9));
  for (const int axis : {0, 1}) {
    ExpectElements<1>(
        reduce_with_axis<AbsoluteSum, false>(*a * 2.0f, axis), Shape1(axis == 0 ? 9 : 5),
        [&](const Shape<1>& i) {
          double sum = 0;
          for (index_t k = 0; k < (axis == 0 ? 5 : 9); ++k) {
            sum += std::abs(2 * a.at(axis == 0 ? Shape2(k, i[0]) : Shape2(i[0], k)));
          }
          return sum;
        },
        "sum of magnitudes");
  }
}

TEST(ReducerFormsTest, CombineInPlace) {
  float value;
  red::maximum::SetInitValue(value);
  EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
  red::maximum::Reduce(value, 3.0f);
  red::maximum::Reduce(value, 2.0f);
  EXPECT_EQ(value, 3.0f);
  volatile double sum;
  red::sum::SetInitValue(sum);
  red::sum::Reduce(sum, 3.0);
  red::sum::Reduce(sum, 2.0);
  const double result = sum;
  EXPECT_EQ(result, 5.0);
  EXPECT_EQ(red::sum::PartialGrad(5.0f, 2.0f), 1.0f);
  EXPECT_EQ(red::minimum::PartialGrad(5.0f, 2.0f), 0.0f);
  EXPECT_EQ(red::minimum::PartialGrad(2, 2), 1);
}

TEST(ReduceAxisErrorTest, TheAxisMustExist) {
  GuardedTensor<2, float> a(Shape2(3, 4));
  ExpectError([&] { reduce_with_axis<red::sum, false>(*a, 2); }, Error::kInvalidArgument,
              {"reduce_with_axis", "(3,4)", "2"});
  ExpectError([&] { reduce_keepdim<red::sum, false>(*a, -1); }, Error::kInvalidArgument,
              {"reduce_keepdim", "(3,4)", "-1"});
}

// Many small numbers are added up in blocks, below each other as along a row.
TEST(ReduceAxisSumTest, LongSumsStayAccurate) {
  constexpr index_t kCount = index_t{1} << 20;
  GuardedTensor<2, float> tall(Shape2(kCount, 3),
                               std::vector<float>(static_cast<size_t>(3 * kCount), 0.1f));
  GuardedTensor<1, float> sums(Shape1(3));
  *sums = reduce_with_axis<red::sum, false>(*tall, 0);
  constexpr double kBlock = expr::kRowsPerBlock;
  const double bound = (kBlock + kCount / kBlock) * UnitRoundoff<float>();
  for (const float value : sums.values()) {
    EXPECT_NEAR(value / (static_cast<double>(0.1f) * kCount), 1, bound);
  }
}

// What takes single elements of a sum gets those that an assignment gets.
TEST(ReduceAxisSumTest, IsTheSameAloneAndInsideAnExpression) {
  for (const int axis : {0, 1}) {
    GuardedTensor<2, float> a(Shape2(1000, 1000), RandomValues<float>(1000000, 0, 1));
    GuardedTensor<1, float> alone(Shape1(1000)), inside(Shape1(1000));
    *alone = reduce_with_axis<red::sum, false>(*a, axis);
    *inside = reduce_with_axis<red::sum, false>(*a, axis) + 0.0f;
    EXPECT_EQ(alone.values(), inside.values()) << axis;
  }
}

// Counts the elements that it is asked for one by one.
struct CountsSingles {
  static inline int singles = 0;
  static float Map(float a) {
    ++singles;
    return a;
  }
  template <typename P>
  static P PacketMap(const P& a) {
    return a;
  }
};

TEST(ReduceAxisSumTest, TakesPacketsInsideAnExpressionToo) {
  for (const int axis : {0, 1}) {
    GuardedTensor<2, float> a(Shape2(64, 64), RandomValues<float>(64 * 64, 0, 1));
    GuardedTensor<1, float> alone(Shape1(64)), inside(Shape1(64));
    *alone = reduce_with_axis<red::sum, false>(*a, axis);
    *alone = 2.0f * *alone + 1.0f;
    CountsSingles::singles = 0;
    *inside = 2.0f * reduce_with_axis<red::sum, false>(F<CountsSingles>(*a), axis) + 1.0f;
    EXPECT_EQ(CountsSingles::singles, 0) << axis;
    EXPECT_EQ(alone.values(), inside.values()) << axis;
  }
}

// Each has as much to read as is several threads' work, in few long rows, one or several, in many
// short ones, or in the rows of a cube.
template <typename Expect>
void WithFewResults(const Expect& expect) {
  constexpr index_t kLong = 4 * expr::kReduceChunk;
  GuardedTensor<1, float> vector(Shape1(kLong), RandomValues<float>(kLong, 0, 1));
  GuardedTensor<2, float> wide(Shape2(3, kLong), RandomValues<float>(3 * kLong, 0, 1));
  GuardedTensor<2, float> tall(Shape2(kLong, 3), RandomValues<float>(3 * kLong, 0, 1));
  GuardedTensor<3, float> cube(Shape3(2, kLong / 4, 4), RandomValues<float>(2 * kLong, 0, 1));
  GuardedTensor<1, float> one(Shape1(1)), three(Shape1(3));
  GuardedTensor<2, float> eight(Shape2(2, 4));
  using Meeting = ThreadMeeting<0>;
  const auto sum_of = [](const auto& e, int axis) {
    return reduce_with_axis<red::sum, false>(F<Meeting>(e), axis);
  };
  const auto place_in = [](const auto& e, int axis) {
    return reduce_with_axis<red::maximum, true>(F<Meeting>(e), axis);
  };
  expect(&one, [&] { *one = reduce_keepdim<red::sum, false>(F<Meeting>(*vector), 0); });
  expect(&three, [&] { *three = sum_of(*wide, 1); });
  expect(&three, [&] { *three = sum_of(*wide, 1) * 2.0f; });
  expect(&three, [&] { *three = place_in(*wide, 1); });
  expect(&three, [&] { *three = sum_of(*tall, 0); });
  expect(&three, [&] { *three = place_in(*tall, 0); });
  expect(&eight, [&] { *eight = sum_of(*cube, 1); });
}

TEST(FewResultsTest, TwoThreadsShareThem) {
  int number = 0;
  WithFewResults([&](auto* /*out*/, const auto& evaluate) {
    EXPECT_TRUE(ThreadMeeting<0>::In(evaluate)) << number;
    ++number;
  });
}

TEST(FewResultsTest, AreTheSameByAnyNumberOfThreads) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 8);
  WithFewResults([](auto* out, const auto& evaluate) {
    std::vector<float> first;
    for (const int width : {1, 2, 8, 3}) {
      tbb::task_arena arena(width);
      arena.execute(evaluate);
      if (first.empty()) first = out->values();
      EXPECT_EQ(out->values(), first) << width;
    }
  });
}

TEST(FewResultsTest, AllocateNothing) {
  tbb::task_arena arena(1);  // waking TBB's workers is not the evaluation's own doing
  arena.execute([] {
    WithFewResults([](auto* /*out*/, const auto& evaluate) {
      for (int i = 0; i < 2; ++i) evaluate();
      const int64_t before = NewCallsOfThisThread();
      evaluate();
      EXPECT_EQ(NewCallsOfThisThread(), before);
    });
  });
}

// One row of results is cut between columns that are next to each other in memory.
TEST(FewResultsTest, ALongRowOfResultsIsCut) {
  constexpr index_t kColumns = 20 * expr::kColumnBlock;
  GuardedTensor<2, float> a(Shape2(100, kColumns), RandomValues<float>(100 * kColumns, 0, 1));
  GuardedTensor<1, float> sums{Shape1(kColumns)};
  using Meeting = ThreadMeeting<0>;
  EXPECT_TRUE(Meeting::In([&] { *sums = reduce_with_axis<red::sum, false>(F<Meeting>(*a), 0); }));
}

}  // namespace
}  // namespace tessera
