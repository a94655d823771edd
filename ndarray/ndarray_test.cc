#include "tessera/ndarray/ndarray.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <latch>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kInvalid = Error::kInvalidArgument;
constexpr auto kOutOfRange = Error::kOutOfRange;
constexpr auto kFailedPrecondition = Error::kFailedPrecondition;

/// Queues an operation on the array that fails.
void PushFailure(const NDArray& array) {
  Engine::Get()->PushSync([](RunContext) { throw InvalidArgument("the operation broke"); },
                          Device::Cpu(), {}, {array.var()}, {.name = "Breaking"});
}

/// Elements 0, 1, 2, … of that shape.
NDArray Counting(const TShape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  std::iota(values.begin(), values.end(), 0.0f);
  return NDArray::FromVector(values, shape);
}

int64_t LiveBytes() { return Storage::Get()->Stats(Device::Cpu()).live_bytes; }

TEST(NDArrayTest, KnowsItsShapeTypeAndDevice) {
  const NDArray array({2, 3}, Device::Cpu(), DType::kFloat64);
  EXPECT_FALSE(array.is_none());
  EXPECT_EQ(array.shape(), TShape({2, 3}));
  EXPECT_EQ(array.dtype(), DType::kFloat64);
  EXPECT_EQ(array.device(), Device::Cpu());
  EXPECT_NE(array.var(), nullptr);
  EXPECT_EQ(array.data().Size(), 6);
}

TEST(NDArrayTest, NoArrayRefusesUse) {
  const NDArray none;
  EXPECT_TRUE(none.is_none());
  none.WaitToRead();
  none.WaitToWrite();
  ExpectError(kFailedPrecondition, "NDArray::data", [&] { none.data(); });
  ExpectError(kFailedPrecondition, "NDArray::var", [&] { none.var(); });
  ExpectError(kFailedPrecondition, "NDArray::device", [&] { none.device(); });
  ExpectError(kFailedPrecondition, "NDArray::Slice", [&] { none.Slice(0, 0); });
  ExpectError(kFailedPrecondition, "NDArray::At", [&] { none.At(0); });
  ExpectError(kFailedPrecondition, "NDArray::Reshape", [&] { none.Reshape({1}); });
  ExpectError(kFailedPrecondition, "NDArray::Copy", [&] { none.Copy(Device::Cpu()); });
  ExpectError(kFailedPrecondition, "NDArray::ToVector", [&] { none.ToVector(); });
  ExpectError(kFailedPrecondition, "operator=", [&] { NDArray() = 1.0f; });
  ExpectError(kFailedPrecondition, "from", [&] { CopyFromTo(none, NDArray({1})); });
}

TEST(NDArrayTest, RefusesShapesAndTypesThatAreNotKnown) {
  ExpectError(kInvalid, "None", [] { NDArray array(TShape::OfRank(2)); });
  ExpectError(kInvalid, "None", [] { NDArray array{TShape()}; });
  ExpectError(kInvalid, "dtype", [] { NDArray({2}, Device::Cpu(), DType::kUnknown); });
  const index_t huge = index_t{1} << 40;
  ExpectError(kInvalid, "63 bits", [&] { NDArray({huge, huge}, Device::Cpu()); });
}

