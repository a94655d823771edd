// Reductions along rows whose elements go in no packets, or are fewer than a turn of these, against
// one element after another.
#include "tessera/tensor/reduce/reduce_row.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

// Every bit pattern, so that sums wrap.
template <typename T>
std::vector<T> AnyNumbers(index_t count) {
  std::mt19937_64 generator(TestSeed());
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(generator());
  return values;
}

template <typename T>
bool SameBits(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) && std::isnan(b)) return true;  // whose payload the order of operands decides
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Red of row y's elements in their order, as far as an order is promised of them.
template <typename Red, typename E>
auto OneByOne(const E& e, index_t y, index_t columns) {
  using Accumulator = expr::AccumulatorOf<Red, typename E::value_type>;
  Accumulator result = Red::template InitialValue<Accumulator>();
  for (index_t x = 0; x < columns; ++x) {
    result = Red::OPType::Map(result, static_cast<Accumulator>(e.Eval(y, x)));
  }
  return result;
}

// Each row by itself, several together, and as the vector of all.
template <typename Red, typename E>
void ExpectRows(const E& e, index_t rows, index_t columns) {
  using T = typename E::value_type;
  using Accumulator = expr::AccumulatorOf<Red, T>;
  GuardedTensor<1, Accumulator> together(Shape1(rows));
  GuardedTensor<1, T> vector(Shape1(rows));
  expr::ReduceEachRow<Red, expr::finish::None>(e, 0, rows, columns, together->dptr_);
  *vector = expr::reduce_except_dim<0, Red>(e);
  EXPECT_TRUE(together.GuardsIntact() && vector.GuardsIntact());
  for (index_t y = 0; y < rows; ++y) {
    const Accumulator expected = OneByOne<Red>(e, y, columns);
    ASSERT_TRUE(SameBits(expr::ReduceRow<Red>(e, y, 0, columns), expected))
        << "row " << y << " of " << rows << "x" << columns;
    ASSERT_TRUE(SameBits((*together)[y], expected))
        << "row " << y << " of " << rows << "x" << columns;
    // A sum begins with 0, to which -0 adds nothing.
    ASSERT_TRUE(SameBits((*vector)[y], static_cast<T>(Red::OPType::Map(
                                           Red::template InitialValue<Accumulator>(), expected))))
        << "row " << y << " of " << rows << "x" << columns;
  }
}
template <typename E>
void ExpectAllReducers(const E& e, index_t rows, index_t columns) {
  ExpectRows<red::sum>(e, rows, columns);
  ExpectRows<red::maximum>(e, rows, columns);
  ExpectRows<red::minimum>(e, rows, columns);
}

template <typename T>
class WholeNumberRowTest : public testing::Test {};
using WholeNumbers = TestedTypes<uint8_t, int32_t, int16_t, uint64_t>;
TYPED_TEST_SUITE(WholeNumberRowTest, WholeNumbers);

TYPED_TEST(WholeNumberRowTest, AnyOrderGivesWhatOneByOneGives) {
  using T = TypeParam;
  const index_t block = expr::kAnyOrderBlock, part = expr::kShortAnyOrderBlock;
  for (const index_t columns : {index_t{0}, index_t{1}, index_t{4}, part - 1, part, part + 1,
                                2 * part + 5, block - 1, block, block + 1, 2 * block + part + 3}) {
    const index_t rows = 11;
    GuardedTensor<2, T> a(Shape2(rows, columns), AnyNumbers<T>(rows * columns), {3, 1});
    ExpectAllReducers(expr::AsNode(*a), rows, columns);
    ExpectAllReducers(expr::AsNode(expr::F<op::minus>(*a, T(3))), rows, columns);
  }
}

// The largest sums of small numbers, which are added in fewer bits than others.
TYPED_TEST(WholeNumberRowTest, ExtremesAddUp) {
  using T = TypeParam;
  for (const T value : {std::numeric_limits<T>::max(), std::numeric_limits<T>::lowest()}) {
    const index_t columns = 2 * expr::kAnyOrderBlock;
    GuardedTensor<2, T> a(Shape2(1, columns), std::vector<T>(static_cast<size_t>(columns), value));
    ExpectAllReducers(expr::AsNode(*a), 1, columns);
  }
}

template <typename T>
class ShortRowTest : public testing::Test {};
using RealNumbers = TestedTypes<float, half_t, double>;
TYPED_TEST_SUITE(ShortRowTest, RealNumbers);

TYPED_TEST(ShortRowTest, GoesOneByOne) {
  using T = TypeParam;
  constexpr bool kPackets = expr::ReducesPackets<red::sum, Tensor<cpu, 2, T>>;
  const std::vector<T> special = SpecialValues<T>();
  for (const index_t columns : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 31, 33, 512}) {
    if (kPackets && columns >= expr::kReduceTurn<T>) continue;
    for (const index_t rows : {1, 4, 11, 33}) {
      std::vector<T> values = RandomValues<T>(rows * columns, -3, 3);
      GuardedTensor<2, T> a(Shape2(rows, columns), values, {3, 1});
      ExpectAllReducers(expr::AsNode(*a), rows, columns);
      ExpectAllReducers(expr::AsNode(*a * *a), rows, columns);
      for (size_t i = 0; i < values.size(); i += 3) values[i] = special[i / 3 % special.size()];
      a.Set(values);
      ExpectAllReducers(expr::AsNode(*a), rows, columns);
    }
  }
}

}  // namespace
}  // namespace tessera
