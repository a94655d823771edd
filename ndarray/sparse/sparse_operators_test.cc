// Operators on sparse arrays beside the same operators on dense ones.
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/sparse/sparse_parts.h"
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
constexpr StorageType kStorages[] = {kDense, kRows, kCsr};

/// Returns small integers, of which a share is not 0, so that sums of products are exact.
NDArray Pattern(const TShape& shape, double share, std::mt19937* random) {
  std::bernoulli_distribution is_stored(share);
  std::uniform_int_distribution<int> value(1, 4), sign(0, 1);
  std::vector<float> elements(static_cast<size_t>(shape.Size()));
  for (float& element : elements) {
    element = is_stored(*random) ? static_cast<float>((2 * sign(*random) - 1) * value(*random)) : 0;
  }
  return NDArray::FromVector(elements, shape);
}

/// Matches elements that differ by a few units in the last place, as those of packets do.
auto Near(const NDArray& expected) {
  return ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.ToVector());
}

/// A call of an operator with the gradients of its inputs. An input whose gradient's storage is
/// kUndefined has none.
struct Call {
  NDArray out;
  std::vector<NDArray> gradients;

  Call(const std::string& op, const std::vector<NDArray>& inputs, const ParameterMap& parameters,
       const NDArray& head, const StorageTypes& storages) {
    std::vector<NDArray> arrays;
    for (size_t i = 0; i < inputs.size(); ++i) {
      arrays.push_back(inputs[i].Detach());
      gradients.emplace_back();
      if (storages[i] == StorageType::kUndefined) continue;
      gradients[i] =
          sparse::Zeros(storages[i], inputs[i].shape(), inputs[i].device(), inputs[i].dtype());
      const OpReqType req = kWriteTo;
      autograd::MarkVariables({&arrays[i], 1}, {&gradients[i], 1}, {&req, 1});
    }
    {
      const autograd::Record record;
      out = Invoke(op, arrays, parameters)[0];
    }
    if (!head.is_none()) autograd::Backward({&out, 1}, {&head, 1});
  }
};

struct BinaryCase {
  std::string op;
  /// The storage of the result, for (lhs, rhs) in the order of kStorages.
  StorageType storage[3][3];
};

const BinaryCase kBinaryCases[] = {
    {"elemwise_add", {{kDense, kDense, kDense}, {kDense, kRows, kDense}, {kDense, kDense, kCsr}}},
    {"elemwise_sub", {{kDense, kDense, kDense}, {kDense, kRows, kDense}, {kDense, kDense, kCsr}}},
    {"elemwise_mul", {{kDense, kRows, kCsr}, {kRows, kRows, kDense}, {kCsr, kDense, kCsr}}},
    {"_maximum", {{kDense, kDense, kDense}, {kDense, kRows, kDense}, {kDense, kDense, kCsr}}},
    {"_minimum", {{kDense, kDense, kDense}, {kDense, kRows, kDense}, {kDense, kDense, kCsr}}},
    {"_grad_add", {{kDense, kDense, kDense}, {kDense, kRows, kDense}, {kDense, kDense, kCsr}}},
};

TEST(SparseOperatorsTest, FunctionsOfTwoArraysAreThoseOfDenseOnes) {
  std::mt19937 random(1);
  const StorageTypes dense_gradients(2, kDense);
  for (const BinaryCase& each : kBinaryCases) {
    for (const TShape& shape : {TShape{1, 1}, TShape{9, 7}}) {
      for (const double share : {0.0, 0.3, 1.0}) {
        const NDArray lhs = Pattern(shape, share, &random), rhs = Pattern(shape, 0.4, &random);
        const NDArray head = Pattern(shape, 0.5, &random);
        const Call expected(each.op, {lhs, rhs}, {}, head, dense_gradients);
        for (size_t i = 0; i < 3; ++i) {
          for (size_t k = 0; k < 3; ++k) {
            const std::vector<NDArray> inputs = {sparse::Cast(lhs, kStorages[i]),
                                                 sparse::Cast(rhs, kStorages[k])};
            for (const StorageType of_head : {kDense, each.storage[i][k]}) {
              const Call call(each.op, inputs, {}, sparse::Cast(head, of_head), dense_gradients);
              ASSERT_EQ(StorageTypeOf(call.out), each.storage[i][k]) << each.op << i << k;
              sparse::CheckFormat(call.out);
              ASSERT_EQ(Read(call.out), Read(expected.out)) << each.op << i << k << share;
              for (size_t side = 0; side < 2; ++side) {
                ASSERT_EQ(Read(call.gradients[side]), Read(expected.gradients[side]))
                    << each.op << i << k << share << of_head << side;
              }
            }
          }
        }
      }
    }
  }
}

