#include "tessera/ops/loops/sparse/sparse_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/float16.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/loops/indexed_rows.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr StorageType kDense = StorageType::kDefault;
constexpr StorageType kRows = StorageType::kRowSparse;
constexpr StorageType kCsr = StorageType::kCsr;

/// An array of T with memory of its own, in any storage type. Sparse ones begin empty.
template <typename T>
class Array final : public PartsAllocator {
 public:
  Array(StorageType storage, const TShape& shape) {
    blob_ = {.storage = storage,
             .shape = shape,
             .values = TBlob(nullptr, shape, kDTypeOf<T>, Device::Cpu()),
             .allocator = this};
    if (storage != kDense) {
      ClearParts(&blob_);
      return;
    }
    memory_.push_back(std::make_unique<Memory>());
    memory_.back()->values = std::vector<T>(static_cast<size_t>(shape.Size()));
    blob_.values.dptr_ = memory_.back()->values.data();
  }
  Array(const TShape& shape, const std::vector<double>& elements) : Array(kDense, shape) {
    for (size_t i = 0; i < elements.size(); ++i) {
      memory_.back()->values[i] = static_cast<T>(elements[i]);
    }
  }

  /// Old parts stay, as they do during a call.
  void Allocate(index_t count, SparseBlob* blob) override {
    memory_.push_back(std::make_unique<Memory>());
    Memory& memory = *memory_.back();
    const index_t width = blob->storage == kRows ? blob->width() : 1;
    // What an operation forgets to write is seen.
    memory.values.assign(static_cast<size_t>(count * width), static_cast<T>(99));
    memory.indices.assign(static_cast<size_t>(count), 99);
    memory.indptr.assign(static_cast<size_t>(blob->shape[0]) + 1, 99);
    blob->SetParts(count, memory.values.data(), memory.indices.data(), memory.indptr.data());
  }

  SparseBlob& blob() { return blob_; }

  /// Returns all elements, after a check of the parts.
  std::vector<double> Elements() {
    CheckParts(blob_, /*full=*/true);
    const T* const values = static_cast<const T*>(blob_.values.dptr_);
    std::vector<double> all(static_cast<size_t>(blob_.shape.Size()));
    const index_t width = blob_.width();
    if (blob_.storage == kDense) {
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<double>(values[i]);
    } else if (blob_.storage == kRows) {
      for (index_t k = 0; k < blob_.count() * width; ++k) {
        const int64_t row = blob_.indices[static_cast<size_t>(k / width)];
        all[static_cast<size_t>(row * width + k % width)] = static_cast<double>(values[k]);
      }
    } else {
      for (size_t i = 0; i + 1 < blob_.indptr.size(); ++i) {
        for (int64_t k = blob_.indptr[i]; k < blob_.indptr[i + 1]; ++k) {
          const auto column = static_cast<size_t>(blob_.indices[static_cast<size_t>(k)]);
          all[i * static_cast<size_t>(width) + column] = static_cast<double>(values[k]);
        }
      }
    }
    return all;
  }

