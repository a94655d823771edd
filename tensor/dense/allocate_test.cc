#include "tessera/tensor/dense/allocate.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/test_values.h"

// Under AddressSanitizer an impossible allocation is to fail as it does elsewhere.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;
constexpr auto kResourceExhausted = Error::kResourceExhausted;

template <int N, typename T>
std::vector<T> Elements(const Tensor<cpu, N, T>& tensor) {
  std::vector<T> elements;
  const Tensor<cpu, 2, T> flat = tensor.FlatTo2D();
  for (index_t y = 0; y < flat.shape_[0]; ++y) {
    for (index_t x = 0; x < flat.shape_[1]; ++x) elements.push_back(flat[y][x]);
  }
  return elements;
}

TEST(AllocSpaceTest, RowsStartOnCacheLinesWherePadded) {
  Tensor<cpu, 2, float> padded(Shape2(3, 17));
  AllocSpace(&padded);
  EXPECT_EQ(padded.stride_, 32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(padded.dptr_) % 64, 0u);
  padded = 1.0f;
  FreeSpace(&padded);
  EXPECT_EQ(padded.dptr_, nullptr);

  Tensor<cpu, 3, half_t> halves(Shape3(2, 2, 33));
  AllocSpace(&halves, true);
  EXPECT_EQ(halves.stride_, 64);
  FreeSpace(&halves);

  Tensor<cpu, 2, double> tight(Shape2(3, 17));
  AllocSpace(&tight, false);
  EXPECT_TRUE(tight.CheckContiguous());
  FreeSpace(&tight);

  Tensor<cpu, 1, float> vector(Shape1(17));
  AllocSpace(&vector);
  EXPECT_TRUE(vector.CheckContiguous());
  FreeSpace(&vector);
}

TEST(AllocSpaceTest, LargeTensorsStartOnHugePages) {
  constexpr index_t kHugePageBytes = index_t{2} << 20;
  for (const index_t size_bytes :
       {2 * kHugePageBytes, 2 * kHugePageBytes + 1, index_t{100} << 20}) {
    Tensor<cpu, 1, uint8_t> tensor{Shape1(size_bytes)}, small{Shape1(100)};
    AllocSpace(&tensor);
    AllocSpace(&small);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.dptr_) % kHugePageBytes, 0u) << size_bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(small.dptr_) % 64, 0u);
    tensor[0] = tensor[size_bytes - 1] = 1;
    FreeSpace(&tensor);
    FreeSpace(&small);
  }
}

TEST(AllocSpaceTest, EmptyTensorsNeedNoMemory) {
  Tensor<cpu, 2, float> empty(Shape2(0, 5));
  AllocSpace(&empty);
  EXPECT_EQ(empty.dptr_, nullptr);
  empty = 1.0f;
  FreeSpace(&empty);
}

TEST(AllocSpaceTest, ImpossibleSizesAreRefusedAndChangeNothing) {
  const index_t large = index_t{1} << 40;
  Tensor<cpu, 2, float> overflowing(Shape2(large, large));
  ExpectError([&] { AllocSpace(&overflowing); }, kInvalidArgument,
              {"AllocSpace", "(1099511627776,1099511627776)", "4 bytes", "size in bytes",
               "9223372036854775807"});
  Tensor<cpu, 2, float> negative(Shape2(3, -1));
  for (const bool pad : {false, true}) {
    ExpectError([&] { AllocSpace(&negative, pad); }, kInvalidArgument,
                {"AllocSpace", "dimension 1 of shape (3,-1) is negative"});
  }
  Tensor<cpu, 2, float> huge(Shape2(index_t{1} << 20, large));
  ExpectError([&] { AllocSpace(&huge); }, kResourceExhausted, {"AllocSpace", "CPU"});
  EXPECT_EQ(huge.dptr_, nullptr);
  // Too many even to be rounded up to whole cache lines.
  constexpr index_t kMost = std::numeric_limits<index_t>::max();
  Tensor<cpu, 2, float> longest(Shape2(1, kMost));
  ExpectError([&] { AllocSpace(&longest); }, kInvalidArgument, {"AllocSpace", "(1,9223372036854"});
  Tensor<cpu, 2, int8_t> bytes(Shape2(1, kMost));
  ExpectError([&] { AllocSpace(&bytes); }, kResourceExhausted, {"9223372036854775807 bytes"});
}

