#include "tessera/ops/loops/sparse/sparse_pattern.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/float16.h"
#include "tessera/base/tshape.h"
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

/// A matrix of T in some storage type that stores the elements, or rows, that are not 0.
template <typename T>
class Matrix final : public PartsAllocator {
 public:
  Matrix(StorageType storage, const TShape& shape, const std::vector<int>& elements) {
    blob_ = {.storage = storage,
             .shape = shape,
             .values = TBlob(nullptr, shape, kDTypeOf<T>, Device::Cpu()),
             .allocator = this};
    const index_t rows = shape[0], columns = shape[1];
    indptr_.push_back(0);
    for (index_t i = 0; i < rows; ++i) {
      bool has_row = storage == kDense;
      for (index_t j = 0; j < columns; ++j) {
        const int element = elements[static_cast<size_t>(i * columns + j)];
        if (element != 0 && storage == kCsr) indices_.push_back(j);
        if (element != 0 && storage == kCsr) values_.push_back(static_cast<T>(element));
        has_row = has_row || element != 0;
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
      if (storage == kCsr || !has_row) continue;
      indices_.push_back(i);
      for (index_t j = 0; j < columns; ++j) {
        values_.push_back(static_cast<T>(elements[static_cast<size_t>(i * columns + j)]));
      }
    }
    if (storage == kDense) {
      blob_.values.dptr_ = values_.data();
    } else {
      blob_.SetParts(static_cast<index_t>(indices_.size()), values_.data(), indices_.data(),
                     indptr_.data());
    }
  }

  void Allocate(index_t count, SparseBlob* blob) override {
    values_.assign(static_cast<size_t>(count * (blob->storage == kRows ? blob->width() : 1)),
                   T(99));
    indices_.assign(static_cast<size_t>(count), 99);
    indptr_.assign(static_cast<size_t>(blob->shape[0]) + 1, 99);
    blob->SetParts(count, values_.data(), indices_.data(), indptr_.data());
  }

  SparseBlob& blob() { return blob_; }

 private:
  SparseBlob blob_;
  std::vector<T> values_;
  std::vector<int64_t> indices_, indptr_;
};

std::vector<int> Elements(const TShape& shape, double share, std::mt19937* random) {
  std::bernoulli_distribution is_stored(share);
  std::uniform_int_distribution<int> value(1, 9);
  std::vector<int> elements(static_cast<size_t>(shape.Size()));
  for (int& element : elements) element = is_stored(*random) ? value(*random) : 0;
  return elements;
}

template <typename T>
class SparsePatternTest : public ::testing::Test {};
using Types = ::testing::Types<float, double, half_t, int8_t>;
TYPED_TEST_SUITE(SparsePatternTest, Types);

TYPED_TEST(SparsePatternTest, PacksWhatAnArrayHasThere) {
  using T = TypeParam;
  std::mt19937 random(1);
  for (const TShape& shape :
       {TShape{7, 5}, TShape{1, 1}, TShape{0, 3}, TShape{3, 0}, TShape{60, 90}}) {
    for (const double share : {0.0, 0.3, 1.0}) {
      const std::vector<int> pattern_elements = Elements(shape, share, &random);
      const std::vector<int> elements = Elements(shape, 0.4, &random);
      for (const StorageType of_pattern : {kRows, kCsr}) {
        Matrix<T> stored(of_pattern, shape, pattern_elements);
        const SparsePattern pattern(stored.blob());
        // The elements at the pattern, in its order.
        std::vector<T> expected;
        const index_t width = shape[1];
        for (index_t i = 0; i < shape[0]; ++i) {
          bool has_row = false;
          for (index_t j = 0; j < width; ++j) {
            has_row = has_row || pattern_elements[static_cast<size_t>(i * width + j)] != 0;
          }
          for (index_t j = 0; j < width; ++j) {
            const auto k = static_cast<size_t>(i * width + j);
            if (of_pattern == kRows ? has_row : pattern_elements[k] != 0) {
              expected.push_back(static_cast<T>(elements[k]));
            }
          }
        }
        ASSERT_EQ(pattern.size(), static_cast<index_t>(expected.size()));
        for (const StorageType storage : {kDense, kRows, kCsr}) {
          Matrix<T> array(storage, shape, elements);
          std::unique_ptr<char[]> memory;
          const TBlob packed = pattern.Pack(array.blob(), &memory);
          ASSERT_EQ(packed.shape_, (TShape{pattern.size()}));
          const T* const values = packed.template dptr<T>();
          EXPECT_THAT(std::vector<T>(values, values + pattern.size()), ElementsAreArray(expected))
              << of_pattern << storage << shape;
        }
      }
    }
  }
}

TEST(SparsePatternOfOneTest, IsPackedInPlace) {
  Matrix<float> rows(kRows, {3, 2}, {0, 0, 1, 2, 3, 0}), csr(kCsr, {3, 2}, {0, 0, 1, 2, 3, 0});
  for (SparseBlob* const blob : {&rows.blob(), &csr.blob()}) {
    std::unique_ptr<char[]> memory;
    const TBlob packed = SparsePattern(*blob).Pack(*blob, &memory);
    EXPECT_EQ(packed.dptr_, blob->values.dptr_);
    EXPECT_EQ(memory, nullptr);
  }
}

TEST(SparsePatternOfTwoTest, IsWhatEitherOrBothStore) {
  Matrix<float> a(kCsr, {2, 4}, {1, 0, 2, 0, 0, 3, 0, 0}),
      b(kCsr, {2, 4}, {1, 4, 0, 5, 0, 0, 0, 0});
  Matrix<float> either(kCsr, {2, 4}, std::vector<int>(8)), both(kCsr, {2, 4}, std::vector<int>(8));
  SparsePattern moved = SparsePattern::Intersection(a.blob(), b.blob());
  EXPECT_EQ(moved.size(), 1);
  moved = SparsePattern::Union(a.blob(), b.blob());
  EXPECT_EQ(moved.size(), 5);
  moved.Allocate(&either.blob());
  EXPECT_THAT(either.blob().indices, ElementsAre(0, 1, 2, 3, 1));
  EXPECT_THAT(either.blob().indptr, ElementsAre(0, 4, 5));
  SparsePattern::Intersection(a.blob(), b.blob()).Allocate(&both.blob());
  EXPECT_THAT(both.blob().indices, ElementsAre(0));
  EXPECT_THAT(both.blob().indptr, ElementsAre(0, 1, 1));

  Matrix<float> c(kRows, {4, 1}, {1, 0, 2, 3}), d(kRows, {4, 1}, {0, 0, 4, 5});
  Matrix<float> rows(kRows, {4, 1}, std::vector<int>(4));
  SparsePattern::Union(c.blob(), d.blob()).Allocate(&rows.blob());
  EXPECT_THAT(rows.blob().indices, ElementsAre(0, 2, 3));
  SparsePattern::Intersection(c.blob(), d.blob()).Allocate(&rows.blob());
  EXPECT_THAT(rows.blob().indices, ElementsAre(2, 3));
  Matrix<float> none(kRows, {4, 1}, std::vector<int>(4));
  SparsePattern::Intersection(c.blob(), none.blob()).Allocate(&rows.blob());
  EXPECT_THAT(rows.blob().indices, IsEmpty());
}

TEST(SparsePatternOfCsrTest, ADenseArrayIsBroadcastToIt) {
  Matrix<float> csr(kCsr, {2, 3}, {1, 0, 1, 0, 1, 1});
  const SparsePattern pattern(csr.blob());
  std::vector<float> numbers = {10, 20, 30};
  const std::pair<TShape, std::vector<float>> cases[] = {
      {TShape{3}, {10, 30, 20, 30}},    {TShape{1, 3}, {10, 30, 20, 30}},
      {TShape{2, 1}, {10, 10, 20, 20}}, {TShape{1, 1}, {10, 10, 10, 10}},
      {TShape{1}, {10, 10, 10, 10}},    {TShape::OfRank(0), {10, 10, 10, 10}}};
  for (const auto& [shape, expected] : cases) {
    const SparseBlob dense{.shape = shape,
                           .values = TBlob(numbers.data(), shape, DType::kFloat32, Device::Cpu())};
    std::unique_ptr<char[]> memory;
    const TBlob packed = pattern.Pack(dense, &memory);
    const float* const values = packed.dptr<float>();
    EXPECT_THAT(std::vector<float>(values, values + 4), ElementsAreArray(expected)) << shape;
  }
}

}  // namespace
}  // namespace tessera::ops_internal
