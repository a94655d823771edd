#include "tessera/ndarray/sparse.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/sparse.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Read;
using ndarray_testing::ReadAs;
using ndarray_testing::Vector;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr StorageType kDense = StorageType::kDefault;
constexpr StorageType kRows = StorageType::kRowSparse;
constexpr StorageType kCsr = StorageType::kCsr;

NDArray Dense(const TShape& shape, const std::vector<float>& elements) {
  return NDArray::FromVector(elements, shape);
}
NDArray Indices(const std::vector<float>& numbers) { return Vector(numbers).AsType(DType::kInt64); }

/// A matrix of four rows, of which two are stored.
NDArray TwoRows() { return sparse::Cast(Dense({4, 2}, {0, 0, 1, 2, 0, 0, 3, 4}), kRows); }

TEST(SparseTest, ZerosStoreNothing) {
  const NDArray rows = sparse::Zeros(kRows, {1 << 30, 64});
  EXPECT_EQ(StorageTypeOf(rows), kRows);
  EXPECT_EQ(rows.shape(), TShape({1 << 30, 64}));
  EXPECT_EQ(rows.dtype(), DType::kFloat32);
  EXPECT_EQ(sparse::Count(rows), 0);
  EXPECT_EQ(sparse::Values(rows).shape(), TShape({0, 64}));
  const NDArray csr = sparse::Zeros(kCsr, {2, 3}, Device::Cpu(), DType::kFloat64);
  EXPECT_EQ(StorageTypeOf(csr), kCsr);
  EXPECT_EQ(csr.dtype(), DType::kFloat64);
  EXPECT_THAT(ReadAs<int64_t>(sparse::IndPtr(csr)), ElementsAre(0, 0, 0));
  EXPECT_THAT(csr.ToVector(), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(sparse::Zeros(kDense, {2}).ToVector(), ElementsAre(0, 0));
  EXPECT_EQ(StorageTypeOf(sparse::Zeros(kDense, {2})), kDense);
  EXPECT_EQ(StorageTypeOf(NDArray()), StorageType::kUndefined);
}

TEST(SparseTest, ShapesThatHaveNoStorageTypeAreRefused) {
  ExpectError(Error::kInvalidArgument, "two axes", [] { sparse::Zeros(kCsr, {2, 3, 4}); });
  ExpectError(Error::kInvalidArgument, "one axis", [] { sparse::Zeros(kRows, TShape({})); });
  ExpectError(Error::kInvalidArgument, "63 bits", [] {
    sparse::Zeros(kRows, {1 << 30, 1 << 30, 1 << 30});
  });
  ExpectError(Error::kInvalidArgument, "63 bits", [] {
    sparse::Zeros(kRows, {0, int64_t{1} << 62, 1 << 30});
  });
  ExpectError(Error::kUnimplemented, "expected the CPU", [] {
    sparse::Zeros(kRows, {2, 3}, Device::CpuShared());
  });
}

TEST(SparseTest, CastKeepsTheElements) {
  const NDArray rows = TwoRows();
  EXPECT_EQ(StorageTypeOf(rows), kRows);
  EXPECT_EQ(sparse::Count(rows), 2);
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(rows)), ElementsAre(1, 3));
  EXPECT_THAT(Read(sparse::Values(rows)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rows.ToVector(), ElementsAre(0, 0, 1, 2, 0, 0, 3, 4));
  const NDArray csr = sparse::Cast(Dense({2, 3}, {0, 5, 0, 6, 0, 7}), kCsr);
  EXPECT_EQ(sparse::Count(csr), 3);
  EXPECT_THAT(ReadAs<int64_t>(sparse::IndPtr(csr)), ElementsAre(0, 1, 3));
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(csr)), ElementsAre(1, 0, 2));
  EXPECT_THAT(Read(sparse::Values(csr)), ElementsAre(5, 6, 7));
  EXPECT_THAT(csr.ToVector(), ElementsAre(0, 5, 0, 6, 0, 7));
  const NDArray dense = sparse::Cast(csr, kDense);
  EXPECT_EQ(StorageTypeOf(dense), kDense);
  EXPECT_THAT(dense.ToVector(), ElementsAre(0, 5, 0, 6, 0, 7));
  // By a dense array in between.
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(sparse::Cast(rows, kCsr))), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(StorageTypeOf(sparse::Cast(csr, kRows)), kRows);
  EXPECT_THAT(sparse::Cast(csr, kRows).ToVector(), ElementsAre(0, 5, 0, 6, 0, 7));
}