TEST(SparseOperatorsTest, AProductsGradientIsStoredWhereTheOtherFactorIs) {
  const NDArray dense = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const NDArray factor = NDArray::FromVector(std::vector<float>{0, 5, 0, 0}, {2, 2});
  for (const StorageType storage : {kRows, kCsr}) {
    const NDArray inputs[] = {dense.Detach(), sparse::Cast(factor, storage)};
    const NDArray gradient = sparse::Zeros(storage, {2, 2});
    const OpReqType req = kAddTo;
    autograd::MarkVariables({inputs, 1}, {&gradient, 1}, {&req, 1});
    for (int i = 1; i <= 2; ++i) {
      NDArray out;
      {
        const autograd::Record record;
        out = Invoke("elemwise_mul", inputs)[0];
      }
      out.Backward();
      EXPECT_EQ(sparse::Count(gradient), 1);
      EXPECT_THAT(gradient.ToVector(), ElementsAre(0, 5 * i, 0, 0));
    }
  }
}

TEST(SparseOperatorsTest, AProductHasASparseAndADenseGradient) {
  const NDArray rows =
      sparse::FromRows(NDArray::FromVector(std::vector<float>{2, 3}, {1, 2}), Vector({1}), {2, 2});
  const NDArray dense = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const NDArray head = NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {2, 2});
  const Call call("elemwise_mul", {rows, dense}, {}, head, {kDense, kRows});
  EXPECT_THAT(call.gradients[0].ToVector(), ElementsAre(1, 4, 9, 16));
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(call.gradients[1])), ElementsAre(1));
  EXPECT_THAT(call.gradients[1].ToVector(), ElementsAre(0, 0, 6, 12));
  const Call squares("elemwise_mul", {rows, rows}, {}, head, {kRows, kDense});
  EXPECT_THAT(squares.gradients[0].ToVector(), ElementsAre(0, 0, 6, 12));
  EXPECT_THAT(squares.gradients[1].ToVector(), ElementsAre(0, 0, 6, 12));
}

TEST(SparseOperatorsTest, NumbersBesideSparseArrays) {
  const NDArray dense = NDArray::FromVector(std::vector<float>{0, 2, 0, 0, -3, 4}, {3, 2});
  const std::vector<std::tuple<std::string, std::string, bool>> cases = {
      {"_plus_scalar", "0", true},    {"_plus_scalar", "2", false},   {"_minus_scalar", "0", true},
      {"_minus_scalar", "2", false},  {"_mul_scalar", "3", true},     {"_div_scalar", "2", true},
      {"_rminus_scalar", "1", false}, {"_maximum_scalar", "0", false}};
  for (const auto& [op, scalar, keeps] : cases) {
    const ParameterMap parameters = {{"scalar", scalar}};
    const NDArray expected = Invoke(op, {&dense, 1}, parameters)[0];
    for (const StorageType storage : {kRows, kCsr}) {
      const NDArray array = sparse::Cast(dense, storage);
      const NDArray out = Invoke(op, {&array, 1}, parameters)[0];
      EXPECT_EQ(StorageTypeOf(out), keeps ? storage : kDense) << op << scalar;
      EXPECT_EQ(out.ToVector(), expected.ToVector()) << op << scalar;
    }
  }
  const NDArray csr = sparse::Cast(dense, kCsr), rows = sparse::Cast(dense, kRows);
  const NDArray plus = Invoke("_scatter_plus_scalar", {&csr, 1}, {{"scalar", "1"}})[0];
  EXPECT_EQ(StorageTypeOf(plus), kCsr);
  EXPECT_THAT(plus.ToVector(), ElementsAre(0, 3, 0, 0, -2, 5));
  const NDArray minus = Invoke("_scatter_minus_scalar", {&rows, 1}, {{"scalar", "1"}})[0];
  EXPECT_EQ(StorageTypeOf(minus), kRows);
  EXPECT_THAT(minus.ToVector(), ElementsAre(-1, 1, 0, 0, -4, 3));
  const NDArray twos = NDArray::FromVector(std::vector<float>(6, 2), {3, 2});
  for (const StorageType storage : kStorages) {
    const NDArray inputs[] = {rows, sparse::Cast(twos, storage)};
    const NDArray quotient = Invoke("_scatter_elemwise_div", inputs)[0];
    EXPECT_EQ(StorageTypeOf(quotient), kRows);
    EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(quotient)), ElementsAre(0, 2));
    EXPECT_THAT(quotient.ToVector(), ElementsAre(0, 1, 0, 0, -1.5f, 2));
  }
}

