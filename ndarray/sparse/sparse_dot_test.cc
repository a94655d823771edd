// Products of sparse arrays beside those of dense ones.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using ndarray_testing::ReadAs;
using ndarray_testing::Vector;
using ::testing::ElementsAre;

constexpr StorageType kDense = StorageType::kDefault;
constexpr StorageType kRows = StorageType::kRowSparse;
constexpr StorageType kCsr = StorageType::kCsr;

/// Returns small integers, of which a share is not 0, so that sums of products are exact.
NDArray Pattern(const TShape& shape, double share, std::mt19937* random) {
  std::bernoulli_distribution is_stored(share);
  std::uniform_int_distribution<int> value(1, 4);
  std::vector<float> elements(static_cast<size_t>(shape.Size()));
  for (float& element : elements) {
    element = is_stored(*random) ? static_cast<float>(value(*random)) : 0;
  }
  return NDArray::FromVector(elements, shape);
}

/// Returns the storage type that a text names, or another for "None".
StorageType TypeOf(const std::string& text, StorageType other) {
  for (const StorageType type : {kDense, kRows, kCsr}) {
    if (text == StorageTypeName(type)) return type;
  }
  return other;
}

NDArray Dot(const NDArray& lhs, const NDArray& rhs, const ParameterMap& parameters) {
  return Invoke("dot", {lhs, rhs}, parameters)[0];
}

/// The product with its gradients, for a head gradient.
struct Product {
  NDArray out, lhs_grad, rhs_grad;

  Product(const NDArray& lhs, const NDArray& rhs, const ParameterMap& parameters,
          const NDArray& head) {
    const NDArray a = lhs.Detach(), b = rhs.Detach();
    lhs_grad = NDArray(a.shape(), a.device(), a.dtype());
    rhs_grad = sparse::Zeros(StorageTypeOf(lhs) == kCsr ? kRows : kDense, b.shape(), b.device(),
                             b.dtype());
    const NDArray variables[] = {a, b}, gradients[] = {lhs_grad, rhs_grad};
    const OpReqType requests[] = {kWriteTo, kWriteTo};
    autograd::MarkVariables(variables, gradients, requests);
    {
      const autograd::Record record;
      out = Dot(a, b, parameters);
    }
    autograd::Backward({out}, {head});
  }
};

TEST(SparseDotTest, ProductsAndGradientsAreThoseOfDenseArrays) {
  std::mt19937 random(1);
  // More columns than elements are sorted, fewer are counted; 64 columns of rhs are a block.
  const std::pair<TShape, double> matrices[] = {{{7, 5}, 0.4}, {{7, 5}, 0},      {{7, 5}, 1},
                                                {{1, 1}, 1},   {{3, 500}, 0.01}, {{300, 40}, 0.1},
                                                {{0, 4}, 1},   {{4, 0}, 1}};
  for (const auto& [shape, share] : matrices) {
    for (const index_t width : {1, 3, 64, 65, 130}) {
      for (const bool transposes : {false, true}) {
        for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
          const ParameterMap parameters = {{"transpose_a", transposes ? "True" : "False"}};
          const NDArray dense = Pattern(shape, share, &random).AsType(dtype);
          const index_t inner = shape[transposes ? 0 : 1], outer = shape[transposes ? 1 : 0];
          const NDArray rhs = Pattern({inner, width}, 0.9, &random).AsType(dtype);
          const NDArray head = Pattern({outer, width}, 0.9, &random).AsType(dtype);
          const Product expected(dense, rhs, parameters, head);
          const Product product(sparse::Cast(dense, kCsr), rhs, parameters, head);
          ASSERT_EQ(StorageTypeOf(product.out), transposes ? kRows : kDense);
          sparse::CheckFormat(product.out);
          ASSERT_EQ(Read(product.out), Read(expected.out)) << shape << width << transposes << dtype;
          ASSERT_EQ(Read(product.lhs_grad), Read(expected.lhs_grad)) << shape << width << dtype;
          ASSERT_EQ(Read(product.rhs_grad), Read(expected.rhs_grad)) << shape << width << dtype;
        }
      }
    }
  }
}