TEST(SparseTest, ArraysAreMadeOfTheirParts) {
  const NDArray values = Dense({2, 2}, {1, 2, 3, 4});
  const NDArray rows = sparse::FromRows(values, Indices({0, 2}), {3, 2});
  EXPECT_THAT(rows.ToVector(), ElementsAre(1, 2, 0, 0, 3, 4));
  EXPECT_THAT(values.ToVector(), ElementsAre(1, 2, 3, 4));
  const NDArray csr =
      sparse::FromCsr(Vector({1, 2, 3}), Indices({0, 2, 3}), Vector({0, 2, 1}), {2, 3});
  EXPECT_THAT(csr.ToVector(), ElementsAre(1, 0, 2, 0, 3, 0));
  ExpectError(Error::kInvalidArgument, "values has shape (2,2), expected (2,3)", [&] {
    sparse::FromRows(values, Indices({0, 2}), {3, 3});
  });
  ExpectError(Error::kInvalidArgument, "rows has shape (1,), expected (2,)", [&] {
    sparse::FromRows(values, Indices({0}), {3, 2});
  });
  ExpectError(Error::kInvalidArgument, "indptr has shape (2,), expected (3,)", [&] {
    sparse::FromCsr(Vector({1}), Indices({0, 1}), Indices({0}), {2, 3});
  });
}

TEST(SparseTest, WrongPartsAreAnErrorAtTheFirstWait) {
  const NDArray values = Dense({2, 1}, {1, 2});
  const NDArray falling = sparse::FromRows(values, Indices({2, 0}), {3, 1});
  ExpectError(Error::kInvalidArgument, "indices[1] is 0 after 2", [&] { falling.WaitToRead(); });
  const NDArray outside = sparse::FromRows(values, Vector({0, 7}), {3, 1});
  ExpectError(Error::kInvalidArgument, "indices[1] is 7", [&] { sparse::Count(outside); });
  const NDArray csr = sparse::FromCsr(Vector({1, 2}), Indices({0, 1, 3}), Indices({0, 1}), {2, 2});
  ExpectError(Error::kInvalidArgument, "indptr[2] is 3, expected 2", [&] { csr.ToVector(); });
}

TEST(SparseTest, WhatIsDenseAloneSaysSo) {
  NDArray rows = TwoRows();
  rows.WaitToRead();
  ExpectError(Error::kInvalidArgument, "row_sparse, expected a dense one", [&] { rows.data(); });
  ExpectError(Error::kInvalidArgument, "row_sparse", [&] { rows.Reshape({2, 4}); });
  ExpectError(Error::kInvalidArgument, "is dense, expected row_sparse or csr",
              [] { sparse::Values(NDArray({2})); });
  ExpectError(Error::kInvalidArgument, "expected csr", [&] { sparse::IndPtr(rows); });
  const float number = 0;
  ExpectError(Error::kInvalidArgument, "row_sparse", [&] { rows.SyncCopyFromCPU(&number, 8); });
}

TEST(SparseTest, CopiesKeepTheStorageTypeOfTheirTarget) {
  const NDArray rows = TwoRows();
  const NDArray copy = rows.Copy(Device::Cpu());
  EXPECT_EQ(StorageTypeOf(copy), kRows);
  EXPECT_EQ(copy.ToVector(), rows.ToVector());
  for (const StorageType from : {kDense, kRows, kCsr}) {
    for (const StorageType to : {kDense, kRows, kCsr}) {
      const NDArray source = sparse::Cast(rows, from);
      const NDArray target = sparse::Zeros(to, {4, 2}, Device::Cpu(), DType::kFloat64);
      CopyFromTo(source, target);
      EXPECT_EQ(StorageTypeOf(target), to);
      EXPECT_EQ(target.ToVector(), rows.ToVector());
    }
  }
  // The copy does not change with the array.
  NDArray changed = rows;
  changed = 0;
  EXPECT_EQ(sparse::Count(rows), 0);
  EXPECT_THAT(copy.ToVector(), ElementsAre(0, 0, 1, 2, 0, 0, 3, 4));
  EXPECT_EQ(copy.AsType(DType::kInt32).dtype(), DType::kInt32);
  EXPECT_EQ(StorageTypeOf(copy.AsType(DType::kInt32)), kRows);
}