TEST(SparseOperatorsTest, FunctionsOfOneArrayAndTheirGradients) {
  std::mt19937 random(2);
  const TShape shape{6, 5};
  const NDArray data =
      Invoke("_mul_scalar", {Pattern(shape, 0.5, &random)}, {{"scalar", "0.125"}})[0];
  const NDArray head = Pattern(shape, 0.4, &random);
  const std::vector<std::pair<std::string, ParameterMap>> calls = {
      {"abs", {}},
      {"arcsin", {}},
      {"arcsinh", {}},
      {"arctan", {}},
      {"arctanh", {}},
      {"cbrt", {}},
      {"ceil", {}},
      {"degrees", {}},
      {"expm1", {}},
      {"fix", {}},
      {"floor", {}},
      {"log1p", {}},
      {"negative", {}},
      {"radians", {}},
      {"relu", {}},
      {"rint", {}},
      {"round", {}},
      {"sign", {}},
      {"sin", {}},
      {"sinh", {}},
      {"square", {}},
      {"tan", {}},
      {"tanh", {}},
      {"trunc", {}},
      {"_contrib_round_ste", {}},
      {"_contrib_sign_ste", {}},
      {"clip", {{"a_min", "-0.25"}, {"a_max", "0.375"}}},
      {"_contrib_quadratic", {{"a", "2"}, {"b", "3"}, {"c", "0"}}},
      {"_mul_scalar", {{"scalar", "4"}}}};
  for (const auto& [op, parameters] : calls) {
    // The derivative of cbrt at 0 is infinite.
    const StorageTypes gradients = {op == "cbrt" ? StorageType::kUndefined : kDense};
    const NDArray none = NDArray();
    const Call expected(op, {data}, parameters, op == "cbrt" ? none : head, gradients);
    for (const StorageType storage : {kRows, kCsr}) {
      for (const StorageType of_head : {kDense, storage}) {
        const Call call(op, {sparse::Cast(data, storage)}, parameters,
                        op == "cbrt" ? none : sparse::Cast(head, of_head), gradients);
        ASSERT_EQ(StorageTypeOf(call.out), storage) << op;
        sparse::CheckFormat(call.out);
        ASSERT_THAT(call.out.ToVector(), Near(expected.out)) << op;
        if (op == "cbrt") continue;
        ASSERT_THAT(call.gradients[0].ToVector(), Near(expected.gradients[0]))
            << op << storage << of_head;
      }
    }
  }
  const NDArray csr = sparse::Cast(data, kCsr);
  EXPECT_EQ(StorageTypeOf(Invoke("_contrib_quadratic", {csr}, {{"c", "1"}})[0]), kDense);
}