TEST(AllocHostTest, GivesContiguousHostMemory) {
  Tensor<cpu, 2, float> tensor(Shape2(3, 17));
  AllocHost<cpu>(&tensor);
  EXPECT_TRUE(tensor.CheckContiguous());
  tensor = 1.0f;
  EXPECT_EQ(tensor[2][16], 1.0f);
  FreeHost<cpu>(&tensor);
  EXPECT_EQ(tensor.dptr_, nullptr);
  Tensor<cpu, 1, float> negative(Shape1(-1));
  ExpectError([&] { AllocHost<cpu>(&negative); }, kInvalidArgument, {"AllocHost", "negative"});
}

TEST(NewTensorTest, EveryElementIsTheInitialValue) {
  Stream<cpu> stream;
  Tensor<cpu, 2, int32_t> tensor = NewTensor<cpu>(Shape2(3, 5), 7, true, &stream);
  EXPECT_EQ(Elements(tensor), std::vector<int32_t>(15, 7));
  EXPECT_EQ(tensor.stride_, 16);
  EXPECT_EQ(tensor.stream_, &stream);
  FreeSpace(&tensor);
}

TEST(TensorContainerTest, ConstructorsSayShapeValuePaddingAndStream) {
  Stream<cpu> stream;
  TensorContainer<cpu, 2, float> padded(Shape2(2, 3), 4, true, &stream);
  EXPECT_EQ(padded.stride_, 16);
  EXPECT_EQ(padded.stream_, &stream);
  EXPECT_EQ(Elements(padded), std::vector<float>(6, 4.0f));
  TensorContainer<cpu, 2, float> later(true);
  EXPECT_EQ(later.shape_, Shape2(0, 0));
  later.Resize(Shape2(2, 3));
  EXPECT_EQ(later.stride_, 16);
  TensorContainer<cpu, 2, float> copy(padded);
  EXPECT_EQ(copy.stream_, &stream);
  EXPECT_EQ(copy.stride_, 16);
  EXPECT_EQ(Elements(copy), Elements(padded));
}

TEST(TensorContainerTest, CopiesOwnTheirData) {
  TensorContainer<cpu, 2, float> a(Shape2(2, 3), 1.0f);
  TensorContainer<cpu, 2, float> b(a);
  b = 2.0f;
  EXPECT_EQ(Elements(a), std::vector<float>(6, 1.0f));
  EXPECT_EQ(Elements(b), std::vector<float>(6, 2.0f));
  a = b;
  b = 3.0f;
  EXPECT_EQ(Elements(a), std::vector<float>(6, 2.0f));
  const auto& self = a;
  a = self;
  EXPECT_EQ(Elements(a), std::vector<float>(6, 2.0f));
}

TEST(TensorContainerTest, MovesKeepTheMemory) {
  TensorContainer<cpu, 2, float> a(Shape2(2, 3), 1.0f);
  const float* const memory = a.dptr_;
  TensorContainer<cpu, 2, float> b(std::move(a));
  EXPECT_EQ(b.dptr_, memory);
  TensorContainer<cpu, 2, float> c;
  c = std::move(b);
  EXPECT_EQ(c.dptr_, memory);
  EXPECT_EQ(c.shape_, Shape2(2, 3));
}

TEST(TensorContainerTest, ResizeKeepsTheMemoryWhileItSuffices) {
  TensorContainer<cpu, 2, float> a(Shape2(4, 6));
  const float* const memory = a.dptr_;
  a.Resize(Shape2(3, 8));
  EXPECT_EQ(a.dptr_, memory);
  EXPECT_EQ(a.stride_, 8);
  a.Resize(Shape2(1, 2), 5.0f);
  EXPECT_EQ(a.dptr_, memory);
  EXPECT_EQ(Elements(a), std::vector<float>(2, 5.0f));
  a.Resize(Shape2(40, 60), 6.0f);
  EXPECT_EQ(Elements(a), std::vector<float>(2400, 6.0f));
  a.Release();
  EXPECT_EQ(a.dptr_, nullptr);
  EXPECT_EQ(a.shape_, Shape2(0, 0));
}

TEST(TensorContainerTest, PaddingHoldsFromTheNextResize) {
  TensorContainer<cpu, 2, float> a(Shape2(4, 6), 1.0f);
  EXPECT_TRUE(a.CheckContiguous());
  a.set_pad(true);
  a.Resize(Shape2(4, 6), 2.0f);
  EXPECT_EQ(a.stride_, 16);
  EXPECT_EQ(Elements(a), std::vector<float>(24, 2.0f));
}

