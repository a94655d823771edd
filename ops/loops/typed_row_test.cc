#include "tessera/ops/loops/typed_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/ops/loops/elements.h"

namespace tessera::ops_internal {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kUint8,   DType::kInt8,    DType::kInt16,   DType::kUint16,
                            DType::kInt32,   DType::kUint32,  DType::kInt64,   DType::kUint64,
                            DType::kBool};

// Elements between guards, which nothing may change.
constexpr index_t kGuard = 3;

/// An array of the numbers 0, 1, 0, 1, …, which every element type holds exactly.
struct Array {
  Array(index_t n, DType of) : size(n), dtype(of), bytes(static_cast<size_t>(n + 2 * kGuard) * 8) {
    for (index_t i = -kGuard; i < n + kGuard; ++i) {
      const int64_t value = i & 1;
      StoreRow(&value, 1, /*add=*/false, dtype, ElementAt(blob(), i));
    }
  }
  TBlob blob() {
    return TBlob(bytes.data() + kGuard * DTypeSizeBytes(dtype), {size}, dtype, Device::Cpu());
  }
  int64_t operator[](index_t i) {
    int64_t value;
    LoadRow(ElementAt(blob(), i), dtype, 1, 1, &value);
    return value;
  }
  /// Expects the first numbers outside [begin, end).
  void ExpectUnchangedOutside(index_t begin, index_t end) {
    for (index_t i = -kGuard; i < size + kGuard; ++i) {
      if (i >= begin && i < end) continue;
      EXPECT_EQ((*this)[i], i & 1) << i << " of " << dtype;
    }
  }

  const index_t size;
  const DType dtype;
  std::vector<char> bytes;
};

template <typename T>
class TypedRowTest : public testing::Test {};
using RowTypes = testing::Types<float, double, int32_t, int64_t>;
TYPED_TEST_SUITE(TypedRowTest, RowTypes);

TYPED_TEST(TypedRowTest, OnlyDenseElementsOfTheTypeAreReadInPlace) {
  using T = TypeParam;
  for (const DType dtype : kTypes) {
    for (const index_t n : {0, 1, 7, 8, 9}) {
      Array array(2 * n + 1, dtype);
      const RowReader<T> reader(array.blob());
      EXPECT_EQ(reader.is_direct(), dtype == kDTypeOf<T>);
      for (const index_t stride : {-1, 0, 1, 2}) {
        const index_t first = stride < 0 ? n : 1;
        std::vector<T> buffer(static_cast<size_t>(n + 1), T(9));
        const T* const row = reader.Read(first, n, buffer.data(), stride);
        const bool in_place = dtype == kDTypeOf<T> && stride == 1;
        EXPECT_EQ(row, in_place ? ElementAt(array.blob(), first) : buffer.data());
        EXPECT_EQ(buffer.back(), T(9));
        EXPECT_TRUE(!in_place || buffer.front() == T(9));
        for (index_t i = 0; i < n; ++i) EXPECT_EQ(row[i], T(array[first + i * stride])) << dtype;
        reader.Copy(first, n, buffer.data(), stride);
        EXPECT_EQ(buffer.back(), T(9));
        for (index_t i = 0; i < n; ++i) {
          EXPECT_EQ(buffer[static_cast<size_t>(i)], T(array[first + i * stride])) << dtype;
        }
      }
      EXPECT_EQ(reader[0], T(0));
      EXPECT_TRUE(n == 0 || reader[1] == T(1));
    }
  }
}

