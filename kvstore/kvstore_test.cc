#include "tessera/kvstore/kvstore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using ndarray_testing::Vector;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> Pulled(KVStore* store, const KVKey& key, const TShape& shape = {2}) {
  NDArray out(shape);
  store->Pull(key, out);
  return out.ToVector();
}

class KVStoreTest : public testing::Test {
 protected:
  std::unique_ptr<KVStore> store_ = KVStore::Create("local");
};

TEST_F(KVStoreTest, PullGivesTheInitialValue) {
  NDArray value = Vector({1, 2});
  store_->Init(3, value);
  value = 0.0f;  // the store has a copy
  EXPECT_THAT(Pulled(store_.get(), 3), ElementsAre(1, 2));
}

TEST_F(KVStoreTest, IntegersAndStringsAreKeys) {
  store_->Init(1, Vector({1, 1}));
  store_->Init("1", Vector({2, 2}));
  EXPECT_THAT(Pulled(store_.get(), 1), ElementsAre(1, 1));
  EXPECT_THAT(Pulled(store_.get(), "1"), ElementsAre(2, 2));
}

TEST_F(KVStoreTest, WithoutAnUpdaterPullGivesTheSumOfThePushedValues) {
  store_->Init("w", Vector({9, 9}));
  store_->Push("w", {Vector({1, 2}), Vector({10, 20}), Vector({100, 200})});
  EXPECT_THAT(Pulled(store_.get(), "w"), ElementsAre(111, 222));
  store_->Push("w", Vector({5, 6}));
  EXPECT_THAT(Pulled(store_.get(), "w"), ElementsAre(5, 6));
}

TEST_F(KVStoreTest, CompressedGradientsSendTheirRestsLater) {
  store_->CompressGradients(0.5f);
  store_->Init("w", Vector({0, 0, 0, 0, 0}));
  const NDArray value = Vector({0.25f, 0.5f, -0.75f, 1.5f, -0.125f});
  store_->Push("w", value);
  EXPECT_THAT(Pulled(store_.get(), "w", {5}), ElementsAre(0, 0.5f, -0.5f, 0.5f, 0));
  store_->Push("w", value);
  EXPECT_THAT(Pulled(store_.get(), "w", {5}), ElementsAre(0.5f, 0.5f, -0.5f, 0.5f, 0));
  // The second value has a rest of its own, and the first goes on with 0, 0, -0.5, 2, -0.25.
  store_->Push("w", {Vector({0, 0, 0, 0, -0.25f}), Vector({0.5f, -0.375f, 0, 0, -2})});
  EXPECT_THAT(Pulled(store_.get(), "w", {5}), ElementsAre(0.5f, 0, -0.5f, 0.5f, -1));
  // Each key has rests of its own.
  store_->Init("v", Vector({0, 0}));
  store_->Push("v", Vector({0.25f, 0.75f}));
  EXPECT_THAT(Pulled(store_.get(), "v"), ElementsAre(0, 0.5f));
}

TEST_F(KVStoreTest, CompressionTakesFloat32AndAThresholdAbove0) {
  for (const float threshold : {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const Error error = ErrorOf([&] { store_->CompressGradients(threshold); });
    EXPECT_EQ(error.code(), Error::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("threshold"));
  }
  const NDArray value = Vector({1, 2}).AsType(DType::kFloat64);
  store_->Init("w", value);
  store_->CompressGradients(1);
  const Error error = ErrorOf([&] { store_->Push("w", value); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("float64"), HasSubstr("float32")));
}

TEST_F(KVStoreTest, SumsInTheOrderOfTheValues) {
  store_->Init("w", Vector({0}));
  // From the left the small ones are lost; in any other order they would not be.
  store_->Push("w", {Vector({1e8f}), Vector({3.0f}), Vector({3.0f}), Vector({-1e8f})});
  EXPECT_THAT(Pulled(store_.get(), "w", {1}), ElementsAre(((1e8f + 3.0f) + 3.0f) - 1e8f));
}

// Halves from 2048 to 4096 have a unit of 2: added one by one the ones would be lost.
TEST_F(KVStoreTest, SixteenBitValuesAreAddedInFloatAndRoundedOnce) {
  const NDArray large = Vector({2048}).AsType(DType::kFloat16);
  const NDArray one = Vector({1}).AsType(DType::kFloat16);
  store_->Init("w", large);
  store_->Push("w", {large, one, one, one});
  NDArray sum({1}, Device::Cpu(), DType::kFloat16);
  store_->Pull("w", sum);
  EXPECT_THAT(sum.ToVector(), ElementsAre(2052));
}

TEST_F(KVStoreTest, TheUpdaterSeesKeySumAndStoredValue) {
  store_->set_updater([](const KVKey& key, const NDArray& received, const NDArray& stored) {
    EXPECT_EQ(std::get<std::string>(key), "w");
    NDArray target = stored;
    target -= received * 0.5f;
  });
  store_->Init("w", Vector({10, 20}));
  for (int i = 0; i < 3; ++i) store_->Push("w", {Vector({2, 2}), Vector({0, 2})});
  EXPECT_THAT(Pulled(store_.get(), "w"), ElementsAre(7, 14));
  store_->set_updater(nullptr);
  store_->Push("w", Vector({1, 1}));
  EXPECT_THAT(Pulled(store_.get(), "w"), ElementsAre(1, 1));
}

TEST_F(KVStoreTest, PullsIntoSeveralArrays) {
  store_->Init(0, Vector({4, 5}));
  NDArray a({2}), b({2});
  store_->Pull(0, {a, b});
  EXPECT_THAT(a.ToVector(), ElementsAre(4, 5));
  EXPECT_THAT(b.ToVector(), ElementsAre(4, 5));
}

TEST_F(KVStoreTest, PushesFromSeveralThreadsAllCount) {
  store_->set_updater([](const KVKey&, const NDArray& received, const NDArray& stored) {
    NDArray target = stored;
    target += received;
  });
  store_->Init(0, Vector({0, 0}));
  constexpr int kThreads = 4, kPushes = 50;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < kPushes; ++i) store_->Push(0, {Vector({1, 2}), Vector({1, 0})});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Pulled(store_.get(), 0), ElementsAre(2 * kThreads * kPushes, 2 * kThreads * kPushes));
}