TEST(SparseOperatorsTest, ProductsWithABroadcastArray) {
  std::mt19937 random(3);
  const TShape shape{5, 4};
  const NDArray dense = Pattern(shape, 0.4, &random), csr = sparse::Cast(dense, kCsr);
  for (const TShape& other :
       {TShape{4}, TShape{1, 4}, TShape{5, 1}, TShape{1, 1}, TShape{1}, TShape{5, 4}}) {
    const NDArray factors = Pattern(other, 1, &random);
    for (const char* const op : {"broadcast_mul", "broadcast_div"}) {
      const StorageTypes gradients(2, kDense);
      const NDArray head = Pattern(shape, 1, &random);
      const Call expected(op, {dense, factors}, {}, head, gradients);
      const Call call(op, {csr, factors}, {}, head, gradients);
      EXPECT_EQ(StorageTypeOf(call.out), kCsr) << op << other;
      sparse::CheckFormat(call.out);
      EXPECT_EQ(call.out.ToVector(), expected.out.ToVector()) << op << other;
      EXPECT_EQ(call.gradients[0].ToVector(), expected.gradients[0].ToVector()) << op << other;
      EXPECT_EQ(call.gradients[1].ToVector(), expected.gradients[1].ToVector()) << op << other;
    }
    for (const char* const op : {"broadcast_add", "broadcast_sub", "broadcast_maximum"}) {
      const NDArray sparse_inputs[] = {csr, factors}, dense_inputs[] = {dense, factors};
      const NDArray out = Invoke(op, sparse_inputs)[0];
      EXPECT_EQ(StorageTypeOf(out), kDense);
      EXPECT_EQ(out.ToVector(), Invoke(op, dense_inputs)[0].ToVector()) << op << other;
    }
  }
  // The csr array is the one that is broadcast.
  const NDArray row = sparse::Cast(NDArray::FromVector(std::vector<float>{0, 3}, {1, 2}), kCsr);
  const NDArray inputs[] = {row, NDArray::FromVector(std::vector<float>{1, 2, 3}, {3, 1})};
  const NDArray out = Invoke("broadcast_mul", inputs)[0];
  EXPECT_EQ(StorageTypeOf(out), kCsr);
  EXPECT_THAT(out.ToVector(), ElementsAre(0, 3, 0, 6, 0, 9));
}

TEST(SparseOperatorsTest, SumsAlongAxes) {
  std::mt19937 random(4);
  for (const TShape& shape : {TShape{1, 1}, TShape{9, 600}, TShape{600, 9}, TShape{0, 3}}) {
    for (const double share : {0.0, 0.3, 1.0}) {
      const NDArray dense = Pattern(shape, share, &random);
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32}) {
        const NDArray typed = dense.AsType(dtype), csr = sparse::Cast(typed, kCsr);
        for (const char* const axis : {"None", "0", "1", "-1", "(0, 1)"}) {
          for (const char* const keepdims : {"False", "True"}) {
            for (const char* const exclude : {"False", "True"}) {
              // The mean of all elements is not exact.
              for (const char* const op : {"sum", "mean"}) {
                if (shape.Size() == 0 && op == std::string("mean")) continue;
                const ParameterMap parameters = {
                    {"axis", axis}, {"keepdims", keepdims}, {"exclude", exclude}};
                const NDArray out = Invoke(op, {csr}, parameters)[0];
                const NDArray expected = Invoke(op, {typed}, parameters)[0];
                ASSERT_EQ(StorageTypeOf(out), kDense);
                ASSERT_EQ(out.shape(), expected.shape());
                ASSERT_EQ(out.dtype(), dtype);
                const std::vector<double> sums = Read(expected);
                ASSERT_THAT(Read(out), ::testing::Pointwise(::testing::DoubleNear(1e-6), sums))
                    << op << axis << keepdims << exclude << shape << share;
              }
            }
          }
        }
      }
    }
  }
  const NDArray csr =
      sparse::Cast(NDArray::FromVector(std::vector<float>{0, 1, 2, 3}, {2, 2}), kCsr);
  const NDArray sums = Vector({10, 20});
  Invoke("sum", {&csr, 1}, {&sums, 1}, {{"axis", "0"}}, kAddTo);
  EXPECT_THAT(sums.ToVector(), ElementsAre(12, 24));
  const NDArray rows = sparse::Cast(csr, kRows);
  EXPECT_THAT(Invoke("mean", {&rows, 1})[0].ToVector(), ElementsAre(1.5f));
  const NDArray cube =
      sparse::Cast(NDArray::FromVector(std::vector<float>(8, 1), {2, 2, 2}), kRows);
  EXPECT_THAT(Invoke("sum", {&cube, 1}, {{"axis", "(1, 2)"}})[0].ToVector(), ElementsAre(4, 4));
}

