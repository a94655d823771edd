#include "tessera/ops/linalg/factors/dense_matrix.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"

namespace tessera::ops_internal {
namespace {

constexpr double kTolerance = 1e-11;

Matrix RandomMatrix(index_t rows, index_t columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Matrix a(rows, columns);
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < columns; ++j) a(i, j) = normal(random);
  }
  return a;
}

void ExpectNear(const Matrix& actual, const Matrix& expected) {
  ASSERT_EQ(actual.rows(), expected.rows());
  ASSERT_EQ(actual.columns(), expected.columns());
  for (index_t i = 0; i < actual.rows(); ++i) {
    for (index_t j = 0; j < actual.columns(); ++j) {
      ASSERT_NEAR(actual(i, j), expected(i, j), kTolerance) << i << ", " << j;
    }
  }
}

Matrix Diagonal(const std::vector<double>& values) {
  const auto n = static_cast<index_t>(values.size());
  Matrix diagonal(n, n);
  for (index_t i = 0; i < n; ++i) diagonal(i, i) = values[static_cast<size_t>(i)];
  return diagonal;
}

Matrix Identity(index_t n) { return Diagonal(std::vector<double>(static_cast<size_t>(n), 1)); }

class FactorsTest : public ::testing::TestWithParam<index_t> {};

TEST_P(FactorsTest, EigenvectorsAndValuesGiveTheMatrix) {
  const index_t n = GetParam();
  const Matrix a = SymmetricFromLower(RandomMatrix(n, n, 1));
  const SymmetricEigen eigen = EigenOfSymmetric(a);
  ExpectNear(Multiply(eigen.vectors, eigen.vectors, Transpose::kNo, Transpose::kYes), Identity(n));
  const Matrix scaled = Multiply(Diagonal(eigen.values), eigen.vectors);
  ExpectNear(Multiply(eigen.vectors, scaled, Transpose::kYes), a);
  EXPECT_TRUE(std::is_sorted(eigen.values.begin(), eigen.values.end()));
}

TEST_P(FactorsTest, ASingularMatrixHasOrthonormalEigenvectors) {
  const index_t n = GetParam();
  Matrix ones(n, n);
  for (index_t i = 0; i < n; ++i) {
    for (index_t j = 0; j < n; ++j) ones(i, j) = 1;
  }
  const SymmetricEigen eigen = EigenOfSymmetric(ones);
  ExpectNear(Multiply(eigen.vectors, eigen.vectors, Transpose::kNo, Transpose::kYes), Identity(n));
  EXPECT_NEAR(eigen.values.back(), static_cast<double>(n), kTolerance);
}

TEST_P(FactorsTest, LqFactorsGiveTheMatrix) {
  const index_t n = GetParam();
  for (const index_t more : {0, 1, 5}) {
    const Matrix a = RandomMatrix(n, n + more, 2);
    const LqFactors factors = FactorLq(a);
    ExpectNear(Multiply(factors.l, factors.q), a);
    ExpectNear(Multiply(factors.q, factors.q, Transpose::kNo, Transpose::kYes), Identity(n));
  }
}

TEST_P(FactorsTest, LuFactorsGiveTheInverse) {
  const index_t n = GetParam();
  Matrix a = RandomMatrix(n, n, 3);
  for (index_t i = 0; i < n; ++i) a(i, n - 1 - i) += 4.0 * static_cast<double>(n);
  ExpectNear(Multiply(a, InverseOf(FactorLu(a))), Identity(n));
}

TEST_P(FactorsTest, CholeskyFactorsGiveTheMatrix) {
  const index_t n = GetParam();
  const Matrix root = RandomMatrix(n, n + 2, 4);
  const Matrix a = Multiply(root, root, Transpose::kNo, Transpose::kYes);
  const Matrix l = CholeskyFactor(a);
  ExpectNear(Multiply(l, l, Transpose::kNo, Transpose::kYes), a);
}

INSTANTIATE_TEST_SUITE_P(All, FactorsTest, ::testing::Values(1, 2, 3, 5, 16, 33));

TEST(DenseMatrixTest, AMatrixThatIsNotPositiveDefiniteIsRefused) {
  try {
    CholeskyFactor(Diagonal({1, -2}));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("pivot 1"), std::string::npos) << error.what();
  }
}

TEST(DenseMatrixTest, SingularMatricesHaveTheSignZero) {
  EXPECT_EQ(FactorLu(Matrix(2, 2)).sign, 0);
  EXPECT_EQ(FactorLu(Diagonal({1, 0, 2})).sign, 0);
  EXPECT_EQ(FactorLu(Diagonal({1, 3})).sign, 1);
}

}  // namespace
}  // namespace tessera::ops_internal