TEST(SparseTest, AValueFillsEveryRow) {
  NDArray rows = TwoRows();
  rows = 3;
  EXPECT_EQ(sparse::Count(rows), 4);
  EXPECT_THAT(rows.ToVector(), Each(3));
  NDArray csr = sparse::Cast(Dense({1, 2}, {1, 2}), kCsr);
  ExpectError(Error::kUnimplemented, "expected 0", [&] { csr = 3; });
  csr = 0;
  EXPECT_EQ(sparse::Count(csr), 0);
}

TEST(SparseTest, RowsOfACsrArrayAreACopy) {
  const NDArray csr = sparse::Cast(Dense({3, 2}, {1, 0, 0, 2, 3, 4}), kCsr);
  const NDArray part = csr.Slice(1, 3);
  EXPECT_EQ(StorageTypeOf(part), kCsr);
  EXPECT_THAT(ReadAs<int64_t>(sparse::IndPtr(part)), ElementsAre(0, 1, 3));
  EXPECT_THAT(part.ToVector(), ElementsAre(0, 2, 3, 4));
  const NDArray columns =
      Invoke("slice", {&csr, 1}, {{"begin", "(None, 1)"}, {"end", "(-1, None)"}})[0];
  EXPECT_EQ(StorageTypeOf(columns), kCsr);
  EXPECT_THAT(columns.ToVector(), ElementsAre(0, 2));
}

TEST(SparseTest, RetainKeepsTheListedRows) {
  const NDArray kept = sparse::Retain(TwoRows(), Indices({3, 0, 3}));
  EXPECT_EQ(StorageTypeOf(kept), kRows);
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(kept)), ElementsAre(0, 3));
  EXPECT_THAT(kept.ToVector(), ElementsAre(0, 0, 0, 0, 0, 0, 3, 4));
  for (const float outside : {-1.0f, 4.0f}) {
    ExpectError(Error::kOutOfRange, "is outside of dimension 0 of extent 4",
                [outside] { sparse::Retain(TwoRows(), Indices({outside})).WaitToRead(); });
  }
}

TEST(SparseTest, OperatorsWithoutAFormComputeOnDenseCopies) {
  const NDArray rows = TwoRows();
  const NDArray sum = rows + 1;
  EXPECT_EQ(StorageTypeOf(sum), kDense);
  EXPECT_THAT(sum.ToVector(), ElementsAre(1, 1, 2, 3, 1, 1, 4, 5));
  // A sparse output takes the result.
  const NDArray target = sparse::Zeros(kRows, {4, 2});
  const NDArray inputs[] = {rows, rows};
  Invoke("elemwise_mul", inputs, {&target, 1});
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(target)), ElementsAre(1, 3));
  Invoke("elemwise_mul", inputs, {&target, 1}, {}, kAddTo);
  EXPECT_THAT(target.ToVector(), ElementsAre(0, 0, 2, 8, 0, 0, 18, 32));
}

TEST(SparseTest, FunctionsThatKeepZeroComputeOnWhatIsStored) {
  for (const StorageType storage : {kRows, kCsr}) {
    const NDArray array = sparse::Cast(TwoRows(), storage);
    const std::vector<std::tuple<std::string, ParameterMap, float>> calls = {
        {"_mul_scalar", {{"scalar", "3"}}, 3.0f},
        {"negative", {}, -1.0f},
        {"clip", {{"a_min", "-9"}, {"a_max", "9"}}, 1.0f}};
    for (const auto& [op, parameters, factor] : calls) {
      const NDArray result = Invoke(op, {&array, 1}, parameters)[0];
      EXPECT_EQ(StorageTypeOf(result), storage) << op;
      EXPECT_THAT(result.ToVector(),
                  ElementsAre(0, 0, factor, 2 * factor, 0, 0, 3 * factor, 4 * factor));
    }
    // 0 does not stay 0.
    EXPECT_EQ(StorageTypeOf(Invoke("exp", {&array, 1})[0]), kDense);
    const ParameterMap above = {{"a_min", "1"}, {"a_max", "9"}};
    const NDArray clipped = Invoke("clip", {&array, 1}, above)[0];
    EXPECT_EQ(StorageTypeOf(clipped), kDense);
    EXPECT_THAT(clipped.ToVector(), ElementsAre(1, 1, 1, 2, 1, 1, 3, 4));
    Invoke("_mul_scalar", {&array, 1}, {&array, 1}, {{"scalar", "2"}});
    EXPECT_THAT(array.ToVector(), ElementsAre(0, 0, 2, 4, 0, 0, 6, 8));
    EXPECT_EQ(StorageTypeOf(array), storage);
  }
}