TEST(SparseOperatorsTest, SumsOfSquaresOfRows) {
  std::mt19937 random(5);
  const TShape shape{7, 300};
  for (const double share : {0.0, 0.002, 0.5}) {
    const NDArray dense = Pattern(shape, share, &random), rows = sparse::Cast(dense, kRows);
    for (const char* const axis : {"0", "1", "-1", "(0, 1)", "()"}) {
      for (const char* const keepdims : {"False", "True"}) {
        const ParameterMap parameters = {{"axis", axis}, {"keepdims", keepdims}};
        const NDArray squares = Invoke("_square_sum", {dense}, parameters)[0];
        const bool keeps = axis[axis[0] == '-' ? 1 : 0] == '1' && keepdims == std::string("True");
        const NDArray head = Pattern(squares.shape(), 0.7, &random);
        const Call expected("_square_sum", {dense}, parameters, head, {kDense});
        for (const StorageType of_head : {kDense, keeps ? kRows : kDense}) {
          const Call call("_square_sum", {rows}, parameters, sparse::Cast(head, of_head), {kRows});
          EXPECT_EQ(StorageTypeOf(call.out), keeps ? kRows : kDense) << axis << keepdims;
          EXPECT_EQ(call.out.ToVector(), expected.out.ToVector()) << axis << keepdims << share;
          EXPECT_EQ(call.gradients[0].ToVector(), expected.gradients[0].ToVector())
              << axis << keepdims << share << of_head;
        }
      }
    }
  }
  const NDArray cube = sparse::Cast(
      NDArray::FromVector(std::vector<float>{0, 0, 0, 0, 1, 2, 3, 4}, {2, 2, 2}), kRows);
  const Call call("_square_sum", {cube}, {{"axis", "2"}}, Pattern({2, 2}, 1, &random), {kRows});
  EXPECT_THAT(call.out.ToVector(), ElementsAre(0, 0, 5, 25));
}

TEST(SparseOperatorsTest, RowsOfSeveralMatricesBecomeOne) {
  std::mt19937 random(6);
  const NDArray a = Pattern({3, 4}, 0.4, &random), b = Pattern({1, 4}, 0, &random),
                c = Pattern({5, 4}, 1, &random);
  const std::vector<NDArray> parts = {sparse::Cast(a, kCsr), sparse::Cast(b, kCsr),
                                      sparse::Cast(c, kCsr)};
  for (const char* const dim : {"0", "-2"}) {
    const ParameterMap parameters = {{"num_args", "3"}, {"dim", dim}};
    const NDArray whole = Invoke("Concat", parts, parameters)[0];
    EXPECT_EQ(StorageTypeOf(whole), kCsr);
    sparse::CheckFormat(whole);
    EXPECT_EQ(whole.ToVector(), Invoke("Concat", {a, b, c}, parameters)[0].ToVector());
  }
  const NDArray columns = Invoke("Concat", {parts[0], parts[0]}, {{"num_args", "2"}})[0];
  EXPECT_EQ(StorageTypeOf(columns), kDense);
  EXPECT_EQ(columns.shape(), (TShape{3, 8}));
}