TEST(TensorContainerTest, ImpossibleSizesAreRefusedAndChangeNothing) {
  TensorContainer<cpu, 2, float> a(Shape2(2, 3), 1.0f);
  const index_t large = index_t{1} << 40;
  for (const bool pad : {false, true}) {
    a.set_pad(pad);
    ExpectError([&] { a.Resize(Shape2(large, large)); }, kInvalidArgument,
                {"Resize", "(1099511627776,1099511627776)", "size in bytes"});
    ExpectError([&] { a.Resize(Shape2(2, -3)); }, kInvalidArgument,
                {"Resize", "dimension 1 of shape (2,-3) is negative"});
  }
  ExpectError([&] { a.Resize(Shape2(index_t{1} << 20, large)); }, kResourceExhausted, {"memory"});
  EXPECT_EQ(a.shape_, Shape2(2, 3));
  EXPECT_EQ(Elements(a), std::vector<float>(6, 1.0f));
}

TEST(TensorContainerTest, TakesTheShapeOfAnExpression) {
  TensorContainer<cpu, 2, float> a(Shape2(2, 3), 4.0f), b(Shape2(2, 3), 5.0f), c;
  c = a * b + 1;
  EXPECT_EQ(c.shape_, Shape2(2, 3));
  EXPECT_EQ(Elements(c), std::vector<float>(6, 21.0f));
  c = a.T();
  EXPECT_EQ(c.shape_, Shape2(3, 2));
  c = 1;
  EXPECT_EQ(c.shape_, Shape2(3, 2));
  EXPECT_EQ(Elements(c), std::vector<float>(6, 1.0f));
  const Tensor<cpu, 2, float> handle = a;
  c = handle;
  EXPECT_NE(c.dptr_, a.dptr_);
  EXPECT_EQ(Elements(c), Elements(a));
}

TEST(TensorContainerTest, ItsOwnMemoryMayBeReadWhileItGrows) {
  TensorContainer<cpu, 2, float> a(Shape2(1, 3));
  for (index_t x = 0; x < 3; ++x) a[0][x] = static_cast<float>(x);
  const Tensor<cpu, 1, float> row = a[0];
  a = repmat(row, 1000);
  EXPECT_EQ(a.shape_, Shape2(1000, 3));
  for (index_t y = 0; y < 1000; ++y) {
    for (index_t x = 0; x < 3; ++x) ASSERT_EQ(a[y][x], static_cast<float>(x));
  }
}

TEST(TensorContainerTest, AFailedAssignmentLeavesShapeAndElements) {
  TensorContainer<cpu, 2, float> a(Shape2(2, 3), 1.0f), b(Shape2(4, 5), 2.0f), empty;
  const TensorContainer<cpu, 2, float> c(Shape2(2, 3), 3.0f);
  ExpectError([&] { a = dot(c, b); }, kInvalidArgument, {"dot", "(2,3)", "(4,5)"});
  EXPECT_EQ(a.shape_, Shape2(2, 3));
  EXPECT_EQ(Elements(a), std::vector<float>(6, 1.0f));
  ExpectError([&] { empty = dot(c, b); }, kInvalidArgument, {"dot"});
  EXPECT_EQ(empty.shape_, Shape2(0, 0));
  a = b * 2.0f;
  EXPECT_EQ(Elements(a), std::vector<float>(20, 4.0f));
}

TEST(TensorContainerTest, IsAnOperandLikeAnyTensor) {
  TensorContainer<cpu, 2, double> a(Shape2(2, 2), 3.0), b(Shape2(2, 2), 4.0), c(Shape2(2, 2), 1.0);
  // The nodes hold tensors, not containers: no expression owns or copies memory.
  static_assert(sizeof(a + b) <= 2 * sizeof(Tensor<cpu, 2, double>) + 8);
  c += dot(a, b.T());
  EXPECT_EQ(Elements(c), std::vector<double>(4, 25.0));
  c -= a / b;
  EXPECT_EQ(Elements(c), std::vector<double>(4, 24.25));
  EXPECT_EQ(ReduceAll<red::sum>(c), 97.0);
}

}  // namespace
}  // namespace tessera