TEST(SparseTest, ComparisonsWithANumberAreSparseWhereTheyAreFalseForZero) {
  for (const StorageType storage : {kRows, kCsr}) {
    const NDArray array = sparse::Cast(TwoRows(), storage);
    const std::vector<std::tuple<std::string, std::string, bool>> calls = {
        {"_equal_scalar", "2", true},         {"_equal_scalar", "0", false},
        {"_not_equal_scalar", "0", true},     {"_not_equal_scalar", "2", false},
        {"_greater_scalar", "0", true},       {"_greater_scalar", "-1", false},
        {"_greater_equal_scalar", "2", true}, {"_greater_equal_scalar", "0", false},
        {"_lesser_scalar", "-1", true},       {"_lesser_scalar", "3", false},
        {"_lesser_equal_scalar", "-1", true}, {"_lesser_equal_scalar", "0", false}};
    for (const auto& [op, scalar, is_sparse] : calls) {
      const NDArray result = Invoke(op, {&array, 1}, {{"scalar", scalar}})[0];
      EXPECT_EQ(StorageTypeOf(result), is_sparse ? storage : kDense) << op << scalar;
      const NDArray dense = sparse::Cast(array, kDense);
      EXPECT_EQ(result.ToVector(), Invoke(op, {&dense, 1}, {{"scalar", scalar}})[0].ToVector())
          << op << scalar;
    }
  }
}

TEST(SparseTest, TakeGivesRowsOfACsrArray) {
  const NDArray csr = sparse::Cast(TwoRows(), kCsr);
  const NDArray taken = Invoke("take", {csr, Vector({3, 1, 9, 0})}, {{"mode", "clip"}})[0];
  EXPECT_EQ(StorageTypeOf(taken), kCsr);
  sparse::CheckFormat(taken);
  EXPECT_THAT(ReadAs<int64_t>(sparse::IndPtr(taken)), ElementsAre(0, 2, 4, 6, 6));
  EXPECT_THAT(taken.ToVector(), ElementsAre(3, 4, 1, 2, 3, 4, 0, 0));
  const NDArray none = Invoke("take", {csr, Indices({})}, {{"mode", "wrap"}})[0];
  EXPECT_EQ(none.shape(), TShape({0, 2}));
  // A csr array has two axes.
  const NDArray cube = Invoke("take", {csr, Dense({2, 1}, {1, 0})}, {{"mode", "clip"}})[0];
  EXPECT_EQ(StorageTypeOf(cube), kDense);
  EXPECT_THAT(cube.ToVector(), ElementsAre(1, 2, 0, 0));
}

TEST(SparseTest, StoredElementsAreCounted) {
  // One of them is 0.
  const NDArray csr =
      sparse::FromCsr(Vector({5, 0, 7}), Vector({0, 1, 1, 3}), Vector({2, 0, 2}), {3, 4});
  EXPECT_THAT(ReadAs<int64_t>(Invoke("_contrib_getnnz", {csr})[0]), ElementsAre(3));
  EXPECT_THAT(ReadAs<int64_t>(Invoke("_contrib_getnnz", {csr}, {{"axis", "1"}})[0]),
              ElementsAre(1, 0, 2));
  EXPECT_THAT(ReadAs<int64_t>(Invoke("_contrib_getnnz", {csr}, {{"axis", "0"}})[0]),
              ElementsAre(1, 0, 2, 0));
}