TEST(SparseOperatorsTest, ACsrConditionChooses) {
  std::mt19937 random(7);
  for (const TShape& shape : {TShape{6, 5}, TShape{0, 3}, TShape{2, 0}}) {
    for (const double share : {0.0, 0.4, 1.0}) {
      const NDArray condition = Pattern(shape, share, &random);
      const NDArray x = Pattern(shape, 1, &random), y = Pattern(shape, 1, &random);
      const NDArray head = Pattern(shape, 1, &random);
      const StorageTypes gradients = {StorageType::kUndefined, kDense, kDense};
      const Call expected("where", {condition, x, y}, {}, head, gradients);
      const Call call("where", {sparse::Cast(condition, kCsr), x, y}, {}, head, gradients);
      EXPECT_EQ(StorageTypeOf(call.out), kDense);
      EXPECT_EQ(call.out.ToVector(), expected.out.ToVector());
      EXPECT_EQ(call.gradients[1].ToVector(), expected.gradients[1].ToVector());
      EXPECT_EQ(call.gradients[2].ToVector(), expected.gradients[2].ToVector());
    }
  }
  // A stored 0 is false, and sums add what is chosen.
  const NDArray condition = sparse::FromCsr(Vector({0, 1}), Vector({0, 2}), Vector({0, 1}), {1, 3});
  const NDArray inputs[] = {condition, NDArray::FromVector(std::vector<float>{1, 2, 3}, {1, 3}),
                            NDArray::FromVector(std::vector<float>{4, 5, 6}, {1, 3})};
  const NDArray out = NDArray::FromVector(std::vector<float>{10, 10, 10}, {1, 3});
  Invoke("where", inputs, {&out, 1}, {}, kAddTo);
  EXPECT_THAT(out.ToVector(), ElementsAre(14, 12, 16));
}

TEST(SparseOperatorsTest, EdgesOfAGraph) {
  const NDArray csr =
      sparse::FromCsr(Vector({7, 0, 9}), Vector({0, 2, 2, 3}), Vector({1, 3, 0}), {3, 4});
  const NDArray ids =
      Invoke("_contrib_edge_id", {csr, Vector({0, 0, 0, 1, 2}), Vector({1, 2, 3, 3, 0})})[0];
  EXPECT_THAT(ids.ToVector(), ElementsAre(7, -1, 0, -1, 9));
  const NDArray outside = Invoke("_contrib_edge_id", {csr, Vector({3}), Vector({0})})[0];
  try {
    outside.WaitToRead();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("3"));
  }
}

TEST(SparseOperatorsTest, ABiasOfRowsIsAColumn) {
  const NDArray data = NDArray::FromVector(std::vector<float>{1, 0, 2, 3}, {2, 2});
  const NDArray weight = NDArray::FromVector(std::vector<float>{1, 1, 0, 2, 3, 0}, {3, 2});
  const NDArray bias = sparse::FromRows(NDArray::FromVector(std::vector<float>{10, 20}, {2, 1}),
                                        Vector({0, 2}), {3, 1});
  const ParameterMap parameters = {{"num_hidden", "3"}};
  const NDArray head = NDArray::FromVector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Call call("FullyConnected", {sparse::Cast(data, kCsr), sparse::Cast(weight, kRows), bias},
                  parameters, head, {kDense, kDense, kRows});
  EXPECT_THAT(call.out.ToVector(), ElementsAre(11, 0, 23, 15, 6, 26));
  EXPECT_THAT(call.gradients[1].ToVector(), ElementsAre(9, 12, 12, 15, 15, 18));
  EXPECT_THAT(call.gradients[2].ToVector(), ElementsAre(5, 7, 9));
}

TEST(SparseOperatorsTest, BatchNormWithSparseArraysNeedsGamma) {
  const NDArray data =
      sparse::Cast(NDArray::FromVector(std::vector<float>{1, 0, 2, 0}, {4, 1}), kRows);
  const NDArray one = Vector({1}), zero = Vector({0});
  const std::vector<NDArray> inputs = {data, one, zero, zero.Copy(Device::Cpu()),
                                       one.Copy(Device::Cpu())};
  const NDArray out = Invoke("BatchNorm", inputs, {{"fix_gamma", "False"}, {"eps", "0.001"}})[0];
  EXPECT_EQ(StorageTypeOf(out), kDense);
  try {
    Invoke("BatchNorm", inputs);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("data is a row_sparse array"));
  }
}