TEST_F(KVStoreTest, TheUpdaterMayCallTheStore) {
  store_->Init("a", Vector({1, 1}));
  store_->Init("b", Vector({10, 20}));
  int depth = 0;
  store_->set_updater([&](const KVKey& key, const NDArray& received, const NDArray& stored) {
    NDArray target = stored;
    target += received;
    if (++depth > 1) return;
    NDArray own({2}), other({2});
    store_->Pull(key, own);         // the new value
    store_->Push("b", {own, own});  // another key, and a sum inside a call
    store_->Pull("b", other);
    store_->Push(key, other);  // the key that is being updated
  });
  store_->Push("a", {Vector({1, 2}), Vector({1, 2})});
  EXPECT_EQ(depth, 3);
  EXPECT_THAT(Pulled(store_.get(), "b"), ElementsAre(16, 30));
  EXPECT_THAT(Pulled(store_.get(), "a"), ElementsAre(19, 35));
}

TEST_F(KVStoreTest, UpdatersThatPushEachOthersKeysDoNotWaitForEachOther) {
  store_->Init(0, Vector({0, 0}));
  store_->Init(1, Vector({0, 0}));
  std::barrier<> both(2);
  store_->set_updater([&](const KVKey& key, const NDArray& received, const NDArray& stored) {
    NDArray target = stored;
    target += received;
    thread_local bool is_inside = false;
    if (is_inside) return;
    is_inside = true;
    both.arrive_and_wait();  // each thread is in the call of its key
    store_->Push(1 - std::get<int>(key), received);
  });
  std::thread first([this] { store_->Push(0, Vector({1, 2})); });
  std::thread second([this] { store_->Push(1, Vector({3, 4})); });
  first.join();
  second.join();
  EXPECT_THAT(Pulled(store_.get(), 0), ElementsAre(4, 6));
  EXPECT_THAT(Pulled(store_.get(), 1), ElementsAre(4, 6));
}

TEST_F(KVStoreTest, OneWorkerNeverWaitsForOthers) {
  EXPECT_EQ(store_->type(), "local");
  EXPECT_EQ(store_->rank(), 0);
  EXPECT_EQ(store_->num_workers(), 1);
  store_->Barrier();
}

TEST_F(KVStoreTest, AnUnknownTypeListsTheKnownOnes) {
  const Error error = ErrorOf([] { KVStore::Create("nearby"); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("'nearby'"), HasSubstr("local, device")));
}

TEST_F(KVStoreTest, DeviceIsAnotherNameOfLocal) {
  EXPECT_EQ(KVStore::Create("device")->type(), "local");
}

TEST_F(KVStoreTest, WithoutMpiTheErrorSaysWhatToInstall) {
  setenv("TESSERA_MPI_LIBRARY", "/nowhere/libtessera_mpi.so", /*overwrite=*/1);
  for (const char* const type : {"dist_sync", "dist_device_sync"}) {
    const Error error = ErrorOf([type] { KVStore::Create(type); });
    EXPECT_EQ(error.code(), Error::kNotFound);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("/nowhere/libtessera_mpi.so"),
                      HasSubstr("apt-get install openmpi-bin"), HasSubstr("TESSERA_MPI_LIBRARY")));
  }
  unsetenv("TESSERA_MPI_LIBRARY");
}