TEST(SparseTest, ReductionsOfAllElementsReadWhatIsStored) {
  for (const StorageType storage : {kRows, kCsr}) {
    const NDArray array = sparse::Cast(TwoRows(), storage);
    EXPECT_THAT(Invoke("sum", {&array, 1})[0].ToVector(), ElementsAre(10));
    const NDArray norm = Invoke("norm", {&array, 1}, {{"keepdims", "True"}})[0];
    EXPECT_EQ(norm.shape(), TShape({1, 1}));
    EXPECT_THAT(norm.ToVector(), ElementsAre(::testing::FloatNear(std::sqrt(30.0f), 1e-6f)));
    const NDArray zeros = sparse::Zeros(storage, {4, 2});
    EXPECT_THAT(Invoke("norm", {&zeros, 1})[0].ToVector(), ElementsAre(0));
    EXPECT_THAT(Invoke("sum", {&array, 1}, {{"axis", "1"}})[0].ToVector(), ElementsAre(0, 3, 0, 7));
  }
}

TEST(SparseTest, SumsStoreTheRowsOfAllTerms) {
  const NDArray first = TwoRows();
  const NDArray second = sparse::Cast(Dense({4, 2}, {5, 0, 0, 0, 0, 0, 1, 1}), kRows);
  const NDArray sum = first + second;
  EXPECT_EQ(StorageTypeOf(sum), kRows);
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(sum)), ElementsAre(0, 1, 3));
  const NDArray terms[] = {first, second, first};
  const NDArray total = Invoke("add_n", terms, {{"num_args", "3"}})[0];
  EXPECT_EQ(StorageTypeOf(total), kRows);
  EXPECT_THAT(total.ToVector(), ElementsAre(5, 0, 2, 4, 0, 0, 7, 9));
  NDArray changed = first;
  changed += second;
  EXPECT_THAT(changed.ToVector(), ElementsAre(5, 0, 1, 2, 0, 0, 4, 5));
  EXPECT_EQ(StorageTypeOf(first + first.AsType(DType::kFloat32)), kRows);
}

TEST(SparseTest, AddingMergesRows) {
  const NDArray first = TwoRows();
  const NDArray second = sparse::Cast(Dense({4, 2}, {5, 0, 0, 0, 0, 0, 1, 1}), kRows);
  Invoke("_copy", {&second, 1}, {&first, 1}, {}, kAddTo);
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(first)), ElementsAre(0, 1, 3));
  EXPECT_THAT(first.ToVector(), ElementsAre(5, 0, 1, 2, 0, 0, 4, 5));
}

const ParameterMap kEmbedding = {{"input_dim", "5"}, {"output_dim", "2"}, {"sparse_grad", "True"}};

/// Records `calls` of an Embedding of the weight, sums them and runs Backward.
void EmbedAndBackward(const NDArray& weight, const std::vector<std::vector<float>>& calls) {
  NDArray total;
  {
    const autograd::Record record;
    for (const std::vector<float>& indices : calls) {
      const NDArray inputs[] = {Vector(indices), weight};
      const NDArray sum = Invoke("sum", Invoke("Embedding", inputs, kEmbedding))[0];
      total = total.is_none() ? sum : total + sum;
    }
  }
  total.Backward();
}

NDArray Weight(const NDArray& gradient, OpReqType req = kWriteTo) {
  NDArray weight({5, 2});
  weight = 1;
  autograd::MarkVariables({&weight, 1}, {&gradient, 1}, {&req, 1});
  return weight;
}

TEST(SparseGradientTest, AnEmbeddingsHasTheRowsThatWereChosen) {
  const NDArray gradient = sparse::Zeros(kRows, {5, 2});
  const NDArray weight = Weight(gradient);
  EmbedAndBackward(weight, {{3, 1, 3}});
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(1, 3));
  EXPECT_THAT(Read(sparse::Values(gradient)), ElementsAre(1, 1, 2, 2));
  // The next one replaces it, and two uses of the weight add up.
  EmbedAndBackward(weight, {{0, 4}, {4, 2}});
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(0, 2, 4));
  EXPECT_THAT(Read(sparse::Values(gradient)), ElementsAre(1, 1, 1, 1, 2, 2));
}

TEST(SparseGradientTest, AddingKeepsEarlierRows) {
  const NDArray gradient = sparse::Zeros(kRows, {5, 2});
  const NDArray weight = Weight(gradient, kAddTo);
  EmbedAndBackward(weight, {{3, 1}});
  EmbedAndBackward(weight, {{3, 0}});
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(0, 1, 3));
  EXPECT_THAT(Read(sparse::Values(gradient)), ElementsAre(1, 1, 1, 1, 2, 2));
}