TEST(IndicesTest, NanIsAnIndexOfItsOwn) {
  double numbers[] = {2.7, -1.5, NAN, -1e30, 1e30};
  constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
  constexpr int64_t kHigh = std::numeric_limits<int64_t>::max();
  int64_t indices[5];
  ReadIndices(TBlob(numbers, {5}, DType::kFloat64, Device::Cpu()), 0, 5, indices);
  EXPECT_THAT(indices, ::testing::ElementsAre(2, -1, kNanIndex, kLow, kHigh));
  float narrow[] = {0, NAN};
  ReadIndices(TBlob(narrow, {2}, DType::kFloat32, Device::Cpu()), 1, 1, indices);
  EXPECT_EQ(indices[0], kNanIndex);
  EXPECT_EQ(IndexText(kNanIndex, DType::kFloat32), "nan");
  half_t half = half_t(NAN);
  LoadIndices(&half, DType::kFloat16, 1, indices);
  EXPECT_EQ(indices[0], kNanIndex);
  int64_t integer = kNanIndex;
  LoadIndices(&integer, DType::kInt64, 1, indices);
  EXPECT_EQ(indices[0], integer);
  EXPECT_FALSE(IsNanIndex(integer, DType::kInt64));
  EXPECT_EQ(IndexText(integer, DType::kInt64), "-9223372036854775807");
}

TYPED_TEST(TypedRowTest, RequestsSayWhatBecomesOfARow) {
  using T = TypeParam;
  for (const DType dtype : kTypes) {
    for (const OpReqType req : {kNullOp, kWriteTo, kWriteInplace, kAddTo}) {
      for (const index_t n : {0, 1, 7, 8, 9}) {
        Array array(n + 2, dtype);
        const RowWriter<T> writer(array.blob(), req);
        EXPECT_EQ(writer.is_wanted(), req != kNullOp);
        EXPECT_EQ(writer.is_direct(),
                  dtype == kDTypeOf<T> && (req == kWriteTo || req == kWriteInplace));
        std::vector<T> buffer(static_cast<size_t>(n));
        T* const row = writer.Out(1, buffer.data());
        EXPECT_EQ(row, writer.is_direct() ? ElementAt(array.blob(), 1) : buffer.data());
        for (index_t i = 0; i < n; ++i) row[i] = T(i % 3 == 0);
        writer.Write(1, n, row);
        array.ExpectUnchangedOutside(1, n + 1);
        for (index_t i = 1; i <= n; ++i) {
          const int64_t old = i & 1, added = (i - 1) % 3 == 0;
          const int64_t sum = dtype == DType::kBool ? old | added : old + added;
          EXPECT_EQ(array[i], req == kNullOp ? old : req == kAddTo ? sum : added) << dtype;
        }
      }
    }
  }
}

TYPED_TEST(TypedRowTest, RowsFromElsewhereAndSingleElementsAreWrittenToo) {
  using T = TypeParam;
  for (const DType dtype : kTypes) {
    for (const OpReqType req : {kNullOp, kWriteTo, kWriteInplace, kAddTo}) {
      Array array(4, dtype);
      const RowWriter<T> writer(array.blob(), req);
      const T row[] = {T(1), T(0)};
      writer.Write(0, 2, row);
      writer.Write(2, T(1));
      writer.Write(3, T(0));
      array.ExpectUnchangedOutside(0, 4);
      const bool writes = req == kWriteTo || req == kWriteInplace, adds = req == kAddTo;
      EXPECT_EQ(array[0], writes || adds ? 1 : 0) << dtype;
      EXPECT_EQ(array[1], writes ? 0 : 1) << dtype;
      EXPECT_EQ(array[2], writes || adds ? 1 : 0) << dtype;
      EXPECT_EQ(array[3], writes ? 0 : 1) << dtype;
    }
  }
}

TYPED_TEST(TypedRowTest, EmptyArraysNeedNoMemory) {
  using T = TypeParam;
  for (const DType dtype : kTypes) {
    T buffer;
    RowReader<T>(nullptr, dtype).Read(0, 0, &buffer);
    RowWriter<T>(nullptr, dtype, kAddTo).Write(0, 0, &buffer);
    EXPECT_FALSE(RowWriter<T>().is_wanted());
  }
}

TEST(ElementsTest, AreTheArrayOrAConvertedCopy) {
  for (const DType dtype : kTypes) {
    Array array(5, dtype);
    const Elements<float> elements(array.blob());
    EXPECT_EQ(elements.data() == array.blob().dptr_, dtype == DType::kFloat32);
    for (index_t i = 0; i < 5; ++i) EXPECT_EQ(elements.data()[i], static_cast<float>(i & 1));
  }
}

}  // namespace
}  // namespace tessera::ops_internal
