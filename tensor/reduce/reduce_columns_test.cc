// Reductions over rows whose elements go in no packets, against one row after another.
#include "tessera/tensor/reduce/reduce_columns.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

// As far as the order is promised: blocks of rows, of real numbers.
template <typename Red, typename E>
auto OneAfterAnother(const E& e, index_t row_step, index_t rows, index_t x) {
  using Accumulator = expr::AccumulatorOf<Red, typename E::value_type>;
  const Accumulator initial = Red::template InitialValue<Accumulator>();
  Accumulator result = initial;
  for (index_t begin = 0; begin < rows; begin += expr::kRowsPerBlock) {
    Accumulator block = initial;
    for (index_t y = begin; y < std::min(rows, begin + expr::kRowsPerBlock); ++y) {
      block = Red::OPType::Map(block, static_cast<Accumulator>(e.Eval(y * row_step, x)));
    }
    result = Red::OPType::Map(result, block);
  }
  return result;
}

template <typename Red, typename E>
void ExpectColumns(const E& e, index_t row_step, index_t rows, index_t columns) {
  using Accumulator = expr::AccumulatorOf<Red, typename E::value_type>;
  GuardedTensor<1, Accumulator> results(Shape1(columns));
  for (const index_t first : {0, 3}) {
    if (first > columns) continue;
    expr::ReduceColumns<Red>(results->dptr_, e, 0, row_step, 0, rows, first, columns - first);
    EXPECT_TRUE(results.GuardsIntact());
    for (index_t x = first; x < columns; ++x) {
      ASSERT_EQ((*results)[x - first], OneAfterAnother<Red>(e, row_step, rows, x))
          << "column " << x << " of " << rows << "x" << columns << " from " << first;
    }
  }
}

template <typename T>
class NoPacketColumnsTest : public testing::Test {};
using NoPacketTypes = TestedTypes<uint8_t, half_t, int32_t, int64_t>;
TYPED_TEST_SUITE(NoPacketColumnsTest, NoPacketTypes);

TYPED_TEST(NoPacketColumnsTest, BlocksOfColumnsGiveWhatOneRowAfterAnotherGives) {
  using T = TypeParam;
  for (const index_t columns : {1, 31, 32, 33, 70, 101}) {
    for (const index_t rows : {1, 3, 4, 7, 300}) {
      std::vector<T> values = RandomValues<T>(2 * rows * columns, std::is_unsigned_v<T> ? 0 : -100,
                                              std::is_unsigned_v<T> ? 255 : 100);
      GuardedTensor<2, T> a(Shape2(2 * rows, columns), values, {3, 1});
      for (const index_t row_step : {1, 2}) {
        ExpectColumns<red::sum>(*a, row_step, rows, columns);
        ExpectColumns<red::maximum>(*a, row_step, rows, columns);
        ExpectColumns<red::minimum>(*a, row_step, rows, columns);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