TEST(SparseDotTest, RowsOfTheRightFactor) {
  std::mt19937 random(2);
  for (const double share : {0.0, 0.5, 1.0}) {
    for (const double share_of_rows : {0.0, 0.4, 1.0}) {
      const NDArray lhs = Pattern({9, 12}, share, &random);
      NDArray rhs = Pattern({12, 3}, 1, &random);
      rhs = Invoke("broadcast_mul", {rhs, Pattern({12, 1}, share_of_rows, &random)})[0];
      const NDArray head = Pattern({9, 3}, 0.9, &random);
      const Product expected(lhs, rhs, {}, head);
      const Product product(sparse::Cast(lhs, kCsr), sparse::Cast(rhs, kRows), {}, head);
      EXPECT_EQ(StorageTypeOf(product.out), kDense);
      EXPECT_EQ(Read(product.out), Read(expected.out)) << share << " " << share_of_rows;
      EXPECT_EQ(Read(product.lhs_grad), Read(expected.lhs_grad)) << share << " " << share_of_rows;
      EXPECT_EQ(Read(product.rhs_grad), Read(expected.rhs_grad)) << share << " " << share_of_rows;
    }
  }
}

TEST(SparseDotTest, RowsOfTheRightFactorOfATransposedOne) {
  std::mt19937 random(3);
  for (const double share : {0.0, 0.5, 1.0}) {
    for (const double share_of_rows : {0.0, 0.4, 1.0}) {
      for (const char* const type : {"None", "default", "csr"}) {
        const ParameterMap parameters = {{"transpose_a", "True"}, {"forward_stype", type}};
        const NDArray lhs = Pattern({12, 9}, share, &random);
        NDArray rhs = Pattern({12, 3}, 1, &random);
        rhs = Invoke("broadcast_mul", {rhs, Pattern({12, 1}, share_of_rows, &random)})[0];
        const NDArray head = Pattern({9, 3}, 0.3, &random);
        const Product expected(lhs, rhs, {{"transpose_a", "True"}}, head);
        for (const StorageType head_type : {kDense, kRows}) {
          const Product product(sparse::Cast(lhs, kCsr), sparse::Cast(rhs, kRows), parameters,
                                sparse::Cast(head, head_type));
          EXPECT_EQ(StorageTypeOf(product.out), TypeOf(type, kRows));
          sparse::CheckFormat(product.out);
          EXPECT_EQ(Read(product.out), Read(expected.out)) << share << " " << share_of_rows;
          EXPECT_EQ(Read(product.lhs_grad), Read(expected.lhs_grad)) << share << " " << type;
          EXPECT_EQ(Read(product.rhs_grad), Read(expected.rhs_grad)) << share << " " << type;
        }
      }
    }
  }
}

TEST(SparseDotTest, ACsrRightFactorMakesCsr) {
  std::mt19937 random(4);
  const std::pair<TShape, double> matrices[] = {{{5, 7}, 0.3},       {{5, 7}, 0}, {{5, 7}, 1},
                                                {{500, 300}, 0.002}, {{0, 4}, 1}, {{4, 0}, 1}};
  for (const auto& [shape, share] : matrices) {
    for (const index_t rows : {0, 1, 40}) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
        const NDArray lhs = Pattern({rows, shape[0]}, 0.9, &random).AsType(dtype);
        const NDArray rhs = Pattern(shape, share, &random).AsType(dtype);
        const NDArray head = Pattern({rows, shape[1]}, 0.5, &random).AsType(dtype);
        const Product expected(lhs, rhs, {}, head);
        for (const StorageType head_type : {kDense, kCsr}) {
          const Product product(lhs, sparse::Cast(rhs, kCsr), {}, sparse::Cast(head, head_type));
          ASSERT_EQ(StorageTypeOf(product.out), kCsr);
          sparse::CheckFormat(product.out);
          ASSERT_EQ(Read(product.out), Read(expected.out)) << shape << rows << dtype;
          ASSERT_EQ(Read(product.lhs_grad), Read(expected.lhs_grad)) << shape << rows << dtype;
          ASSERT_EQ(Read(product.rhs_grad), Read(expected.rhs_grad)) << shape << rows << dtype;
        }
      }
    }
  }
}