 private:
  /// bool has no vector with addresses, and no test needs it.
  struct Memory {
    std::vector<T> values;
    std::vector<int64_t> indices, indptr;
  };
  SparseBlob blob_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

/// Returns small integers, of which a share is not 0.
std::vector<double> Pattern(const TShape& shape, double share, std::mt19937* random) {
  std::vector<double> elements(static_cast<size_t>(shape.Size()));
  std::bernoulli_distribution is_stored(share);
  std::uniform_int_distribution<int> value(1, 9);
  for (double& element : elements) element = is_stored(*random) ? value(*random) : 0;
  return elements;
}

const TShape kShapes[] = {{0, 3}, {1, 1}, {7, 5}, {3, 0}, {40, 300}, {700, 3}};

TEST(CopyPartsTest, AnArrayStaysWhatItIsInEveryStorage) {
  std::mt19937 random(1);
  for (const TShape& shape : kShapes) {
    for (const double share : {0.0, 0.1, 0.7, 1.0}) {
      const std::vector<double> elements = Pattern(shape, share, &random);
      Array<float> dense(shape, elements);
      for (const StorageType storage : {kRows, kCsr}) {
        Array<float> sparse(storage, shape), copy(storage, shape), back(kDense, shape);
        CopyParts(dense.blob(), kWriteTo, &sparse.blob());
        EXPECT_EQ(sparse.Elements(), elements);
        CopyParts(sparse.blob(), kWriteTo, &copy.blob());
        EXPECT_EQ(copy.Elements(), elements);
        EXPECT_THAT(copy.blob().indices, ElementsAreArray(sparse.blob().indices));
        CopyParts(copy.blob(), kWriteTo, &back.blob());
        EXPECT_EQ(back.Elements(), elements);
      }
    }
  }
}

TEST(CopyPartsTest, SumsKeepTheRowsOfBoth) {
  std::mt19937 random(2);
  for (const TShape& shape : kShapes) {
    const std::vector<double> a = Pattern(shape, 0.3, &random), b = Pattern(shape, 0.2, &random);
    std::vector<double> sum = a;
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
    Array<float> first(shape, a), second(shape, b);
    for (const StorageType from : {kDense, kRows, kCsr}) {
      for (const StorageType to : {kDense, kRows, kCsr}) {
        if (!CanCopyParts(from, to) || (from == kDense && to == kDense)) continue;
        Array<float> term(from, shape), total(to, shape);
        if (from == kDense) {
          term = Array<float>(shape, b);
        } else {
          CopyParts(second.blob(), kWriteTo, &term.blob());
        }
        if (to == kDense) {
          total = Array<float>(shape, a);
        } else {
          CopyParts(first.blob(), kWriteTo, &total.blob());
        }
        CopyParts(term.blob(), kAddTo, &total.blob());
        EXPECT_EQ(total.Elements(), sum);
      }
    }
  }
}

TEST(CopyPartsTest, StoresWhatIsNotZeroByItsValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Array<float> dense({4, 2}, {-0.0, 0.0, 0.0, nan, 1e-45, 0.0, 0.0, -2.0});
  Array<float> rows(kRows, {4, 2}), csr(kCsr, {4, 2});
  CopyParts(dense.blob(), kWriteTo, &rows.blob());
  EXPECT_THAT(rows.blob().indices, ElementsAre(1, 2, 3));
  CopyParts(dense.blob(), kWriteTo, &csr.blob());
  EXPECT_THAT(csr.blob().indices, ElementsAre(1, 0, 1));
  EXPECT_THAT(csr.blob().indptr, ElementsAre(0, 0, 1, 2, 3));
  // The bits of -0.0 are a number of an integer type.
  Array<int32_t> integers({2, 1}, {static_cast<double>(std::numeric_limits<int32_t>::min()), 0});
  Array<int32_t> integer_rows(kRows, {2, 1});
  CopyParts(integers.blob(), kWriteTo, &integer_rows.blob());
  EXPECT_THAT(integer_rows.blob().indices, ElementsAre(0));
}

template <typename T>
class CopyPartsTypeTest : public ::testing::Test {};
using Types = ::testing::Types<double, half_t, bfloat16_t, int8_t, uint8_t, int32_t, int64_t>;
TYPED_TEST_SUITE(CopyPartsTypeTest, Types);

TYPED_TEST(CopyPartsTypeTest, ConvertsValuesAndAddsThem) {
  const TShape shape{3, 2};
  Array<float> floats(shape, {1, 2, 0, 0, 5, 0});
  for (const StorageType storage : {kRows, kCsr}) {
    Array<TypeParam> typed(storage, shape);
    CopyParts(floats.blob(), kWriteTo, &typed.blob());
    EXPECT_THAT(typed.Elements(), ElementsAre(1, 2, 0, 0, 5, 0));
    Array<TypeParam> other(storage, shape), dense(shape, {1, 1, 1, 1, 1, 1});
    CopyParts(dense.blob(), kWriteTo, &other.blob());
    CopyParts(typed.blob(), kAddTo, &other.blob());
    EXPECT_THAT(other.Elements(), ElementsAre(2, 3, 1, 1, 6, 1));
    Array<float> back(storage, shape);
    CopyParts(other.blob(), kWriteTo, &back.blob());
    EXPECT_THAT(back.Elements(), ElementsAre(2, 3, 1, 1, 6, 1));
  }
}

TEST(CopyPartsTest, RefusesToGoFromRowsToCsr) {
  Array<float> rows(kRows, {2, 2}), csr(kCsr, {2, 2});
  EXPECT_FALSE(CanCopyParts(kRows, kCsr));
  EXPECT_THROW(CopyParts(rows.blob(), kWriteTo, &csr.blob()), Error);
  CopyParts(rows.blob(), kNullOp, &csr.blob());
}

/// The positions that int64 indices name.
Positions PositionsOf(std::vector<int64_t>& indices, index_t rows) {
  return Positions(TBlob(indices.data(), TShape{static_cast<index_t>(indices.size())},
                         DType::kInt64, Device::Cpu()),
                   rows, IndexMode::kClip);
}

TEST(SumRowSparseTest, SumsTheRowsOfEachPosition) {
  std::mt19937 random(3);
  for (const index_t width : {1, 5, 300}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{9}, size_t{2000}}) {
      constexpr index_t kNumRows = 50;
      std::uniform_int_distribution<int64_t> row(-3, kNumRows + 3);
      std::vector<int64_t> indices(count);
      for (int64_t& index : indices) index = row(random);
      const TShape shape{static_cast<index_t>(count), width};
      const std::vector<double> elements = Pattern(shape, 0.9, &random);
      std::vector<double> sums(static_cast<size_t>(kNumRows * width));
      for (size_t i = 0; i < elements.size(); ++i) {
        const int64_t to =
            std::clamp<int64_t>(indices[i / static_cast<size_t>(width)], 0, kNumRows - 1);
        sums[static_cast<size_t>(to * width) + i % static_cast<size_t>(width)] += elements[i];
      }
      Array<float> from(shape, elements), to(kRows, {kNumRows, width});
      const Positions positions = PositionsOf(indices, kNumRows);
      SumRowSparse(positions, from.blob().values, &to.blob());
      EXPECT_EQ(to.Elements(), sums);
      EXPECT_THAT(to.blob().indices, ElementsAreArray(SortedRows(positions)));
    }
  }
}