TEST(SparseGradientTest, ADenseArrayTakesTheRows) {
  for (const OpReqType req : {kWriteTo, kAddTo}) {
    NDArray gradient({5, 2});
    gradient = 0;
    const NDArray weight = Weight(gradient, req);
    EmbedAndBackward(weight, {{3, 1}, {1, 1}});
    EXPECT_THAT(gradient.ToVector(), ElementsAre(0, 0, 3, 3, 0, 0, 1, 1, 0, 0));
  }
}

TEST(SparseGradientTest, DenseAndSparsePartsAddUp) {
  for (const StorageType storage : {kDense, kRows}) {
    const NDArray gradient = sparse::Zeros(storage, {5, 2});
    const NDArray weight = Weight(gradient);
    NDArray total;
    {
      const autograd::Record record;
      const NDArray inputs[] = {Vector({2}), weight};
      const NDArray rows = Invoke("Embedding", inputs, kEmbedding)[0];
      total = Invoke("sum", {&rows, 1})[0] + Invoke("sum", {&weight, 1})[0];
    }
    total.Backward();
    EXPECT_EQ(StorageTypeOf(gradient), storage);
    EXPECT_THAT(gradient.ToVector(), ElementsAre(1, 1, 1, 1, 2, 2, 1, 1, 1, 1));
  }
}

TEST(SparseGradientTest, TakeGivesRowsWhereTheyAreAwaited) {
  const NDArray gradient = sparse::Zeros(kRows, {5, 2});
  const NDArray weight = Weight(gradient);
  NDArray rows;
  {
    const autograd::Record record;
    const NDArray inputs[] = {weight, Indices({-1, 2})};
    rows = Invoke("take", inputs, {{"mode", "wrap"}})[0];
  }
  rows.Backward();
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(2, 4));
  EXPECT_THAT(Read(sparse::Values(gradient)), Each(1));
}

TEST(SparseGradientTest, GradReturnsThem) {
  const NDArray weight = Weight(sparse::Zeros(kRows, {5, 2}));
  NDArray rows;
  {
    const autograd::Record record;
    const NDArray inputs[] = {Vector({2, 2}), weight};
    rows = Invoke("Embedding", inputs, kEmbedding)[0];
  }
  const NDArray gradient = autograd::Grad({&rows, 1}, {&weight, 1})[0];
  EXPECT_EQ(StorageTypeOf(gradient), kRows);
  EXPECT_THAT(gradient.ToVector(), ElementsAre(0, 0, 0, 0, 2, 2, 0, 0, 0, 0));
}

TEST(SparseGradientTest, OneThatDoesNotDependOnTheVariableIsEmpty) {
  const NDArray gradient = sparse::Cast(Dense({5, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), kRows);
  const NDArray weight = Weight(gradient);
  NDArray total;
  {
    const autograd::Record record;
    const NDArray same = Invoke("BlockGrad", {&weight, 1})[0];
    total = Invoke("sum", {&same, 1})[0];
  }
  total.Backward();
  EXPECT_THAT(gradient.ToVector(), Each(0));
}

TEST(SparseGradientTest, PassesThroughCastsOfASparseVariable) {
  const NDArray rows = TwoRows();
  const NDArray gradient = sparse::Zeros(kRows, {4, 2});
  const OpReqType req = kWriteTo;
  autograd::MarkVariables({&rows, 1}, {&gradient, 1}, {&req, 1});
  NDArray total;
  {
    const autograd::Record record;
    const NDArray inputs[] = {rows, rows};
    const NDArray squares = Invoke("elemwise_mul", inputs)[0];
    total = Invoke("sum", {&squares, 1})[0];
  }
  total.Backward();
  EXPECT_THAT(gradient.ToVector(), ElementsAre(0, 0, 2, 4, 0, 0, 6, 8));
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(1, 3));
}