TEST(NDArrayTest, GivesBackWhatWasPutIn) {
  const NDArray array = Counting({2, 3});
  EXPECT_THAT(array.ToVector(), ElementsAre(0, 1, 2, 3, 4, 5));
  float values[6];
  array.SyncCopyToCPU(values, 6);
  EXPECT_THAT(values, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(NDArrayTest, RefusesHostMemoryOfAnotherSize) {
  NDArray array({2, 3});
  float values[7] = {};
  ExpectError(kInvalid, "7 elements", [&] { array.SyncCopyFromCPU(values, 7); });
  ExpectError(kInvalid, "5 elements", [&] { array.SyncCopyToCPU(values, 5); });
  ExpectError(kInvalid, "4 elements", [] { NDArray::FromVector(std::vector<float>(4), {5}); });
}

TEST(NDArrayTest, EmptyAndScalarArraysWork) {
  for (const TShape& shape : {TShape({0}), TShape({3, 0}), TShape({0, index_t{1} << 62, 4})}) {
    NDArray empty(shape);
    empty = 3.0f;
    empty += 1.0f;
    EXPECT_THAT(empty.ToVector(), IsEmpty()) << shape;
    EXPECT_THAT(empty.Copy(Device::Cpu()).ToVector(), IsEmpty()) << shape;
  }
  NDArray scalar{TShape(std::span<const index_t>())};
  scalar = 3.0f;
  scalar += 1.0f;
  EXPECT_THAT(scalar.ToVector(), ElementsAre(4));
}

TEST(NDArrayTest, HandlesShareElements) {
  NDArray array({2});
  NDArray handle = array;
  handle = 5.0f;
  EXPECT_THAT(array.ToVector(), ElementsAre(5, 5));
  EXPECT_EQ(array.var(), handle.var());
}

TEST(NDArrayTest, ViewsShareElements) {
  NDArray array = Counting({4, 2});
  NDArray rows = array.Slice(1, 3);
  EXPECT_EQ(rows.shape(), TShape({2, 2}));
  EXPECT_EQ(rows.var(), array.var());
  rows = 9.0f;
  EXPECT_THAT(array.ToVector(), ElementsAre(0, 1, 9, 9, 9, 9, 6, 7));
  array.At(3) += 10.0f;
  EXPECT_THAT(array.At(3).ToVector(), ElementsAre(16, 17));
  array.Reshape({2, 4}).At(0).At(1) = -1.0f;
  EXPECT_THAT(array.ToVector(), ElementsAre(0, -1, 9, 9, 9, 9, 16, 17));
  EXPECT_THAT(rows.At(1).ToVector(), ElementsAre(9, 9));
  EXPECT_EQ(array.At(0).At(1).shape().ndim(), 0);
  EXPECT_THAT(array.Slice(2, 2).ToVector(), IsEmpty());
}

TEST(NDArrayTest, ViewsOutliveTheArrayTheyCameFrom) {
  NDArray row;
  {
    const NDArray array = Counting({3, 2});
    row = array.At(2);
  }
  EXPECT_THAT(row.ToVector(), ElementsAre(4, 5));
}

TEST(NDArrayTest, ViewsStayInsideTheArray) {
  const NDArray array({4, 2});
  ExpectError(kOutOfRange, "[3, 5)", [&] { array.Slice(3, 5); });
  ExpectError(kOutOfRange, "[-1, 2)", [&] { array.Slice(-1, 2); });
  ExpectError(kOutOfRange, "[3, 2)", [&] { array.Slice(3, 2); });
  ExpectError(kOutOfRange, "row 4", [&] { array.At(4); });
  ExpectError(kOutOfRange, "row -1", [&] { array.At(-1); });
  const NDArray scalar{TShape(std::span<const index_t>())};
  ExpectError(kInvalid, "scalar", [&] { scalar.Slice(0, 0); });
  ExpectError(kInvalid, "scalar", [&] { scalar.At(0); });
}

TEST(NDArrayTest, ReshapeFillsInTheRest) {
  const NDArray array = Counting({4, 3});
  EXPECT_EQ(array.Reshape({2, -1}).shape(), TShape({2, 6}));
  EXPECT_EQ(array.Reshape({-1}).shape(), TShape({12}));
  EXPECT_EQ(array.Reshape({3, 4}).shape(), TShape({3, 4}));
  EXPECT_THAT(array.Reshape({6, -1}).At(5).ToVector(), ElementsAre(10, 11));
  ExpectError(kInvalid, "(5,None)", [&] { array.Reshape(TShape{5, -1}); });
  ExpectError(kInvalid, "(11,)", [&] { array.Reshape(TShape{11}); });
  ExpectError(kInvalid, "several", [&] { array.Reshape(TShape{-1, -1}); });
  ExpectError(kInvalid, "(0,None)", [&] { array.Reshape(TShape{0, -1}); });
  ExpectError(kInvalid, "no rank", [&] { array.Reshape(TShape()); });
  const index_t huge = index_t{1} << 40;
  ExpectError(kInvalid, "12 elements", [&] { array.Reshape(TShape{huge, huge}); });
}

// Assigning an array to a temporary handle would change no element.
template <typename A>
concept CanBeAssigned = requires(const NDArray& other) {
  std::declval<A>() = other;
};
static_assert(CanBeAssigned<NDArray&> && !CanBeAssigned<NDArray>);

TEST(NDArrayTest, SetsEveryElementOfEveryType) {
  for (int flag = 0; flag <= static_cast<int>(DType::kBFloat16); ++flag) {
    const auto dtype = static_cast<DType>(flag);
    NDArray array({5}, Device::Cpu(), dtype);
    array = 1.0f;
    EXPECT_THAT(array.ToVector(), Each(1.0f)) << dtype;
    array.Slice(1, 2) = 0.0f;
    EXPECT_THAT(array.ToVector(), ElementsAre(1, 0, 1, 1, 1)) << dtype;
  }
  NDArray integers({1}, Device::Cpu(), DType::kInt8);
  integers = -128.7f;
  EXPECT_THAT(integers.ToVector(), ElementsAre(-128));
  integers = 127.9f;
  EXPECT_THAT(integers.ToVector(), ElementsAre(127));
}

TEST(NDArrayTest, NumbersBesideIntegersAreExact) {
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;  // no double is this number
  const auto first = [](const NDArray& array) {
    int64_t value = 0;
    array.Reshape(TShape{1}).SyncCopyToCPU(&value, 1);
    return value;
  };
  NDArray a({1}, Device::Cpu(), DType::kInt64);
  a = kLarge;
  EXPECT_EQ(first(a), kLarge);
  EXPECT_EQ(first(a - kLarge), 0);
  EXPECT_EQ(first(a == kLarge - 1), 0);
  EXPECT_EQ(first(a > kLarge - 1), 1);
  EXPECT_EQ(first(a > 0.5), 1);
  a -= kLarge - 1;
  EXPECT_EQ(first(a), 1);
  a.Assign({0}, kLarge);
  EXPECT_EQ(first(a), kLarge);
}

TEST(NDArrayTest, RefusesToSetWhatTheTypeCannotHold) {
  const auto set = [](DType dtype, float value) {
    NDArray array({2}, Device::Cpu(), dtype);
    array = value;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  ExpectError(kInvalid, "uint8 cannot hold 256", [&] { set(DType::kUint8, 256); });
  ExpectError(kInvalid, "uint8 cannot hold -1", [&] { set(DType::kUint8, -1); });
  ExpectError(kInvalid, "int8 cannot hold 128", [&] { set(DType::kInt8, 128); });
  ExpectError(kInvalid, "int64", [&] { set(DType::kInt64, std::ldexp(1.0f, 63)); });
  ExpectError(kInvalid, "uint64", [&] { set(DType::kUint64, std::ldexp(1.0f, 64)); });
  ExpectError(kInvalid, "int32", [&] { set(DType::kInt32, nan); });
  ExpectError(kInvalid, "int32", [&] { set(DType::kInt32, inf); });
  set(DType::kInt64, std::ldexp(-1.0f, 63));
  set(DType::kFloat16, inf);
  set(DType::kBFloat16, nan);
}

TEST(NDArrayTest, ComputesElementByElement) {
  const NDArray a = NDArray::FromVector(std::vector<float>{1, 2, 3}, {3});
  const NDArray b = NDArray::FromVector(std::vector<float>{4, 8, 5}, {3});
  EXPECT_THAT((a + b).ToVector(), ElementsAre(5, 10, 8));
  EXPECT_THAT((a - b).ToVector(), ElementsAre(-3, -6, -2));
  EXPECT_THAT((a * b).ToVector(), ElementsAre(4, 16, 15));
  EXPECT_THAT((b / a).ToVector(), ElementsAre(4, 4, 5.0f / 3));
  EXPECT_THAT((a + 0.5f).ToVector(), ElementsAre(1.5, 2.5, 3.5));
  EXPECT_THAT((a - 0.5f).ToVector(), ElementsAre(0.5, 1.5, 2.5));
  EXPECT_THAT((a * 3.0f).ToVector(), ElementsAre(3, 6, 9));
  EXPECT_THAT((a / 2.0f).ToVector(), ElementsAre(0.5, 1, 1.5));
}

TEST(NDArrayTest, ComputesInPlace) {
  NDArray a = NDArray::FromVector(std::vector<float>{1, 2, 3}, {3});
  const NDArray handle = a;
  const NDArray b = NDArray::FromVector(std::vector<float>{4, 8, 5}, {3});
  a += b;
  a -= 1.0f;
  a *= b;
  a /= 2.0f;
  EXPECT_THAT(handle.ToVector(), ElementsAre(8, 36, 17.5));
  a /= b;
  a *= 2.0f;
  a += 1.0f;
  a -= b;
  EXPECT_THAT(handle.ToVector(), ElementsAre(1, 2, 3));
  a += a;
  EXPECT_THAT(handle.ToVector(), ElementsAre(2, 4, 6));
  EXPECT_EQ(a.var(), handle.var());
}

TEST(NDArrayTest, ScalarsReachTheOperatorExactly) {
  const NDArray zero = NDArray::FromVector(std::vector<float>{0}, {1});
  for (const float value : {0.1f, 1e-45f, -3.4028235e38f, 16777217.0f, 1.0f / 3}) {
    EXPECT_EQ((zero + value).ToVector()[0], value);
  }
}

TEST(NDArrayTest, ArithmeticRefusesWhatDoesNotFit) {
  const NDArray a({3});
  ExpectError(kInvalid, "broadcast_add", [&] { a + NDArray({4}); });
  ExpectError(kInvalid, "elemwise_mul", [&] { a* NDArray({3}, Device::Cpu(), DType::kFloat64); });
  ExpectError(kInvalid, "is_none", [&] { a + NDArray(); });
}

TEST(NDArrayTest, IntegersAreComputedAsIntegers) {
  NDArray integers({3}, Device::Cpu(), DType::kInt32);
  const int32_t values[] = {1, 1 << 30, -7};
  integers.SyncCopyFromCPU(values, 3);
  int32_t sums[3];
  (integers + integers - 1.0f).SyncCopyToCPU(sums, 3);
  EXPECT_THAT(sums, ElementsAre(1, std::numeric_limits<int32_t>::max(), -15));
}

TEST(NDArrayTest, InPlaceOverAShiftedViewIsRefused) {
  NDArray array = Counting({4});
  NDArray left = array.Slice(0, 3);
  ExpectError(kInvalid, "shares memory", [&] { left += array.Slice(1, 4); });
  EXPECT_THAT(array.ToVector(), ElementsAre(0, 1, 2, 3));
}

TEST(NDArrayTest, PartsOfOneArrayThatAreApartCompute) {
  NDArray array = Counting({4});
  NDArray left = array.Slice(0, 2);
  left += array.Slice(2, 4);
  EXPECT_THAT(array.ToVector(), ElementsAre(2, 4, 2, 3));
}

TEST(NDArrayTest, CopiesAreIndependent) {
  NDArray array = Counting({3});
  NDArray copy = array.Copy(Device::Cpu());
  array = 7.0f;
  EXPECT_THAT(copy.ToVector(), ElementsAre(0, 1, 2));
  CopyFromTo(array, copy);
  EXPECT_THAT(copy.ToVector(), ElementsAre(7, 7, 7));
}

TEST(NDArrayTest, CopiesBetweenPartsOfOneArray) {
  const NDArray array = Counting({4, 2});
  CopyFromTo(array.Slice(0, 2), array.Slice(2, 4));
  EXPECT_THAT(array.ToVector(), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  CopyFromTo(array, array);
  EXPECT_THAT(array.ToVector(), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  ExpectError(kInvalid, "share some", [&] { CopyFromTo(array.Slice(0, 2), array.Slice(1, 3)); });
}

TEST(NDArrayTest, CopyingNeedsTheSameShape) {
  const NDArray array({3});
  ExpectError(kInvalid, "(4,)", [&] { CopyFromTo(array, NDArray({4})); });
}

TEST(NDArrayTest, WrapsMemoryOfTheCallers) {
  std::vector<float> memory = {1, 2, 3, 4};
  {
    NDArray array(TBlob(memory.data(), {2, 2}, DType::kFloat32, Device::Cpu()));
    array.At(1) = 0.5f;
    array.WaitToRead();
    EXPECT_THAT(memory, ElementsAre(1, 2, 0.5, 0.5));
    EXPECT_EQ(array.data().dptr_, memory.data());
  }
  NDArray::WaitAll();
  EXPECT_THAT(memory, ElementsAre(1, 2, 0.5, 0.5));
}

TEST(NDArrayTest, DelayedMemoryIsTakenAtFirstUse) {
  NDArray::WaitAll();
  const int64_t before = LiveBytes();
  NDArray array({1 << 16}, Device::Cpu(), DType::kFloat32, /*delay_alloc=*/true);
  EXPECT_EQ(LiveBytes(), before);
  array = 1.0f;
  array.WaitToRead();
  EXPECT_GE(LiveBytes(), before + (4 << 16));
}

TEST(NDArrayTest, MemoryIsGivenBackAfterTheLastOperation) {
  NDArray::WaitAll();
  const int64_t before = LiveBytes();
  Engine* const engine = Engine::Get();
  std::vector<float> seen;
  {
    NDArray array({1 << 16});
    array = 2.0f;
    array.WaitToRead();
    // An operation that knows the memory alone, and is still to run when the last handle goes.
    const TBlob blob = array.data();
    engine->Stop();
    engine->PushSync(
        [&seen, blob](RunContext) {
          const float* const values = blob.dptr<float>();
          seen.assign(values, values + blob.Size());
        },
        Device::Cpu(), {array.var()}, {});
  }
  EXPECT_EQ(LiveBytes(), before + (4 << 16));
  engine->Start();
  NDArray::WaitAll();
  EXPECT_THAT(seen, Each(2.0f));
  EXPECT_EQ(LiveBytes(), before);
}

TEST(NDArrayTest, StorageCountsArraysUnderTheirTag) {
  const NDArray array({1 << 12}, Device::Cpu(), DType::kFloat32, false, "ndarray_test");
  int64_t tagged = 0;
  for (const StorageTagStats& tag : Storage::Get()->TagStats(Device::Cpu())) {
    if (tag.tag == "ndarray_test") tagged = tag.live_bytes;
  }
  EXPECT_GE(tagged, 4 << 12);
}

TEST(NDArrayTest, LastHandleMayGoInsideAnOperation) {
  NDArray::WaitAll();
  const int64_t before = LiveBytes();
  for (int i = 0; i < 100; ++i) {
    NDArray array({1 << 10});
    Variable* const var = array.var();
    Engine::Get()->PushSync([array = std::move(array)](RunContext) {}, Device::Cpu(), {}, {var});
  }
  NDArray::WaitAll();
  EXPECT_EQ(LiveBytes(), before);
}

TEST(NDArrayErrorTest, AFailedOperationSurfacesAtTheWait) {
  NDArray array = Counting({3});
  PushFailure(array);
  NDArray sum = array + 1.0f;
  ExpectError(kInvalid, "the operation broke", [&] { sum.WaitToRead(); });
  // The engine goes on, and the array is sound once it is written afresh.
  array = 1.0f;
  EXPECT_THAT((array + 1.0f).ToVector(), ElementsAre(2, 2, 2));
  NDArray::WaitAll();
}

TEST(NDArrayErrorTest, ReadingAFailedArrayThrows) {
  for (int way = 0; way < 3; ++way) {
    NDArray array = Counting({3});
    PushFailure(array);
    ExpectError(kInvalid, "the operation broke", [&] {
      if (way == 0) array.ToVector();
      if (way == 1) array.WaitToWrite();
      if (way == 2) NDArray::WaitAll();
    });
    NDArray::WaitAll();
  }
}

TEST(NDArrayErrorTest, WritingPartOfAFailedArrayDoesNotHideTheFailure) {
  for (int way = 0; way < 5; ++way) {
    NDArray array = Counting({4});
    PushFailure(array);
    const float values[2] = {};
    ExpectError(kInvalid, "the operation broke", [&] {
      if (way == 0) array.Slice(0, 2) = 1.0f;
      if (way == 1) array += 1.0f;
      if (way == 2) array.Slice(0, 2) += array.Slice(2, 4);
      if (way == 3) CopyFromTo(Counting({2}), array.Slice(2, 4));
      if (way == 4) array.Slice(0, 2).SyncCopyFromCPU(values, 2);
      array.WaitToRead();
    });
    NDArray::WaitAll();
  }
}

TEST(NDArrayErrorTest, WritingAllOfAFailedArrayMendsIt) {
  NDArray array = Counting({2});
  PushFailure(array);
  const float values[2] = {3, 4};
  array.SyncCopyFromCPU(values, 2);
  EXPECT_THAT(array.ToVector(), ElementsAre(3, 4));
  // The failure itself is not forgotten.
  ExpectError(kInvalid, "the operation broke", [] { NDArray::WaitAll(); });
  NDArray::WaitAll();
}

TEST(NDArrayErrorTest, LackOfMemorySurfaces) {
  constexpr auto kExhausted = Error::kResourceExhausted;
  Storage* const storage = Storage::Get();
  storage->SetLimit(Device::Cpu(), storage->Stats(Device::Cpu()).reserved_bytes);
  const TShape large = {1 << 24};
  ExpectError(kExhausted, "limit", [&] { NDArray array(large); });
  NDArray delayed(large, Device::Cpu(), DType::kFloat32, /*delay_alloc=*/true);
  delayed = 1.0f;
  ExpectError(kExhausted, "limit", [&] { delayed.WaitToRead(); });
  storage->SetLimit(Device::Cpu(), kNoLimit);
  delayed = 1.0f;
  EXPECT_EQ(delayed.At((1 << 24) - 1).ToVector()[0], 1.0f);
}

TEST(NDArrayThreadsTest, ThreadsReadAndWriteOneArray) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  NDArray array({64});
  array = 0.0f;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      NDArray mine = array;
      start.arrive_and_wait();
      for (int i = 0; i < kRounds; ++i) {
        if (t % 2 == 0) {
          mine += 1.0f;
        } else {
          // Never half of a write: all elements are equal at every moment.
          const std::vector<float> values = mine.ToVector();
          EXPECT_THAT(values, Each(values[0]));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(array.ToVector(), Each(kThreads / 2 * kRounds));
}

TEST(NDArrayThreadsTest, ThreadsMakeAndDropArrays) {
  NDArray::WaitAll();
  const int64_t before = LiveBytes();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) {
        NDArray array({16 + t});
        array = static_cast<float>(i);
        const NDArray sum = array + array;
        EXPECT_EQ((sum - 1.0f).ToVector()[3], 2.0f * static_cast<float>(i) - 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  NDArray::WaitAll();
  EXPECT_EQ(LiveBytes(), before);
}

/// The exit status of a fork that runs `body`; from 100 on it did not.
int StatusOfChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::_Exit(body());
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 100;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

TEST(NDArrayForkTest, TheChildUsesACopyOfItsParentsArrays) {
  NDArray array = Counting({4});
  NDArray late({4}, Device::Cpu(), DType::kFloat32, /*delay_alloc=*/true);
  array += 1.0f;
  NDArray::WaitAll();
  const auto use = [&] {
    NDArray rows = array.Slice(1, 3);
    rows += 10.0f;
    late = 2.0f;
    if ((array + late).ToVector() != std::vector<float>{3, 14, 15, 6}) return 1;
    const std::vector<float> values = {4, 3, 2, 1};
    array.SyncCopyFromCPU(values.data(), 4);
    const NDArray copy = array.Copy(Device::Cpu());
    return copy.ToVector() == values ? 0 : 2;
  };
  const auto use_twice = [&] {
    const int status = use();
    if (status != 0) return status;
    array = 1.0f;
    array += Counting({4});
    NDArray::WaitAll();
    return StatusOfChild(use);  // and once more below it
  };
  EXPECT_EQ(StatusOfChild(use_twice), 0);
  EXPECT_THAT(array.ToVector(), ElementsAre(1, 2, 3, 4));
}

TEST(NDArrayForkTest, AnArrayThatWasBeingWrittenSaysSo) {
  const NDArray read = Counting({2});
  const NDArray written = Counting({2});
  const NDArray behind = Counting({2});
  std::latch begun(1), go_on(1);
  const auto push = [](const NDArray& from, const NDArray& to, const SyncFn& fn) {
    Engine::Get()->PushSync(fn, Device::Cpu(), {from.var()}, {to.var()});
  };
  push(read, written, [&](RunContext) { begun.count_down(), go_on.wait(); });
  push(written, behind, [](RunContext) {});
  begun.wait();
  const int status = StatusOfChild([&] {
    for (const NDArray& array : {written, behind}) {
      for (int i = 0; i < 2; ++i) {
        try {
          array.ToVector();
          return 1;
        } catch (const Error& error) {
          if (error.code() != kFailedPrecondition) return 2;
          if (std::string(error.what()).find("forked") == std::string::npos) return 3;
        }
      }
    }
    return (read + 1.0f).ToVector() == std::vector<float>{1, 2} ? 0 : 4;
  });
  go_on.count_down();
  NDArray::WaitAll();
  EXPECT_EQ(status, 0);
}

TEST(NDArrayForkTest, AnErrorThatNobodyHasSeenSurfacesInTheChild) {
  const NDArray array = Counting({2});
  PushFailure(array);
  while (!Engine::Get()->IsIdle(array.var())) std::this_thread::yield();
  const int status = StatusOfChild([&] {
    try {
      array.WaitToRead();
      return 1;
    } catch (const Error& error) {
      return error.code() == kInvalid ? 0 : 2;
    }
  });
  EXPECT_EQ(status, 0);
  ExpectError(kInvalid, "the operation broke", [&] { array.WaitToRead(); });
  NDArray::WaitAll();
}

TEST(NDArrayTest, PinnedMemoryIsOrdinaryWhereNoGpuCopiesIt) {
  if (HasDeviceRuntime(DeviceType::kGpu)) GTEST_SKIP() << "this build has pinned memory";
  NDArray pinned({2}, Device::CpuPinned());
  pinned = 3.0f;
  EXPECT_EQ(pinned.device(), Device::CpuPinned());
  EXPECT_THAT(pinned.Copy(Device::Cpu()).ToVector(), ElementsAre(3, 3));
}

// Gone with the other static objects, after the engine has come to its end.
NDArray* const at_exit = [] {
  static NDArray array;
  return &array;
}();

TEST(NDArrayTest, MayLiveUntilTheProcessEnds) {
  *at_exit = Counting({1 << 10});
  *at_exit += 1.0f;
}

}  // namespace
}  // namespace tessera