TEST_F(KVStoreTest, AKeyIsInitializedOnceAndBeforeItsUse) {
  store_->Init("w", Vector({1, 2}));
  const Error twice = ErrorOf([this] { store_->Init("w", Vector({3, 4})); });
  EXPECT_EQ(twice.code(), Error::kFailedPrecondition);
  EXPECT_THAT(twice.what(), HasSubstr("key w"));
  EXPECT_THAT(Pulled(store_.get(), "w"), ElementsAre(1, 2));
  const Error push = ErrorOf([this] { store_->Push(7, Vector({1})); });
  EXPECT_EQ(push.code(), Error::kNotFound);
  EXPECT_THAT(push.what(), HasSubstr("unknown key 7"));
  EXPECT_EQ(ErrorOf([this] { Pulled(store_.get(), "v"); }).code(), Error::kNotFound);
}

TEST_F(KVStoreTest, ShapesAndTypesThatDoNotFitAreRefused) {
  store_->Init("w", Vector({1, 2}));
  const Error shape = ErrorOf([this] { store_->Push("w", {Vector({1, 1}), Vector({1, 2, 3})}); });
  EXPECT_EQ(shape.code(), Error::kInvalidArgument);
  EXPECT_THAT(shape.what(), AllOf(HasSubstr("key w"), HasSubstr("(3,)"), HasSubstr("(2,)")));
  const NDArray doubles({2}, Device::Cpu(), DType::kFloat64);
  EXPECT_THAT(ErrorOf([&] { store_->Pull("w", doubles); }).what(), HasSubstr("float64"));
  EXPECT_THAT(ErrorOf([this] { store_->Push("w", std::span<const NDArray>()); }).what(),
              HasSubstr("no array given"));
  EXPECT_THAT(ErrorOf([this] { store_->Push("w", NDArray()); }).what(), HasSubstr("none"));
  EXPECT_THAT(Pulled(store_.get(), "w"), ElementsAre(1, 2));
}

/// A row_sparse array of shape (4, 1) with one row.
NDArray OneRow(float row, float value) {
  return sparse::FromRows(NDArray::FromVector(std::vector<float>{value}, {1, 1}), Vector({row}),
                          {4, 1});
}

TEST_F(KVStoreTest, SumsOfRowsStoreTheRowsOfAll) {
  store_->Init("rows", sparse::Zeros(StorageType::kRowSparse, {4, 1}));
  store_->Push("rows", {OneRow(3, 1), OneRow(1, 2), OneRow(3, 4)});
  const NDArray out = sparse::Zeros(StorageType::kRowSparse, {4, 1});
  store_->Pull("rows", out);
  EXPECT_EQ(sparse::Count(out), 2);
  EXPECT_THAT(out.ToVector(), ElementsAre(0, 2, 0, 5));
  EXPECT_THAT(Pulled(store_.get(), "rows", {4, 1}), ElementsAre(0, 2, 0, 5));
  bool is_sparse = false;
  store_->set_updater([&](const KVKey&, const NDArray& received, const NDArray&) {
    is_sparse = StorageTypeOf(received) == StorageType::kRowSparse;
  });
  store_->Push("rows", {OneRow(3, 1), OneRow(1, 2)});
  EXPECT_TRUE(is_sparse);
}

TEST_F(KVStoreTest, PullRowsGivesTheRowsThatAreListed) {
  store_->Init("dense", NDArray::FromVector(std::vector<float>{1, 2, 3, 4}, {4, 1}));
  store_->Init("rows", OneRow(2, 7));
  const NDArray out = sparse::Zeros(StorageType::kRowSparse, {4, 1});
  store_->PullRows("dense", out, Vector({3, 1, 3}));
  EXPECT_EQ(sparse::Count(out), 2);
  EXPECT_THAT(out.ToVector(), ElementsAre(0, 2, 0, 4));
  {
    const autograd::Record record;
    store_->PullRows("rows", out, Vector({2, 0}));
  }
  EXPECT_THAT(out.ToVector(), ElementsAre(0, 0, 7, 0));
  EXPECT_THAT(ErrorOf([&] { store_->PullRows("none", out, Vector({0})); }).what(),
              HasSubstr("unknown key"));
  EXPECT_THAT(ErrorOf([&] {
                store_->PullRows("rows", NDArray({4, 1}), Vector({0}));
              }).what(),
              HasSubstr("expected row_sparse"));
}

}  // namespace
}  // namespace tessera
