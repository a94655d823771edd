// The GEMM against sums in double, over shapes around its tiles and blocks. BUILD runs it for each
// instruction set.
#include "tessera/tensor/linalg/gemm.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"

namespace tessera {
namespace {

using tensor_internal::Gemm;
using tensor_internal::GemmArguments;
using tensor_internal::GemmPackedLeft;
using tensor_internal::GemmPackedRight;
using tensor_internal::LeftPacking;
using tensor_internal::PackedOperand;
using tensor_internal::PackedRightSize;
using tensor_internal::PackLeft;
using tensor_internal::PackRight;
using tensor_internal::ProductEnd;
using tensor_internal::RightPacking;
using tensor_internal::StreamPackedRight;
using tensor_internal::StreamPacking;
using tensor_internal::WrittenOperand;

// Entries are multiples of 1/8 up to 1, so that sums of up to 2^17 products are exact in float and
// every order of adding gives the same value.
template <typename T>
std::vector<T> Entries(index_t count, std::mt19937& random) {
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 17) - 8) / 8;
  return values;
}

template <typename T>
struct Case {
  GemmArguments<T> g;
  std::vector<T> a, b, c;

  Case(bool ta, bool tb, index_t m, index_t n, index_t k, index_t pad, T alpha, T beta,
       std::mt19937& random) {
    const index_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + 2 * pad, ldc = n + pad;
    a = Entries<T>((ta ? k : m) * lda, random);
    b = Entries<T>((tb ? n : k) * ldb, random);
    c = Entries<T>(m * ldc, random);
    g = {.transpose_a = ta,
         .transpose_b = tb,
         .m = m,
         .n = n,
         .k = k,
         .alpha = alpha,
         .a = a.data(),
         .lda = lda,
         .b = b.data(),
         .ldb = ldb,
         .beta = beta,
         .c = c.data(),
         .ldc = ldc};
  }

  double Expected(const std::vector<T>& old, index_t y, index_t x) const {
    double sum = 0;
    for (index_t p = 0; p < g.k; ++p) {
      const T left = g.transpose_a ? a[p * g.lda + y] : a[y * g.lda + p];
      const T right = g.transpose_b ? b[x * g.ldb + p] : b[p * g.ldb + x];
      sum += static_cast<double>(left) * static_cast<double>(right);
    }
    const double kept = g.beta == T(0) ? 0 : static_cast<double>(g.beta) * old[y * g.ldc + x];
    return static_cast<double>(g.alpha) * sum + kept;
  }

  // Runs the product and compares every element, and what lies behind the rows, for equality.
  void Check() {
    const std::vector<T> old = c;
    if (g.beta == T(0)) {
      for (index_t y = 0; y < g.m; ++y) {
        for (index_t x = 0; x < g.n; ++x) c[y * g.ldc + x] = std::numeric_limits<T>::quiet_NaN();
      }
    }
    Gemm(g);
    for (index_t y = 0; y < g.m; ++y) {
      for (index_t x = 0; x < g.ldc; ++x) {
        const double expected = x < g.n ? Expected(old, y, x) : old[y * g.ldc + x];
        ASSERT_EQ(c[y * g.ldc + x], expected)
            << "m=" << g.m << " n=" << g.n << " k=" << g.k << " transposed " << g.transpose_a
            << g.transpose_b << " at " << y << ", " << x;
      }
    }
  }
};