TEST(SparseOperatorsTest, ColumnsThatAreWrittenInAnyOrderAreSorted) {
  using ndarray_internal::SparsePart;
  using ndarray_internal::WritePart;
  const NDArray csr =
      ndarray_internal::SparseWithRoom(kCsr, {2, 3}, Device::Cpu(), DType::kFloat32, /*count=*/4);
  WritePart(csr, SparsePart::kValues, Vector({1, 2, 3, 4}));
  WritePart(csr, SparsePart::kIndPtr, Vector({0, 3, 4}));
  WritePart(csr, SparsePart::kIndices, Vector({2, 0, 1, 1}));
  EXPECT_THROW(sparse::CheckFormat(csr), Error);
  const NDArray doubled = Invoke("_mul_scalar", {csr}, {{"scalar", "2"}})[0];
  sparse::CheckFormat(doubled);
  EXPECT_THAT(doubled.ToVector(), ElementsAre(4, 6, 2, 0, 8, 0));
  // The array itself stays what was written, whatever reads it.
  EXPECT_THAT(ReadAs<int64_t>(sparse::Indices(csr)), ElementsAre(2, 0, 1, 1));
  WritePart(csr, SparsePart::kIndices, Vector({2, 1, 0, 0}));
  EXPECT_THAT(csr.ToVector(), ElementsAre(3, 2, 1, 4, 0, 0));
  // Two elements in one place are an error.
  WritePart(csr, SparsePart::kIndices, Vector({2, 0, 2, 1}));
  EXPECT_THROW(csr.ToVector(), Error);
}

TEST(SparseOperatorsTest, NothingOfTheWholeShapeIsMade) {
  // A dense matrix would take 8 TiB.
  constexpr index_t kColumns = index_t{1} << 40;
  const NDArray columns = Vector({7, 1 << 24, 7}).AsType(DType::kInt64);
  const NDArray a = sparse::FromCsr(Vector({1, 2, 3}), Vector({0, 2, 3}), columns, {2, kColumns});
  const NDArray b =
      sparse::FromCsr(Vector({5, 6}), Vector({0, 1, 2}), Vector({7, 8}), {2, kColumns});
  EXPECT_THAT(Read(sparse::Values(Invoke("elemwise_sub", {a, b})[0])), ElementsAre(-4, 2, 3, -6));
  EXPECT_THAT(Read(sparse::Values(Invoke("elemwise_mul", {a, b})[0])), ElementsAre(5));
  const NDArray factors = NDArray::FromVector(std::vector<float>{10, 100}, {2, 1});
  EXPECT_THAT(Read(sparse::Values(Invoke("broadcast_mul", {a, factors})[0])),
              ElementsAre(10, 20, 300));
  EXPECT_THAT(Read(Invoke("sum", {a}, {{"axis", "1"}})[0]), ElementsAre(3, 3));
  const NDArray rows = Invoke("Concat", {a, b}, {{"num_args", "2"}, {"dim", "0"}})[0];
  EXPECT_THAT(ReadAs<int64_t>(sparse::IndPtr(rows)), ElementsAre(0, 2, 3, 4, 5));
}

TEST(SparseOperatorsTest, WhatKeepsElementsKeepsStorage) {
  const NDArray dense = NDArray::FromVector(std::vector<float>{0, 1, 2, 0}, {2, 2});
  for (const StorageType storage : {kRows, kCsr}) {
    const NDArray array = sparse::Cast(dense, storage);
    const NDArray same = Invoke("BlockGrad", {&array, 1})[0];
    EXPECT_EQ(StorageTypeOf(same), storage);
    EXPECT_EQ(same.ToVector(), dense.ToVector());
  }
}

TEST(SparseOperatorsTest, ALossKeepsStorageAndHasAGradientOfOnes) {
  const NDArray dense = NDArray::FromVector(std::vector<float>{0, 1, 2, 0}, {2, 2});
  for (const StorageType storage : {kRows, kCsr}) {
    const NDArray array = sparse::Cast(dense, storage), gradient({2, 2});
    const OpReqType req = kWriteTo;
    autograd::MarkVariables({&array, 1}, {&gradient, 1}, {&req, 1});
    NDArray loss;
    {
      const autograd::Record record;
      loss = Invoke("make_loss", {&array, 1})[0];
    }
    EXPECT_EQ(StorageTypeOf(loss), storage);
    EXPECT_EQ(loss.ToVector(), dense.ToVector());
    loss.Backward();
    EXPECT_THAT(gradient.ToVector(), ElementsAre(1, 1, 1, 1));
  }
}

}  // namespace
}  // namespace tessera
