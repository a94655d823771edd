#include "tessera/graph/infer_storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/node.h"
#include "tessera/graph/testing/evaluate.h"
#include "tessera/ops/sparse.h"

namespace tessera::graph {
namespace {

using graph_testing::Apply;

constexpr StorageType kUnknown = StorageType::kUndefined;
constexpr StorageType kDense = StorageType::kDefault;
constexpr StorageType kRows = StorageType::kRowSparse;
constexpr StorageType kCsr = StorageType::kCsr;

/// The storage types of a graph, and the numbers of its entries.
struct Inferred {
  Inferred(const std::vector<NodeEntry>& heads, const std::map<std::string, StorageType>& known)
      : graph(heads), storage(InferStorage(graph, known)) {}

  StorageType Of(const NodeEntry& entry) const {
    return storage.entries[static_cast<size_t>(graph.EntryId(entry))];
  }
  StorageType GradientOf(const NodeEntry& entry) const {
    return storage.gradients[static_cast<size_t>(graph.EntryId(entry))];
  }

  IndexedGraph graph;
  GraphStorage storage;
};

NodeEntry Lookup(const std::string& name, const NodeEntry& indices, const NodeEntry& weight,
                 const std::string& sparse_grad) {
  return Apply("Embedding", name, {indices, weight},
               {{"input_dim", "10"}, {"output_dim", "2"}, {"sparse_grad", sparse_grad}});
}

TEST(InferStorageTest, OperatorsKeepConvertAndDensify) {
  const NodeEntry data = MakeVariable("data");
  const NodeEntry square = Apply("square", "square", {data});
  const NodeEntry dense = Apply("exp", "exp", {square});
  const NodeEntry rows = Apply("cast_storage", "cast", {dense}, {{"stype", "row_sparse"}});
  const Inferred csr({rows}, {{"data", kCsr}, {"other", kRows}});
  EXPECT_EQ(csr.Of(data), kCsr);
  EXPECT_EQ(csr.Of(square), kCsr);
  EXPECT_EQ(csr.Of(dense), kDense);
  EXPECT_EQ(csr.Of(rows), kRows);
  EXPECT_TRUE(csr.storage.HasSparseEntry());
  EXPECT_EQ(csr.GradientOf(data), kDense);

  const Inferred none({dense}, {});
  EXPECT_EQ(none.Of(square), kDense);
  EXPECT_FALSE(none.storage.HasSparseEntry());
}

TEST(InferStorageTest, GradientsAreSparseWhereAllOfTheirSummandsAre) {
  const NodeEntry indices = MakeVariable("indices"), weight = MakeVariable("weight");
  const NodeEntry one = Lookup("one", indices, weight, "True");
  const NodeEntry other = Lookup("other", indices, weight, "True");
  const NodeEntry dense = Lookup("dense", indices, weight, "False");
  const Inferred rows({Apply("elemwise_mul", "product", {one, other})}, {});
  EXPECT_EQ(rows.GradientOf(weight), kRows);
  EXPECT_EQ(rows.GradientOf(indices), kDense);
  EXPECT_EQ(rows.GradientOf(one), kDense);
  EXPECT_FALSE(rows.storage.HasSparseEntry());

  const Inferred mixed({one, dense}, {});
  EXPECT_EQ(mixed.GradientOf(weight), kDense);
  const Inferred unused({weight, one}, {});
  EXPECT_EQ(unused.GradientOf(weight), kDense);
}

TEST(InferStorageTest, ADenseWeightHasADenseGradient) {
  const NodeEntry data = MakeVariable("data"), weight = MakeVariable("weight");
  const NodeEntry product = Apply("elemwise_mul", "product", {data, weight});
  const NodeEntry total = Apply("sum", "total", {product}, {{"axis", "1"}});
  const Inferred csr({total}, {{"data", kCsr}});
  EXPECT_EQ(csr.Of(product), kCsr);
  EXPECT_EQ(csr.Of(total), kDense);
  EXPECT_EQ(csr.GradientOf(data), kDense);
  EXPECT_EQ(csr.GradientOf(weight), kDense);
}

TEST(InferStorageTest, TheGradientOfAHeadIsStoredAsTheHead) {
  const NodeEntry data = MakeVariable("data");
  const NodeEntry twice = Apply("_mul_scalar", "twice", {data}, {{"scalar", "2"}});
  const NodeEntry total = Apply("sum", "total", {data}, {{"axis", "1"}});
  for (const StorageType type : {kDense, kRows, kCsr}) {
    EXPECT_EQ(Inferred({twice}, {{"data", type}}).GradientOf(data), type);
    EXPECT_EQ(Inferred({data}, {{"data", type}}).GradientOf(data), type);
    EXPECT_EQ(Inferred({twice, total}, {{"data", type}}).GradientOf(data), kDense);
  }
}

TEST(InferStorageTest, WhatNoHeadDependsOnHasNoGradient) {
  const NodeEntry data = MakeVariable("data");
  const NodeEntry parts = Apply("SliceChannel", "parts", {data}, {{"num_outputs", "2"}});
  const NodeEntry other = {parts.node, 1};
  const Inferred inferred({Apply("square", "square", {parts})}, {});
  EXPECT_EQ(inferred.GradientOf(parts), kDense);
  EXPECT_EQ(inferred.GradientOf(other), kUnknown);
  EXPECT_EQ(inferred.GradientOf(data), kDense);
}

}  // namespace
}  // namespace tessera::graph