template <typename T>
class GemmTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, EveryShapeUpToAFewTiles) {
  using T = TypeParam;
  std::mt19937 random(1);
  constexpr index_t kExtents[] = {1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 17, 31, 33, 50, 97};
  for (const index_t m : kExtents) {
    for (const index_t n : kExtents) {
      for (const index_t k : {1, 2, 7, 16, 33}) {
        const bool ta = random() % 2 != 0, tb = random() % 2 != 0;
        const T beta = static_cast<T>(static_cast<int>(random() % 3)) / 2;
        Case<T>(ta, tb, m, n, k, random() % 3, random() % 2 == 0 ? T(1) : T(-0.5), beta, random)
            .Check();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(GemmTest, ShapesBeyondOneBlock) {
  using T = TypeParam;
  std::mt19937 random(2);
  struct Shape {
    index_t m, n, k;
  };
  // Past the depth of a pass, the columns and the rows of a block; far rows of either operand; many
  // near rows of whole packets; few rows or columns of great depth.
  for (const Shape s :
       {Shape{30, 40, 600}, Shape{20, 1700, 30}, Shape{1400, 20, 40}, Shape{300, 300, 300},
        Shape{1, 900, 700}, Shape{900, 1, 700}, Shape{3, 700, 600}, Shape{700, 3, 600},
        Shape{130, 1100, 260}, Shape{20, 300, 600}, Shape{200, 208, 300}, Shape{12, 50, 800},
        Shape{50, 12, 5000}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        Case<T>(ta, tb, s.m, s.n, s.k, ta ? 600 : 0, T(1), tb ? T(1) : T(0), random).Check();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TYPED_TEST(GemmTest, AProductHasTheSameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  std::mt19937 random(3);
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (const index_t n : {2, 333}) {
    Case<T> one(false, true, 331, n, 2000, 1, T(1), T(0), random);
    for (T& value : one.a) value = uniform(random);
    for (T& value : one.b) value = uniform(random);
    tbb::task_arena single(1);
    single.execute([&] { Gemm(one.g); });
    const std::vector<T> expected = one.c;
    const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
    for (const int threads : {2, 3, 7}) {
      tbb::task_arena arena(threads);
      arena.execute([&] { Gemm(one.g); });
      EXPECT_EQ(one.c, expected) << threads << " threads, n=" << n;
    }
  }
}

TYPED_TEST(GemmTest, FewRowsTimesABOfMoreThanTheCaches) {
  using T = TypeParam;
  std::mt19937 random(7);
  // On one thread, that B is not cut.
  tbb::task_arena(1).execute([&] {
    for (const bool ta : {false, true}) {
      Case<T>(ta, false, 5, 3601, 603, 1, T(-0.5), T(0.5), random).Check();
      Case<T>(ta, false, 1, 3601, 603, 1, T(1), T(0), random).Check();
      // The sums take more memory than packing would.
      Case<T>(ta, false, 3, 400000, 9, 0, T(1), T(0), random).Check();
    }
  });
}

// Of a large B few rows go another way than many; the sums are the same.
TYPED_TEST(GemmTest, FewRowsHaveTheBitsThatTheyHaveAmongMany) {
  using T = TypeParam;
  constexpr index_t kDepth = 603, kColumns = 3601;
  std::mt19937 random(6);
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (const bool transpose_a : {false, true}) {
    Case<T> many(transpose_a, false, 13, kColumns, kDepth, 0, T(0.75), T(0.5), random);
    for (auto* operand : {&many.a, &many.b, &many.c}) {
      for (T& value : *operand) value = uniform(random);
    }
    const std::vector<T> old = many.c;
    Gemm(many.g);
    for (const index_t rows : {1, 2, 3, 4, 7, 12}) {
      std::vector<T> few(old.begin(), old.begin() + rows * kColumns);
      GemmArguments<T> g = many.g;
      g.m = rows;
      g.c = few.data();
      tbb::task_arena(1).execute([&] { Gemm(g); });
      EXPECT_TRUE(std::equal(few.begin(), few.end(), many.c.begin())) << rows << transpose_a;
    }
  }
}

// As where a product is added to a destination of which each thread has some rows.
TYPED_TEST(GemmTest, AddedBlocksOfRowsHaveTheBitsOfTheWhole) {
  using T = TypeParam;
  constexpr index_t kRows = 1006, kUpper = 503;
  std::mt19937 random(8);
  std::uniform_real_distribution<T> uniform(-1, 1);
  for (const index_t n : {1, 4, 5, 9, 12, 13}) {
    Case<T> whole(false, n % 2 == 0, kRows, n, 2000, 0, T(1) / 3, T(1), random);
    for (auto* operand : {&whole.a, &whole.b, &whole.c}) {
      for (T& value : *operand) value = uniform(random);
    }
    std::vector<T> blocks = whole.c;
    GemmArguments<T> upper = whole.g, lower = whole.g;
    upper.m = kUpper;
    upper.c = blocks.data();
    lower.m = kRows - kUpper;
    lower.a += kUpper * lower.lda;
    lower.c = blocks.data() + kUpper * lower.ldc;
    tbb::task_arena(1).execute([&] {
      Gemm(whole.g);
      Gemm(upper);
      Gemm(lower);
    });
    EXPECT_EQ(blocks, whole.c) << n << " columns";
  }
}

// Writes B, which is stored, as a WrittenOperand; the context is the product.
void WriteStored(const void* context, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 float* to, int64_t stride) {
  const auto& g = *static_cast<const GemmArguments<float>*>(context);
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(g.b + (row + i) * g.ldb + column, columns, to + i * stride);
  }
}

// Shapes are around slabs, blocks of columns and depths, and blocks of threads.
TEST(WrittenOperandTest, GivesTheBitsOfAStoredOne) {
  std::mt19937 random(10);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
  for (const auto& [m, n, k] :
       {std::tuple(1, 13, 1), std::tuple(90, 13, 2000), std::tuple(4, 25, 9),
        std::tuple(7, 49, 300), std::tuple(64, 49, 576), std::tuple(13, 769, 257),
        std::tuple(100, 1600, 515), std::tuple(331, 333, 256), std::tuple(2, 3601, 603)}) {
    for (const bool transpose_a : {false, true}) {
      const float beta = transpose_a ? 0.5f : 0.0f;
      Case<float> stored(transpose_a, false, m, n, k, 3, 0.75f, beta, random);
      for (auto* operand : {&stored.a, &stored.b, &stored.c}) {
        for (float& value : *operand) value = uniform(random);
      }
      const std::vector<float> old = stored.c;
      Gemm(stored.g);
      const WrittenOperand<float> b = {WriteStored, &stored.g};
      for (const int threads : {1, 2, 7}) {
        std::vector<float> c = old;
        GemmArguments<float> written = stored.g;
        written.b = nullptr;
        written.c = c.data();
        tbb::task_arena(threads).execute([&] { Gemm(written, b); });
        EXPECT_EQ(c, stored.c) << m << " x " << n << " x " << k << ", " << threads << " threads";
      }
    }
  }
}

TEST(WrittenOperandTest, IsNotReadIfAlphaIsZeroOrKIsZero) {
  const WrittenOperand<float> b = {
      [](const void*, int64_t, int64_t, int64_t, int64_t, float*, int64_t) { FAIL() << "written"; },
      nullptr};
  std::mt19937 random(11);
  for (const index_t k : {0, 5}) {
    Case<float> product(false, false, 3, 30, k, 0, k == 0 ? 1.0f : 0.0f, 0.5f, random);
    std::vector<float> expected = product.c;
    for (float& value : expected) value *= 0.5f;
    Gemm(product.g, b);
    EXPECT_EQ(product.c, expected) << k;
  }
}

// Returns a product whose sums depend on their order.
Case<float> InexactCase(bool transpose_b, index_t m, index_t n, index_t k, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  Case<float> product(false, transpose_b, m, n, k, 3, 0.75f, m % 2 == 0 ? 0.5f : 0.0f, random);
  for (auto* operand : {&product.a, &product.b, &product.c}) {
    for (float& value : *operand) value = uniform(random);
  }
  return product;
}

// Runs a product with an operand that was packed, on several numbers of threads.
template <typename Run>
void ExpectSameBits(const Case<float>& stored, const Run& run) {
  const GemmArguments<float>& g = stored.g;
  std::vector<float> expected = stored.c;
  GemmArguments<float> same = g;
  same.c = expected.data();
  Gemm(same);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 7);
  for (const int threads : {1, 2, 7}) {
    std::vector<float> c = stored.c;
    GemmArguments<float> packed = g;
    packed.c = c.data();
    tbb::task_arena(threads).execute([&] { run(packed); });
    EXPECT_EQ(c, expected) << g.m << " x " << g.n << " x " << g.k << ", " << threads << " threads";
  }
}

// Shapes are around tiles, slabs, blocks of columns and depths, and blocks of threads.
TEST(PackedOperandTest, ALeftOneGivesTheBitsOfAStoredOne) {
  std::mt19937 random(12);
  for (const auto& [m, n, k] :
       {std::tuple(13, 13, 1), std::tuple(14, 31, 9), std::tuple(15, 769, 257),
        std::tuple(64, 49, 576), std::tuple(97, 200, 256), std::tuple(128, 196, 513),
        std::tuple(331, 333, 300), std::tuple(25, 3601, 60)}) {
    const Case<float> stored = InexactCase(false, m, n, k, random);
    const int vectors = LeftPacking(m, n, k);
    ASSERT_GT(vectors, 0);
    std::vector<float> left(static_cast<size_t>(m * k));
    PackLeft(m, k, stored.g.a, stored.g.lda, vectors, left.data());
    const PackedOperand<float> a = {left.data(), vectors};
    ExpectSameBits(stored, [&](const GemmArguments<float>& g) { GemmPackedLeft(g, a); });
    ExpectSameBits(stored, [&](const GemmArguments<float>& g) {
      GemmPackedLeft(g, a, WrittenOperand<float>{WriteStored, &stored.g});
    });
  }
  EXPECT_EQ(LeftPacking(100, 12, 50), 0);  // other sums
  EXPECT_EQ(LeftPacking(12, 100, 50), 0);
}

TEST(PackedOperandTest, ARightOneGivesTheBitsOfAStoredOne) {
  std::mt19937 random(13);
  for (const auto& [m, n, k] :
       {std::tuple(13, 13, 40), std::tuple(16, 1000, 515), std::tuple(33, 17, 2000),
        std::tuple(64, 97, 256), std::tuple(331, 333, 257), std::tuple(200, 769, 60),
        std::tuple(100, 1601, 30)}) {
    for (const bool transpose_b : {true, false}) {
      const Case<float> stored = InexactCase(transpose_b, m, n, k, random);
      const int vectors = RightPacking(stored.g);
      if (transpose_b) {
        ASSERT_GT(vectors, 0);
      }
      if (vectors == 0) continue;  // read in place
      std::vector<float> right(static_cast<size_t>(PackedRightSize(n, k)));
      PackRight(stored.g, vectors, right.data());
      const PackedOperand<float> b = {right.data(), vectors};
      ExpectSameBits(stored, [&](const GemmArguments<float>& g) { GemmPackedRight(g, b); });
      ExpectSameBits(stored, [&](const GemmArguments<float>& g) { StreamPackedRight(g, b); });
    }
  }
  // Few rows are multiplied without packing.
  EXPECT_EQ(RightPacking(InexactCase(true, 1, 1000, 500, random).g), 0);
  EXPECT_EQ(RightPacking(InexactCase(true, 8, 1000, 1000, random).g), 0);
}

// Runs the product by its B packed for products of `rows` rows, and compares every element, and
// what lies behind the rows, for equality.
template <typename T>
void CheckStreamed(Case<T>* product, index_t rows, bool backwards) {
  const GemmArguments<T> g = product->g;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> packed(static_cast<size_t>(PackedRightSize(g.n, g.k)) + 1, nan);
  const PackedOperand<T> operand = {packed.data(), StreamPacking(rows)};
  PackRight(g, operand.vectors, packed.data());
  EXPECT_TRUE(std::isnan(packed.back())) << "written behind the packed elements";
  const std::vector<T> old = product->c;
  GemmArguments<T> by_packed = g;
  by_packed.b = nullptr;
  if (g.beta == T(0)) {
    for (index_t y = 0; y < g.m; ++y) std::fill_n(product->c.data() + y * g.ldc, g.n, nan);
  }
  StreamPackedRight(by_packed, operand, backwards);
  for (index_t y = 0; y < g.m; ++y) {
    for (index_t x = 0; x < g.ldc; ++x) {
      const double expected = x < g.n ? product->Expected(old, y, x) : old[y * g.ldc + x];
      ASSERT_EQ(product->c[y * g.ldc + x], expected)
          << "m=" << g.m << " n=" << g.n << " k=" << g.k << " transposed " << g.transpose_a
          << g.transpose_b << " packed for " << rows << " at " << y << ", " << x;
    }
  }
}

TYPED_TEST(GemmTest, AStreamedOperandGivesTheProduct) {
  using T = TypeParam;
  std::mt19937 random(14);
  for (const index_t m : {1, 2, 3, 6, 7, 15, 32}) {
    for (const index_t n : {1, 3, 8, 15, 16, 17, 33, 64, 65, 130}) {
      for (const index_t k : {1, 7, 8, 33, 256, 515}) {
        const bool transpose_a = (m + n + k) % 4 == 0, transpose_b = (m + k) % 2 == 0;
        Case<T> product(transpose_a, transpose_b, m, n, k, 3, T(0.5), T(n % 2), random);
        CheckStreamed(&product, m, /*backwards=*/n % 3 == 0);
        if (k == 33) CheckStreamed(&product, /*rows=*/m == 1 ? 32 : 1, /*backwards=*/true);
      }
    }
  }
}

TYPED_TEST(GemmTest, AStreamedOperandGivesTheBitsOfAnyRowsAndColumns) {
  using T = TypeParam;
  std::mt19937 random(15);
  std::uniform_real_distribution<T> uniform(-1, 1);
  constexpr index_t kRows = 19, kColumns = 96, kDepth = 300;
  Case<T> whole(false, false, kRows, kColumns, kDepth, 0, T(1), T(0.5), random);
  for (auto* operand : {&whole.a, &whole.b, &whole.c}) {
    for (T& value : *operand) value = uniform(random);
  }
  const std::vector<T> old = whole.c;
  std::vector<T> c;
  std::vector<T> packed(static_cast<size_t>(PackedRightSize(kColumns, kDepth)));
  Gemm(whole.g);
  for (const auto& [rows, columns] : {std::pair(19, 96), std::pair(1, 96), std::pair(2, 32),
                                      std::pair(7, 48), std::pair(19, 16), std::pair(4, 1)}) {
    c = old;
    for (index_t x = 0; x < kColumns; x += columns) {
      GemmArguments<T> part = whole.g;
      part.n = columns;
      part.b += x;
      const PackedOperand<T> operand = {packed.data(), StreamPacking(rows)};
      PackRight(part, operand.vectors, packed.data());
      for (index_t y = 0; y < kRows; y += rows) {
        part.m = std::min<index_t>(rows, kRows - y);
        part.a = whole.g.a + y * part.lda;
        part.c = c.data() + y * part.ldc + x;
        StreamPackedRight(part, operand);
      }
    }
    EXPECT_EQ(c, whole.c) << rows << " x " << columns;
  }
}

TYPED_TEST(GemmTest, AStreamedOperandIsNotReadIfAlphaIsZeroOrKIsZero) {
  using T = TypeParam;
  std::mt19937 random(16);
  for (const index_t k : {0, 5}) {
    Case<T> product(false, false, 3, 30, k, 0, k == 0 ? T(1) : T(0), T(0.5), random);
    std::vector<T> expected = product.c;
    for (T& value : expected) value *= T(0.5);
    StreamPackedRight(product.g, PackedOperand<T>{nullptr, StreamPacking(3)});
    EXPECT_EQ(product.c, expected) << k;
  }
}

// The transpose of this product packs its left operand.
TYPED_TEST(GemmTest, AColumnThatLiesFarApartTimesAMatrixTransposed) {
  using T = TypeParam;
  std::mt19937 random(9);
  for (const index_t k : {100, 250, 256}) {
    Case<T> product(true, false, 858, 1, k, 0, T(1), T(0), random);
    product.g.ldb = 256;
    product.b = Entries<T>(k * product.g.ldb, random);
    product.g.b = product.b.data();
    product.Check();
  }
}

TYPED_TEST(GemmTest, NotANumberTravelsThroughSumsAndNotThroughZeroBeta) {
  using T = TypeParam;
  std::mt19937 random(4);
  Case<T> product(false, false, 20, 20, 20, 0, T(1), T(0), random);
  product.a[3 * 20 + 5] = std::numeric_limits<T>::quiet_NaN();
  Gemm(product.g);
  for (index_t y = 0; y < 20; ++y) {
    for (index_t x = 0; x < 20; ++x) {
      EXPECT_EQ(std::isnan(product.c[y * 20 + x]), y == 3) << y << ", " << x;
    }
  }
}

TYPED_TEST(GemmTest, WhatIsMultipliedByZeroMayBeNan) {
  using T = TypeParam;
  const T nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  std::mt19937 random(7);
  for (const T beta : {T(0), T(2)}) {
    Case<T> product(false, false, 5, 9, 4, 1, T(0), beta, random);
    std::fill(product.a.begin(), product.a.end(), nan);
    std::fill(product.b.begin(), product.b.end(), nan);
    if (beta == T(0)) std::fill(product.c.begin(), product.c.end(), nan);
    const std::vector<T> old = product.c;
    Gemm(product.g);
    for (index_t y = 0; y < 5; ++y) {
      for (index_t x = 0; x < 9; ++x) {
        const index_t i = y * product.g.ldc + x;
        EXPECT_EQ(product.c[i], beta == T(0) ? T(0) : static_cast<T>(old[i] * beta));
      }
    }
  }
}

TYPED_TEST(GemmTest, LongSumsDoNotStagnate) {
  using T = TypeParam;
  constexpr index_t kLength = index_t{1} << 22;
  const T value = T(0.1f);
  std::mt19937 random(5);
  // Dot products of one with one, of few with many (in which C is not overwritten), and columns of
  // tiles.
  for (const auto& [transpose_b, m, n] : {std::tuple(true, 1, 1), std::tuple(true, 2, 5),
                                          std::tuple(false, 1, 1), std::tuple(false, 1, 2)}) {
    const T beta = n == 5 ? T(0.5) : T(0);
    Case<T> product(false, transpose_b, m, n, kLength, 0, T(2), beta, random);
    std::fill(product.a.begin(), product.a.end(), value);
    std::fill(product.b.begin(), product.b.end(), T(1));
    Gemm(product.g);
    const double expected = 2 * static_cast<double>(value) * kLength;
    for (const T element : product.c) {
      EXPECT_NEAR(element / expected, 1, 3e-4) << transpose_b << ", " << m << " x " << n;
    }
  }
}

// Compares what follows a product with the result of the product alone.
class Follower {
 public:
  Follower(const GemmArguments<float>& g, const std::vector<float>& expected)
      : g_(g), expected_(expected), counts_(static_cast<size_t>(g.m * g.n)) {}

  ProductEnd End() const {
    return {[](const void* self, int64_t row, int64_t rows, int64_t column, int64_t columns) {
              static_cast<const Follower*>(self)->Take(row, rows, column, columns);
            },
            this};
  }
  void Check() const {
    EXPECT_EQ(num_wrong_, 0);
    for (const std::atomic<int>& count : counts_) ASSERT_EQ(count.load(), 1);
  }

 private:
  void Take(index_t row, index_t rows, index_t column, index_t columns) const {
    for (index_t y = row; y < row + rows; ++y) {
      for (index_t x = column; x < column + columns; ++x) {
        ++counts_[static_cast<size_t>(y * g_.n + x)];
        const index_t at = y * g_.ldc + x;
        if (g_.c[at] != expected_[static_cast<size_t>(at)]) ++num_wrong_;
        g_.c[at] = 77;  // nobody reads it any more
      }
    }
  }

  const GemmArguments<float> g_;
  const std::vector<float>& expected_;
  mutable std::vector<std::atomic<int>> counts_;
  mutable std::atomic<int> num_wrong_ = 0;
};

TEST(ProductEndTest, TakesEachElementOnceAfterTheLastSum) {
  std::mt19937 random(14);
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 4);
  for (const auto& [m, n, k] :
       {std::tuple(1, 1, 5), std::tuple(13, 29, 40), std::tuple(70, 1003, 300),
        std::tuple(300, 777, 20), std::tuple(2, 70001, 9), std::tuple(600, 130, 515),
        std::tuple(64, 200, 0)}) {
    for (const bool transpose_b : {false, true}) {
      Case<float> stored = InexactCase(transpose_b, m, n, k, random);
      const std::vector<float> old = stored.c;
      Gemm(stored.g);
      const auto check = [&](const auto& run) {
        for (const int threads : {1, 4}) {
          SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << ", " << threads
                                          << " threads" << (transpose_b ? ", transposed" : ""));
          std::vector<float> c = old;
          GemmArguments<float> g = stored.g;
          g.c = c.data();
          const Follower follower(g, stored.c);
          tbb::task_arena(threads).execute([&] { run(g, follower.End()); });
          follower.Check();
        }
      };
      check([](const GemmArguments<float>& g, const ProductEnd& end) { Gemm(g, end); });
      if (const int vectors = transpose_b ? RightPacking(stored.g) : 0; vectors > 0) {
        std::vector<float> right(static_cast<size_t>(PackedRightSize(n, k)));
        PackRight(stored.g, vectors, right.data());
        const PackedOperand<float> b = {right.data(), vectors};
        check([&](const GemmArguments<float>& g, const ProductEnd& end) {
          GemmPackedRight(g, b, end);
        });
      }
      if (transpose_b || n < tensor_internal::kColumnsInOrder) continue;
      const WrittenOperand<float> b = {WriteStored, &stored.g};
      check([&](const GemmArguments<float>& g, const ProductEnd& end) { Gemm(g, b, end); });
      const int vectors = LeftPacking(m, n, k);
      if (vectors == 0) continue;
      std::vector<float> left(static_cast<size_t>(m * k));
      PackLeft(m, k, stored.g.a, stored.g.lda, vectors, left.data());
      const PackedOperand<float> a = {left.data(), vectors};
      check(
          [&](const GemmArguments<float>& g, const ProductEnd& end) { GemmPackedLeft(g, a, end); });
      check([&](const GemmArguments<float>& g, const ProductEnd& end) {
        GemmPackedLeft(g, a, b, end);
      });
    }
  }
}

}  // namespace
}  // namespace tessera
