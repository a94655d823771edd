#include "tessera/ops/order/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace tessera::ops_internal {
namespace {

/// Returns the positions of the first k elements as the standard library orders them.
template <typename T>
std::vector<int64_t> Expected(const std::vector<T>& row, size_t k, bool is_ascend) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int64_t i) { return row[static_cast<size_t>(i)]; };
  const auto is_number = [&](int64_t i) { return at(i) == at(i); };
  auto begin = order.begin(), end = order.end();
  if (is_ascend) {
    end = std::stable_partition(begin, end, is_number);
  } else {
    begin = std::stable_partition(begin, end, [&](int64_t i) { return !is_number(i); });
  }
  const auto before = [&](int64_t a, int64_t b) {
    return is_ascend ? at(a) < at(b) : at(b) < at(a);
  };
  const std::ptrdiff_t wanted =
      std::min(order.begin() + static_cast<std::ptrdiff_t>(k) - begin, end - begin);
  if (wanted > 0 && 8 * k > row.size()) {
    std::sort(begin, end, before);
  } else if (wanted > 0) {
    std::partial_sort(begin, begin + wanted, end, before);
  }
  order.resize(k);
  return order;
}

template <typename T>
void ExpectOrder(const std::vector<T>& row, size_t k, const std::string& what) {
  for (const bool is_ascend : {true, false}) {
    SCOPED_TRACE(what + ", " + std::to_string(k) + " of " + std::to_string(row.size()) +
                 (is_ascend ? " ascending" : " descending"));
    std::vector<int64_t> positions(k);
    RowOrder<T> order(static_cast<index_t>(row.size()), static_cast<index_t>(k), is_ascend);
    // The second call finds the memory of the first.
    for (int call = 0; call < 2; ++call) {
      std::fill(positions.begin(), positions.end(), -1);
      order.Find(row.data(), positions.data());
      ASSERT_EQ(positions, Expected(row, k, is_ascend));
    }
  }
}

/// Returns a permutation for which the median of three elements is a bad pivot again and again (M.
/// D. McIlroy, A killer adversary for quicksort, 1999): values are given away as comparisons ask.
std::vector<int> Adversary(int n) {
  const int unknown = n;
  std::vector<int> value(static_cast<size_t>(n), unknown), order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  int next = 0, candidate = 0;
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const auto of = [&](int i) -> int& { return value[static_cast<size_t>(i)]; };
    if (of(a) == unknown && of(b) == unknown) of(a == candidate ? a : b) = next++;
    if (of(a) == unknown) {
      candidate = a;
    } else if (of(b) == unknown) {
      candidate = b;
    }
    return of(a) < of(b);
  });
  return value;
}

template <typename T>
class RowOrderTest : public testing::Test {
 protected:
  /// Returns n elements: integers in [0, values), or numbers of every size if `values` is 0.
  static std::vector<T> Random(size_t n, int values) {
    std::mt19937_64 generator(7 * n + static_cast<size_t>(values));
    std::vector<T> row(n);
    for (T& element : row) {
      if (values > 0) {
        element = static_cast<T>(generator() % static_cast<uint64_t>(values));
      } else if constexpr (std::is_integral_v<T>) {
        element = static_cast<T>(generator());
      } else {
        element = std::ldexp(static_cast<T>(static_cast<int64_t>(generator())),
                             static_cast<int>(generator() % 100) - 100);
      }
    }
    return row;
  }
};
using Types = testing::Types<float, double, int64_t>;
TYPED_TEST_SUITE(RowOrderTest, Types);

TYPED_TEST(RowOrderTest, IsThatOfTheStandardLibrary) {
  // Lengths around the short ranges, the chunks and the blocks of partitions.
  for (const size_t n : {0,  1,  2,  15, 16,  17,  18,  31,  32,  33,   40,  63,
                         64, 65, 66, 97, 128, 129, 130, 200, 257, 1000, 5000}) {
    for (const int values : {0, 1, 2, 5, 1000}) {
      const auto row = this->Random(n, values);
      for (const size_t k : {size_t{1}, size_t{3}, n / 8, n / 8 + 1, n}) {
        if (k <= n) ExpectOrder(row, k, std::to_string(values) + " values");
      }
    }
  }
}

TYPED_TEST(RowOrderTest, IsThatOfTheStandardLibraryForRowsWithARule) {
  using T = TypeParam;
  for (const size_t n : {64, 300, 3000}) {
    std::vector<T> rising, pipe, saw;
    for (size_t i = 0; i < n; ++i) {
      rising.push_back(static_cast<T>(i));
      pipe.push_back(static_cast<T>(std::min(i, n - i)));
      saw.push_back(static_cast<T>(i % 37));
    }
    const std::vector<T> falling(rising.rbegin(), rising.rend());
    const std::vector<int> values = Adversary(static_cast<int>(n));
    const std::vector<T> adversary(values.begin(), values.end());
    for (const size_t k : {size_t{4}, n}) {
      ExpectOrder(rising, k, "rising");
      ExpectOrder(falling, k, "falling");
      ExpectOrder(pipe, k, "organ pipe");
      ExpectOrder(saw, k, "saw");
      ExpectOrder(adversary, k, "adversary");
    }
  }
}

TYPED_TEST(RowOrderTest, IsThatOfTheStandardLibraryInParallel) {
  for (const int values : {0, 3, 100000}) {
    const auto row = this->Random(70000, values);
    ExpectOrder(row, row.size(), std::to_string(values) + " values");
  }
}

TYPED_TEST(RowOrderTest, HasTheEndsOfTheRange) {
  using T = TypeParam;
  using Limits = std::numeric_limits<T>;
  std::vector<T> row = this->Random(100, 50);
  row[3] = row[40] = Limits::max();
  row[70] = row[5] = Limits::lowest();
  if constexpr (!std::is_integral_v<T>) {
    row[12] = -Limits::infinity();
    row[13] = Limits::infinity();
    row[14] = Limits::denorm_min();
    row[15] = -Limits::denorm_min();
    row[16] = T(-0.0);
    row[17] = T(0);
    row[18] = T(-0.0);
  }
  for (const size_t k : {1, 2, 5, 12, 13, 100}) ExpectOrder(row, k, "ends of the range");
}

TYPED_TEST(RowOrderTest, TakesNaNForTheGreatest) {
  using T = TypeParam;
  if constexpr (!std::is_integral_v<T>) {
    const T nan = std::numeric_limits<T>::quiet_NaN();
    for (const size_t n : {20, 100, 1000}) {
      std::vector<T> row = this->Random(n, 0);
      for (const size_t place : {size_t{0}, size_t{7}, n - 1}) {
        row[place] = place == 7 ? -nan : nan;
        for (const size_t k : {size_t{1}, size_t{2}, n / 8, n}) ExpectOrder(row, k, "with NaN");
      }
      ExpectOrder(std::vector<T>(n, nan), n, "NaN");
      ExpectOrder(std::vector<T>(n, nan), 1, "NaN");
    }
  }
}

}  // namespace
}  // namespace tessera::ops_internal