TEST(SumRowSparseTest, SumsOf16BitTypesAreFloats) {
  // 2048 + 1 + 1 is 2048 if each sum is rounded to float16.
  std::vector<int64_t> indices = {1, 1, 1};
  Array<half_t> from({3, 1}, {2048, 1, 1}), to(kRows, {3, 1});
  SumRowSparse(PositionsOf(indices, 3), from.blob().values, &to.blob());
  EXPECT_THAT(to.Elements(), ElementsAre(0, 2050, 0));
  Array<int8_t> integers({3, 1}, {100, 100, 1}), wrapped(kRows, {3, 1});
  SumRowSparse(PositionsOf(indices, 3), integers.blob().values, &wrapped.blob());
  EXPECT_THAT(wrapped.Elements(), ElementsAre(0, -55, 0));
}

TEST(RetainRowsTest, KeepsTheRowsThatAreListed) {
  Array<float> dense({5, 2}, {1, 2, 0, 0, 3, 4, 0, 0, 5, 6}), rows(kRows, {5, 2});
  CopyParts(dense.blob(), kWriteTo, &rows.blob());
  Array<float> kept(kRows, {5, 2});
  RetainRows(rows.blob(), std::vector<int64_t>{1, 2, 4}, &kept.blob());
  EXPECT_THAT(kept.blob().indices, ElementsAre(1, 2, 4));
  EXPECT_THAT(kept.Elements(), ElementsAre(0, 0, 0, 0, 3, 4, 0, 0, 5, 6));
  RetainRows(rows.blob(), {}, &rows.blob());  // over itself
  EXPECT_THAT(rows.blob().indices, IsEmpty());
}

