// Executors of graphs with sparse arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using base_testing::MessageOf;
using ndarray_testing::Read;
using ndarray_testing::Vector;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr StorageType kDense = StorageType::kDefault;
constexpr StorageType kRows = StorageType::kRowSparse;
constexpr StorageType kCsr = StorageType::kCsr;

NDArray Matrix(const std::vector<float>& elements, const TShape& shape) {
  return NDArray::FromVector(elements, shape);
}

/// Rows of a weight (5, 2), whose gradient is row_sparse.
Symbol Lookup() {
  return Symbol::Apply("Embedding", {Symbol::Variable("data"), Symbol::Variable("weight")},
                       {{"input_dim", "5"}, {"output_dim", "2"}, {"sparse_grad", "True"}}, "rows");
}

TEST(SparseExecutorTest, AGradientStoresTheRowsOfTheBatch) {
  const auto executor = SimpleBind(Lookup() * 3.0, Device::Cpu(),
                                   {.shapes = {{"data", {3}}}, .no_gradient = {"data"}});
  NDArray weight = executor->arg_dict()["weight"];
  const NDArray gradient = executor->grad_dict()["weight"];
  EXPECT_EQ(StorageTypeOf(weight), kDense);
  EXPECT_EQ(StorageTypeOf(gradient), kRows);
  weight = 2;
  const NDArray head = Matrix({1, 2, 10, 20, 100, 200}, {3, 2});
  CopyFromTo(Vector({4, 1, 4}), executor->arg_dict()["data"]);
  executor->Forward(true);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(6, 6, 6, 6, 6, 6));
  executor->Backward({head});
  EXPECT_THAT(Read(sparse::Indices(gradient)), ElementsAre(1, 4));
  EXPECT_THAT(sparse::Values(gradient).ToVector(), ElementsAre(30, 60, 303, 606));

  // The next batch's rows replace those of this one.
  CopyFromTo(Vector({0, 0, 0}), executor->arg_dict()["data"]);
  executor->Forward(true);
  executor->Backward({head});
  EXPECT_THAT(Read(sparse::Indices(gradient)), ElementsAre(0));
  EXPECT_THAT(sparse::Values(gradient).ToVector(), ElementsAre(333, 666));
}

TEST(SparseExecutorTest, GradientsAreStoredAsTheOutputs) {
  const Symbol twice = Symbol::Variable("data") * 2.0;
  for (const StorageType type : {kDense, kRows, kCsr}) {
    const auto executor = SimpleBind(
        twice, Device::Cpu(), {.shapes = {{"data", {2, 3}}}, .storage_types = {{"data", type}}});
    const NDArray gradient = executor->grad_dict()["data"];
    ASSERT_EQ(StorageTypeOf(gradient), type);
    executor->Forward(true);
    const NDArray head = Matrix({0, 2, 0, 0, 0, 0}, {2, 3});
    executor->Backward({head});
    EXPECT_THAT(gradient.ToVector(), ElementsAre(0, 4, 0, 0, 0, 0));
    executor->Forward(true);
    executor->Backward({sparse::Cast(head, type)});
    EXPECT_THAT(gradient.ToVector(), ElementsAre(0, 4, 0, 0, 0, 0));
  }
}

TEST(SparseExecutorTest, RequestsAddRows) {
  const auto executor =
      SimpleBind(Lookup(), Device::Cpu(),
                 {.shapes = {{"data", {1}}}, .grad_req = kAddTo, .no_gradient = {"data"}});
  for (const float row : {3.0f, 1.0f, 3.0f}) {
    CopyFromTo(Vector({row}), executor->arg_dict()["data"]);
    executor->Forward(true);
    executor->Backward({Matrix({1, 2}, {1, 2})});
  }
  const NDArray gradient = executor->grad_dict()["weight"];
  EXPECT_THAT(Read(sparse::Indices(gradient)), ElementsAre(1, 3));
  EXPECT_THAT(sparse::Values(gradient).ToVector(), ElementsAre(1, 2, 2, 4));
}

TEST(SparseExecutorTest, GivenArraysKeepTheirStorage) {
  const Symbol data = Symbol::Variable("data");
  const Symbol square = Symbol::Apply("square", {data}, {}, "square");
  const Symbol dense = Symbol::Apply("exp", {square}, {}, "exp");
  const NDArray csr = sparse::Cast(Matrix({0, 2, 0, 0, 0, 3}, {2, 3}), kCsr);
  const NDArray gradient = NDArray({2, 3});
  const auto executor = Bind(Symbol::CreateGroup({square, dense, data}), Device::Cpu(),
                             {.arguments = {csr}, .gradients = {gradient}});
  executor->Forward(true);
  const std::vector<NDArray>& outputs = executor->outputs();
  EXPECT_EQ(StorageTypeOf(outputs[0]), kCsr);
  EXPECT_THAT(outputs[0].ToVector(), ElementsAre(0, 4, 0, 0, 0, 9));
  EXPECT_EQ(StorageTypeOf(outputs[1]), kDense);
  EXPECT_EQ(outputs[1].ToVector()[0], 1);
  EXPECT_EQ(StorageTypeOf(outputs[2]), kCsr);
  // 2 data d square + d data
  executor->Backward({Matrix({1, 1, 1, 1, 1, 1}, {2, 3}), Matrix({0, 0, 0, 0, 0, 0}, {2, 3}),
                      Matrix({5, 5, 5, 5, 5, 5}, {2, 3})});
  EXPECT_THAT(gradient.ToVector(), ElementsAre(5, 9, 5, 5, 5, 11));
}