// MXNet's storage types, which its own library was asked for.
TEST(SparseDotTest, EveryPairOfStorageTypes) {
  std::mt19937 random(5);
  const StorageType types[] = {kDense, kRows, kCsr};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const char* const forward_stype : {"None", "default", "csr", "row_sparse"}) {
        const ParameterMap parameters = {{"transpose_a", transpose_a ? "True" : "False"},
                                         {"transpose_b", transpose_b ? "True" : "False"},
                                         {"forward_stype", forward_stype}};
        const NDArray lhs = Pattern(transpose_a ? TShape{4, 6} : TShape{6, 4}, 0.4, &random);
        const NDArray rhs = Pattern(transpose_b ? TShape{3, 4} : TShape{4, 3}, 0.4, &random);
        const ParameterMap dense = {{"transpose_a", parameters.at("transpose_a")},
                                    {"transpose_b", parameters.at("transpose_b")}};
        const std::vector<float> expected = Dot(lhs, rhs, dense).ToVector();
        for (const StorageType left : types) {
          for (const StorageType right : types) {
            StorageType natural = kDense;
            if (left == kCsr && right != kCsr && transpose_a && !transpose_b) natural = kRows;
            if (left == kDense && right == kCsr && !transpose_a) natural = kCsr;
            const NDArray product =
                Dot(sparse::Cast(lhs, left), sparse::Cast(rhs, right), parameters);
            EXPECT_EQ(StorageTypeOf(product), TypeOf(forward_stype, natural))
                << left << " " << right << " " << forward_stype << transpose_a << transpose_b;
            EXPECT_EQ(product.ToVector(), expected)
                << left << " " << right << " " << forward_stype << transpose_a << transpose_b;
          }
        }
      }
    }
  }
}

TEST(SparseDotTest, ArraysOfOtherRanks) {
  const NDArray csr =
      sparse::Cast(NDArray::FromVector(std::vector<float>{0, 2, 3, 0}, {2, 2}), kCsr);
  EXPECT_THAT(Dot(csr, Vector({10, 1}), {}).ToVector(), ElementsAre(2, 30));
  EXPECT_THAT(Dot(csr, Vector({10, 1}), {{"transpose_a", "True"}}).ToVector(), ElementsAre(3, 20));
  const NDArray cube = NDArray::FromVector(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  const NDArray product = Dot(csr, cube, {});
  EXPECT_EQ(product.shape(), (TShape{2, 2, 2}));
  EXPECT_THAT(product.ToVector(), ElementsAre(10, 12, 14, 16, 3, 6, 9, 12));
  // A csr result would be no matrix.
  const NDArray transposed = Dot(Vector({10, 1}), csr, {});
  EXPECT_EQ(StorageTypeOf(transposed), kDense);
  EXPECT_THAT(transposed.ToVector(), ElementsAre(3, 20));
  EXPECT_THAT(Dot(cube, csr, {}).ToVector(), ElementsAre(6, 2, 12, 6, 18, 10, 24, 14));
}

TEST(SparseDotTest, OutputsTakeTheStorageThatIsAsked) {
  const NDArray csr =
      sparse::Cast(NDArray::FromVector(std::vector<float>{0, 2, 3, 0}, {2, 2}), kCsr);
  const NDArray rhs = NDArray::FromVector(std::vector<float>{1, 2}, {2, 1});
  const ParameterMap transposed = {{"transpose_a", "True"}, {"forward_stype", "default"}};
  const NDArray dense = Dot(csr, rhs, transposed);
  EXPECT_EQ(StorageTypeOf(dense), kDense);
  EXPECT_THAT(dense.ToVector(), ElementsAre(6, 2));
  // Added to what is there.
  const NDArray inputs[] = {csr, rhs};
  Invoke("dot", inputs, {&dense, 1}, transposed, kAddTo);
  EXPECT_THAT(dense.ToVector(), ElementsAre(12, 4));
  Invoke("dot", inputs, {&dense, 1}, {}, kAddTo);
  EXPECT_THAT(dense.ToVector(), ElementsAre(16, 7));
  const NDArray rows = sparse::Cast(dense, kRows);
  Invoke("dot", inputs, {&rows, 1}, {{"transpose_a", "True"}}, kAddTo);
  EXPECT_THAT(rows.ToVector(), ElementsAre(22, 9));
  // Without a form.
  EXPECT_THAT(
      Dot(csr, NDArray::FromVector(std::vector<float>{1, 2}, {1, 2}), {{"transpose_b", "True"}})
          .ToVector(),
      ElementsAre(4, 3));
}

TEST(SparseDotTest, NothingOfTheWholeShapeIsMade) {
  // A dense gradient would take 8 GiB.
  constexpr index_t kColumns = index_t{1} << 30;
  const NDArray columns = Vector({7, 1 << 24, 7}).AsType(DType::kInt64);
  const NDArray csr = sparse::FromCsr(Vector({1, 2, 3}), Vector({0, 2, 3}), columns, {2, kColumns});
  const NDArray rhs = NDArray::FromVector(std::vector<float>{1, 2, 10, 20}, {2, 2});
  const NDArray product = Dot(csr, rhs, {{"transpose_a", "True"}});
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(product)), ElementsAre(7, 1 << 24));
  EXPECT_THAT(Read(sparse::Values(product)), ElementsAre(31, 62, 2, 4));
}

}  // namespace
}  // namespace tessera