TEST(StoreAllRowsTest, NewRowsAreZero) {
  Array<float> dense({4, 2}, {0, 0, 1, 2, 0, 0, 3, 0}), rows(kRows, {4, 2});
  CopyParts(dense.blob(), kWriteTo, &rows.blob());
  for (int i = 0; i < 2; ++i) {
    StoreAllRows(&rows.blob());
    EXPECT_THAT(rows.blob().indices, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(rows.Elements(), ElementsAre(0, 0, 1, 2, 0, 0, 3, 0));
  }
}

TEST(GatherStoredRowsTest, RowsThatAreNotStoredAreZero) {
  Array<float> dense({4, 2}, {0, 0, 1, 2, 0, 0, 3, 0}), rows(kRows, {4, 2}), out({3, 2}, {});
  CopyParts(dense.blob(), kWriteTo, &rows.blob());
  std::vector<int64_t> indices = {3, 2, 1};
  const Positions positions = PositionsOf(indices, 4);
  out.blob().values.dptr<float>()[2] = 8;
  GatherStoredRows(positions, rows.blob(), out.blob().values, kWriteTo);
  EXPECT_THAT(out.Elements(), ElementsAre(3, 0, 0, 0, 1, 2));
  GatherStoredRows(positions, rows.blob(), out.blob().values, kAddTo);
  EXPECT_THAT(out.Elements(), ElementsAre(6, 0, 0, 0, 2, 4));
}

using Ranges = std::vector<std::pair<index_t, index_t>>;

TEST(SliceCsrTest, TakesRowsAndColumns) {
  std::mt19937 random(4);
  const TShape shape{9, 11};
  const std::vector<double> elements = Pattern(shape, 0.4, &random);
  Array<float> dense(shape, elements), csr(kCsr, shape);
  CopyParts(dense.blob(), kWriteTo, &csr.blob());
  for (const auto& [begin, end] : Ranges{{0, 9}, {2, 5}, {4, 4}, {8, 9}}) {
    for (const auto& [left, right] : Ranges{{0, 11}, {3, 4}, {5, 5}}) {
      const TShape part{end - begin, right - left};
      Array<float> sliced(kCsr, part);
      SliceCsr(csr.blob(), begin, end, left, right, &sliced.blob());
      std::vector<double> expected;
      for (index_t i = begin; i < end; ++i) {
        for (index_t j = left; j < right; ++j) {
          expected.push_back(elements[static_cast<size_t>(i * 11 + j)]);
        }
      }
      EXPECT_EQ(sliced.Elements(), expected);
    }
  }
}

TEST(SortColumnsTest, ElementsFollowTheirColumns) {
  Array<float> csr(kCsr, {3, 4}), sorted(kCsr, {3, 4});
  csr.Allocate(4, &csr.blob());
  sorted.Allocate(4, &sorted.blob());
  const std::vector<int64_t> columns = {3, 0, 2, 1}, ends = {0, 3, 3, 4};
  std::copy(columns.begin(), columns.end(), csr.blob().indices.begin());
  std::copy(ends.begin(), ends.end(), csr.blob().indptr.begin());
  for (int i = 0; i < 4; ++i) csr.blob().values.dptr<float>()[i] = static_cast<float>(i + 1);
  EXPECT_FALSE(HasSortedColumns(csr.blob()));
  SortColumns(csr.blob(), &sorted.blob());
  EXPECT_TRUE(HasSortedColumns(sorted.blob()));
  EXPECT_THAT(sorted.blob().indices, ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(sorted.Elements(), ElementsAre(2, 0, 3, 1, 0, 0, 0, 0, 0, 4, 0, 0));
}

TEST(ConcatCsrTest, RowsFollowEachOther) {
  std::mt19937 random(5);
  std::vector<std::unique_ptr<Array<float>>> arrays;
  std::vector<SparseBlob> parts;
  std::vector<double> expected;
  for (const index_t rows : {3, 0, 1, 400}) {
    const TShape shape{rows, 7};
    const std::vector<double> elements = Pattern(shape, rows == 1 ? 0 : 0.4, &random);
    Array<float> dense(shape, elements);
    arrays.push_back(std::make_unique<Array<float>>(kCsr, shape));
    CopyParts(dense.blob(), kWriteTo, &arrays.back()->blob());
    parts.push_back(arrays.back()->blob());
    expected.insert(expected.end(), elements.begin(), elements.end());
  }
  Array<float> whole(kCsr, {404, 7}), empty(kCsr, {0, 7});
  ConcatCsr(parts, &whole.blob());
  EXPECT_EQ(whole.Elements(), expected);
  ConcatCsr({&parts[1], 1}, &empty.blob());
  EXPECT_THAT(empty.blob().indptr, ElementsAre(0));
}

TEST(DenseCopyTest, HasAllElements) {
  std::mt19937 random(6);
  const TShape shape{5, 4};
  const std::vector<double> elements = Pattern(shape, 0.5, &random);
  Array<float> dense(shape, elements);
  for (const StorageType storage : {kRows, kCsr}) {
    Array<float> sparse(storage, shape);
    CopyParts(dense.blob(), kWriteTo, &sparse.blob());
    const DenseCopy copy(sparse.blob());
    EXPECT_EQ(copy.blob().shape, shape);
    const float* const values = copy.blob().values.dptr<float>();
    EXPECT_THAT(std::vector<double>(values, values + shape.Size()), ElementsAreArray(elements));
  }
}

TEST(ReadIndicesTest, NoNumberIsAnIndexThatItIsNot) {
  std::vector<float> numbers = {2.9f, -0.5f, 1e30f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<int64_t> indices(4);
  ReadIndices(TBlob(numbers.data(), TShape{4}, DType::kFloat32, Device::Cpu()), indices);
  EXPECT_EQ(indices[0], 2);
  EXPECT_EQ(indices[1], 0);
  EXPECT_EQ(indices[2], std::numeric_limits<int64_t>::max());
  EXPECT_LT(indices[3], 0);
}

}  // namespace
}  // namespace tessera::ops_internal