TEST(SparseExecutorTest, ACsrOutputThatIsNoMatrixIsDense) {
  const Symbol product = Symbol::Apply(
      "broadcast_mul", {Symbol::Variable("data"), Symbol::Variable("factors")}, {}, "product");
  const NDArray csr = sparse::Cast(Matrix({0, 2, 3, 0}, {2, 2}), kCsr);
  for (const TShape& shape : {TShape{2, 1}, TShape{1, 2, 1}}) {
    const auto executor =
        Bind(product, Device::Cpu(), {.arguments = {csr, Matrix({1, 10}, shape)}});
    executor->Forward(false);
    EXPECT_EQ(StorageTypeOf(executor->outputs()[0]), shape.ndim() == 2 ? kCsr : kDense);
    EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(0, 2, 30, 0));
  }
}

TEST(SparseExecutorTest, AnArgumentThatNothingDependsOnHasGradientZero) {
  const Symbol blocked = Symbol::Apply("BlockGrad", {Symbol::Variable("x")}, {}, "block");
  const NDArray rows = sparse::FromRows(Matrix({1, 2}, {1, 2}), Vector({1}), {3, 2});
  const NDArray gradient = sparse::FromRows(Matrix({7, 7}, {1, 2}), Vector({2}), {3, 2});
  const auto executor =
      Bind(blocked, Device::Cpu(), {.arguments = {rows}, .gradients = {gradient}});
  executor->Forward(true);
  executor->Backward({Matrix({1, 1, 1, 1, 1, 1}, {3, 2})});
  EXPECT_EQ(sparse::Count(gradient), 0);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(0, 0, 1, 2, 0, 0));
}

TEST(SparseExecutorTest, OptionsAndAttributesGiveStorage) {
  const Symbol a = Symbol::Variable("a", {{"__storage_type__", "2"}});
  const Symbol sum = Symbol::Apply("elemwise_add", {a, Symbol::Variable("b")}, {}, "sum");
  const auto executor =
      SimpleBind(sum, Device::Cpu(), {.shapes = {{"a", {2, 2}}}, .storage_types = {{"b", kCsr}}});
  EXPECT_EQ(StorageTypeOf(executor->arg_dict()["a"]), kCsr);
  EXPECT_EQ(StorageTypeOf(executor->arg_dict()["b"]), kCsr);
  EXPECT_EQ(StorageTypeOf(executor->outputs()[0]), kCsr);
  // The caller's wish comes first.
  const auto dense =
      SimpleBind(sum, Device::Cpu(), {.shapes = {{"a", {2, 2}}}, .storage_types = {{"a", kDense}}});
  EXPECT_EQ(StorageTypeOf(dense->arg_dict()["a"]), kDense);

  EXPECT_THAT(
      MessageOf([&] {
        SimpleBind(sum, Device::Cpu(), {.shapes = {{"a", {2, 2}}}, .storage_types = {{"c", kCsr}}});
      }),
      AllOf(HasSubstr("csr"), HasSubstr("\"c\"")));
  const Symbol wrong = Symbol::Variable("w", {{"__storage_type__", "rows"}}) * 2.0;
  EXPECT_THAT(MessageOf([&] {
                SimpleBind(wrong, Device::Cpu(), {.shapes = {{"w", {2, 2}}}});
              }),
              AllOf(HasSubstr("\"w\""), HasSubstr("rows")));
}

TEST(SparseExecutorTest, ReshapeSharesSparseArraysOfTheSameShape) {
  const auto first =
      SimpleBind(Lookup(), Device::Cpu(), {.shapes = {{"data", {2}}}, .no_gradient = {"data"}});
  const auto second = first->Reshape({.shapes = {{"data", {1}}}});
  EXPECT_EQ(second->outputs()[0].shape(), (TShape{1, 2}));
  CopyFromTo(Vector({2}), second->arg_dict()["data"]);
  second->Forward(true);
  second->Backward({Matrix({4, 5}, {1, 2})});
  EXPECT_THAT(Read(sparse::Indices(first->grad_dict()["weight"])), ElementsAre(2));
}

TEST(SparseExecutorTest, AMonitorSeesResults) {
  const auto executor = SimpleBind(Lookup() * 3.0, Device::Cpu(),
                                   {.shapes = {{"data", {1}}}, .no_gradient = {"data"}});
  std::vector<std::string> names;
  executor->SetMonitorCallback(
      [&names](const std::string& name, const NDArray&) { names.push_back(name); });
  executor->Forward(false);
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0], "rows_output");
  executor->SetMonitorCallback(nullptr);
  executor->Forward(false);
  EXPECT_EQ(names.size(), 2u);
}

TEST(SparseExecutorTest, SaysWhatItCannotDo) {
  const auto executor =
      SimpleBind(Lookup(), Device::Cpu(), {.shapes = {{"data", {1}}}, .no_gradient = {"data"}});
  EXPECT_THAT(MessageOf([&] { executor->PartialForward(false, 0); }), HasSubstr("sparse"));
  EXPECT_THAT(MessageOf([&] { executor->Backward(); }), HasSubstr("call Forward first"));
  EXPECT_EQ(executor->memory_plan().planned_bytes, 0);
  EXPECT_THAT(MessageOf([&] {
                SimpleBind(Lookup(), Device::Cpu(),
                           {.shapes = {{"data", {1}}},
                            .no_gradient = {"data"},
                            .group2ctx = {{"group", Device::Cpu()}}});
              }),
              HasSubstr("group2ctx"));
}

}  // namespace
}  // namespace tessera