TEST(SparseGradientTest, NothingOfTheWholeShapeIsAllocated) {
  constexpr index_t kNumRows = index_t{1} << 34;  // a terabyte
  const ParameterMap parameters = {
      {"input_dim", std::to_string(kNumRows)}, {"output_dim", "16"}, {"sparse_grad", "True"}};
  const NDArray weight =
      sparse::FromRows(Dense({1, 16}, std::vector<float>(16, 2)), Indices({4}), {kNumRows, 16});
  const NDArray gradient = sparse::Zeros(kRows, {kNumRows, 16});
  const OpReqType req = kAddTo;
  autograd::MarkVariables({&weight, 1}, {&gradient, 1}, {&req, 1});
  for (int i = 0; i < 2; ++i) {
    NDArray out;
    {
      const autograd::Record record;
      const NDArray inputs[] = {Vector({4, 7}), weight};
      out = Invoke("Embedding", inputs, parameters)[0];
    }
    out.Backward();
    EXPECT_EQ(out.ToVector()[15], 2);
    EXPECT_EQ(out.ToVector()[16], 0);
  }
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(4, 7));
  EXPECT_THAT(Read(sparse::Values(gradient)), Each(2));
}

TEST(SparseTest, MemoryDoesNotGrowWithCalls) {
  const NDArray rows = TwoRows(), target = sparse::Zeros(kRows, {4, 2});
  const auto live_after = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      Invoke("_copy", {&rows, 1}, {&target, 1}, {}, kAddTo);
      sparse::Retain(rows, Indices({1}));
    }
    NDArray::WaitAll();
    return Storage::Get()->Stats(Device::Cpu()).live_bytes;
  };
  const int64_t before = live_after(10);
  // A call's parts have 48 bytes. The last calls may free theirs after the wait.
  EXPECT_LT(live_after(1000), before + 10000);
}

TEST(SparseTest, AFailedWriteKeepsTheParts) {
  const NDArray rows = TwoRows();
  rows.WaitToRead();
  Engine::Get()->PushSync([](RunContext) { throw OutOfRange("the operation broke"); },
                          Device::Cpu(), {}, {rows.var()});
  ExpectError(Error::kOutOfRange, "the operation broke", [&] { rows.WaitToRead(); });
  // The error stays until the next write.
  Engine::Get()->PushSync([](RunContext) {}, Device::Cpu(), {}, {rows.var()});
  EXPECT_THAT(rows.ToVector(), ElementsAre(0, 0, 1, 2, 0, 0, 3, 4));
}

TEST(SparseStepTest, ABoundStepFollowsTheRowsOfEachGradient) {
  NDArray weight({4, 1});
  weight = 1;
  const NDArray gradient = sparse::Zeros(kRows, {4, 1});
  const auto property = OperatorRegistry::Get().Create("sgd_update", {{"lr", "1"}, {"wd", "0.5"}});
  const NDArray inputs[] = {weight, gradient};
  const BoundOperator step(*property, inputs, {&weight, 1});
  step.Run();
  EXPECT_THAT(weight.ToVector(), Each(1));
  CopyFromTo(sparse::FromRows(Dense({1, 1}, {2}), Indices({2}), {4, 1}), gradient);
  step.Run();
  EXPECT_THAT(weight.ToVector(), ElementsAre(1, 1, -1.5, 1));
  CopyFromTo(sparse::FromRows(Dense({2, 1}, {1, 1}), Indices({0, 3}), {4, 1}), gradient);
  step.Run();
  EXPECT_THAT(weight.ToVector(), ElementsAre(-0.5, 1, -1.5, -0.5));
}

TEST(SparseTest, TheDocumentationsExampleWorks) {
  NDArray weight({1000, 2});
  weight = 1;
  NDArray gradient = sparse::Zeros(StorageType::kRowSparse, weight.shape());
  const OpReqType req = kWriteTo;
  autograd::MarkVariables({&weight, 1}, {&gradient, 1}, {&req, 1});

  const ParameterMap sizes = {{"input_dim", "1000"}, {"output_dim", "2"}, {"sparse_grad", "True"}};
  NDArray loss;
  {
    const autograd::Record record;
    const NDArray rows = Invoke("Embedding", {Vector({7, 3, 7}), weight}, sizes)[0];
    loss = Invoke("sum", {rows})[0];
  }
  loss.Backward();
  sparse::Indices(gradient);  // 3, 7
  sparse::Values(gradient);   // [[1, 1], [2, 2]]

  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(gradient)), ElementsAre(3, 7));
  EXPECT_THAT(Read(sparse::Values(gradient)), ElementsAre(1, 1, 2, 2));
}

}  // namespace
}  // namespace tessera
