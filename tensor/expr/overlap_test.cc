// Assignments whose operands share memory with the destination give what they would give if the
// whole right side were computed first; those that can run in place do, without a temporary.
#include "tessera/tensor/expr/overlap.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/device/scratch.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using tensor_internal::Scratch;

using Matrix = Tensor<cpu, 2, float>;

// Every byte that a place holds.
std::set<uintptr_t> BytesOf(const MemoryPlace& place) {
  std::set<uintptr_t> bytes;
  for (index_t y = 0; y < place.rows; ++y) {
    for (index_t x = 0; x < place.columns; ++x) {
      const uintptr_t first = place.begin + static_cast<uintptr_t>(y * place.row_stride_bytes +
                                                                   x * place.column_stride_bytes);
      for (index_t i = 0; i < place.element_bytes; ++i) bytes.insert(first + i);
    }
  }
  return bytes;
}

TEST(MemoryPlaceTest, OverlapIsNeverMissedAndColumnBlocksAreToldApart) {
  std::vector<MemoryPlace> places;
  for (const uintptr_t offset : {0, 4, 8, 20, 24, 40, 44}) {
    for (const index_t rows : {0, 1, 2, 3}) {
      for (const index_t columns : {0, 1, 2, 4}) {
        for (const index_t stride : {16, 20, 24}) {
          for (const index_t step : {4, 8}) {
            if ((columns - 1) * step + 4 > stride) continue;
            places.push_back({.begin = 4096 + offset,
                              .rows = rows,
                              .columns = columns,
                              .element_bytes = 4,
                              .row_stride_bytes = stride,
                              .column_stride_bytes = step});
          }
        }
      }
    }
  }
  index_t exact_rows = 0, exact_vectors = 0;
  for (const MemoryPlace& a : places) {
    const std::set<uintptr_t> bytes = BytesOf(a);
    for (const MemoryPlace& b : places) {
      bool shared = false;
      for (const uintptr_t byte : BytesOf(b)) shared = shared || bytes.count(byte) > 0;
      EXPECT_TRUE(a.Overlaps(b) || !shared);
      EXPECT_EQ(a.Overlaps(b), b.Overlaps(a));
      // Dense rows the same distance apart, and vectors with one step: the answer is exact.
      const bool alike_rows = a.row_stride_bytes == b.row_stride_bytes &&
                              a.column_stride_bytes == 4 && b.column_stride_bytes == 4 &&
                              a.rows > 1 && b.rows > 1 && a.columns > 0 && b.columns > 0;
      const bool alike_vectors = a.rows == 1 && b.rows == 1 && a.columns > 1 && b.columns > 1 &&
                                 a.column_stride_bytes == b.column_stride_bytes;
      if ((alike_rows || alike_vectors) && a.begin < b.end() && b.begin < a.end()) {
        EXPECT_EQ(a.Overlaps(b), shared) << a.begin << " " << b.begin;
        ++(alike_rows ? exact_rows : exact_vectors);
      }
    }
  }
  EXPECT_GT(exact_rows, 100);
  EXPECT_GT(exact_vectors, 100);
}

TEST(OverlapTest, SquareMatricesTransposeInPlace) {
  for (const index_t n : {1, 2, 3, 7, 8, 9, 33, 200}) {
    for (const index_t padding : {0, 3}) {
      GuardedTensor<2, float> a(Shape2(n, n), RandomValues<float>(n * n, -1, 1),
                                GuardedLayout{.row_padding = padding});
      const std::vector<float> old = a.values();
      *a = a->T();
      for (index_t y = 0; y < n; ++y) {
        for (index_t x = 0; x < n; ++x) {
          ASSERT_EQ((*a)[y][x], old[static_cast<size_t>(x * n + y)]);
        }
      }
      *a += a->T() * 2;
      for (index_t y = 0; y < n; ++y) {
        for (index_t x = 0; x < n; ++x) {
          const float expected =
              old[static_cast<size_t>(x * n + y)] + old[static_cast<size_t>(y * n + x)] * 2;
          ASSERT_EQ((*a)[y][x], expected);
        }
      }
      EXPECT_TRUE(a.GuardsIntact());
    }
  }
}

TEST(OverlapTest, ShiftedVectors) {
  for (const index_t n : {2, 3, 4, 5, 8, 9, 17, 70000}) {
    for (const index_t shift : {1, 3}) {
      if (shift >= n) continue;
      const std::vector<float> old = RandomValues<float>(n, -1, 1);
      GuardedTensor<1, float> v(Shape1(n), old);
      v->Slice(shift, n) = v->Slice(0, n - shift) + 1;
      std::vector<float> expected = old;
      for (index_t i = shift; i < n; ++i) {
        expected[static_cast<size_t>(i)] = old[static_cast<size_t>(i - shift)] + 1;
      }
      ExpectSameValues(v.values(), expected, "up");
      v.Set(old);
      v->Slice(0, n - shift) -= v->Slice(shift, n);
      expected = old;
      for (index_t i = 0; i + shift < n; ++i) {
        expected[static_cast<size_t>(i)] =
            old[static_cast<size_t>(i)] - old[static_cast<size_t>(i + shift)];
      }
      ExpectSameValues(v.values(), expected, "down");
    }
  }
}

TEST(OverlapTest, BroadcastsOfTheDestinationItself) {
  const std::vector<float> old = RandomValues<float>(5 * 9, -1, 1);
  GuardedTensor<2, float> m(Shape2(5, 9), old, GuardedLayout{.row_padding = 1});
  *m = *m - repmat((*m)[2], 5);  // row 2 becomes 0 while the rows after it still need it
  for (size_t y = 0; y < 5; ++y) {
    for (size_t x = 0; x < 9; ++x) {
      EXPECT_EQ(m.values()[y * 9 + x], old[y * 9 + x] - old[2 * 9 + x]);
    }
  }
}

TEST(OverlapTest, ViewsOfOneBufferWithDifferentStrides) {
  std::vector<float> buffer = RandomValues<float>(40, -1, 1);
  const std::vector<float> old = buffer;
  const Matrix narrow(buffer.data(), Shape2(4, 5), 5, nullptr);
  Matrix wide(buffer.data(), Shape2(4, 5), 8, nullptr);
  wide = narrow * 2;
  for (index_t y = 0; y < 4; ++y) {
    for (index_t x = 0; x < 5; ++x) {
      EXPECT_EQ(buffer[static_cast<size_t>(y * 8 + x)], old[static_cast<size_t>(y * 5 + x)] * 2);
    }
  }
}

TEST(OverlapTest, ContainersTakeTheirOwnTranspose) {
  TensorContainer<cpu, 2, float> c(Shape2(3, 5));
  for (index_t y = 0; y < 3; ++y) {
    for (index_t x = 0; x < 5; ++x) c[y][x] = static_cast<float>(y * 10 + x);
  }
  c = c.T();
  ASSERT_EQ(c.shape_, Shape2(5, 3));
  for (index_t y = 0; y < 5; ++y) {
    for (index_t x = 0; x < 3; ++x) EXPECT_EQ(c[y][x], static_cast<float>(x * 10 + y));
  }
}

TEST(OverlapTest, WhatCanRunInPlaceNeedsNoTemporary) {
  const index_t n = 64;
  GuardedTensor<2, float> a(Shape2(n, n), RandomValues<float>(n * n, -1, 1));
  GuardedTensor<2, float> b(Shape2(n, n), RandomValues<float>(n * n, -1, 1, 2));
  { Scratch<cpu>().Allocate(1); }  // the thread's first block
  const int64_t before = tensor_internal::ScratchAllocations();
  *a = *a * 2 + *b;
  *a += *b;
  *b = b->T();  // 16 KB, which the first block holds
  // Two blocks of columns of one matrix touch the same rows but no common element.
  Matrix left(a->dptr_, Shape2(n, n / 2), n, nullptr);
  const Matrix right(a->dptr_ + n / 2, Shape2(n, n / 2), n, nullptr);
  EXPECT_FALSE(expr::ReadsElsewhere(right * 2, expr::PlaceOf(left)));
  EXPECT_FALSE(expr::ReadsElsewhere(*a * 2, expr::PlaceOf(*a)));
  EXPECT_TRUE(expr::ReadsElsewhere(a->T() * 2, expr::PlaceOf(*a)));
  left = right;
  left = right * 2;
  // So do two of its columns.
  View(*a, All(), 0) = View(*a, All(), 1) * 2;
  EXPECT_EQ(tensor_internal::ScratchAllocations(), before);
}

// A node that names no operands, but what it reads: the vector backwards.
struct Backwards : expr::Exp<Backwards, float> {
  using device_type = cpu;
  static constexpr int kRank = 1;
  static constexpr bool kHasPacket = false;
  Tensor<cpu, 1, float> source;

  explicit Backwards(const Tensor<cpu, 1, float>& v) : source(v) {}
  const Shape<1>& shape() const { return source.shape_; }
  float Eval(index_t, index_t x) const { return source.Eval(0, source.shape_[0] - 1 - x); }
  bool IsFlat() const { return true; }
  bool Reads(const MemoryPlace& place) const { return expr::PlaceOf(source).Overlaps(place); }
};

TEST(OverlapTest, NodesMaySayWhatTheyRead) {
  GuardedTensor<1, float> v(Shape1(3), std::vector<float>{1, 2, 3});
  GuardedTensor<1, float> w(Shape1(3), std::vector<float>{4, 5, 6});
  *v = Backwards(*v) * 2 + *w;
  EXPECT_EQ(v.values(), (std::vector<float>{10, 9, 8}));
  EXPECT_TRUE(expr::ReadsAnywhere(Backwards(*v) + *w, expr::PlaceOf(*v)));
  EXPECT_FALSE(expr::ReadsElsewhere(Backwards(*w) + *v, expr::PlaceOf(*v)));
}

TEST(OverlapTest, RepeatedTemporariesAllocateOnce) {
  const index_t n = 300;
  GuardedTensor<2, float> a(Shape2(n, n), RandomValues<float>(n * n, -1, 1));
  *a = a->T();
  *a = a->T();
  const int64_t before = tensor_internal::ScratchAllocations();
  for (int i = 0; i < 20; ++i) *a = a->T();
  EXPECT_EQ(tensor_internal::ScratchAllocations(), before);
}

TEST(OverlapTest, NoAliasLeavesTheCheckOut) {
  // The result of a shifted assignment then depends on the order of the loop: a caller who says
  // NoAlias must be right. Here the row is so short that no packet hides the dependence.
  std::vector<float> buffer = {1, 2};
  Tensor<cpu, 1, float> all(buffer.data(), Shape1(2));
  GuardedTensor<1, float> other(Shape1(2), std::vector<float>{5, 6});
  NoAlias(all) = *other * 2;
  EXPECT_EQ(buffer, (std::vector<float>{10, 12}));
  NoAlias(all) += 1;
  all.noalias() -= *other;
  EXPECT_EQ(buffer, (std::vector<float>{6, 7}));
  NoAlias(all) *= *other;
  NoAlias(all) /= 2.0f;
  EXPECT_EQ(buffer, (std::vector<float>{15, 21}));
  std::vector<float> three = {1, 2, 3};
  Tensor<cpu, 1, float> up(three.data() + 1, Shape1(2)), down(three.data(), Shape1(2));
  NoAlias(up) = F<op::identity>(down);
  EXPECT_EQ(three, (std::vector<float>{1, 1, 1}));
}

TEST(OverlapTest, StoreRefusesToReadItsTargetElsewhere) {
  GuardedTensor<2, float> a(Shape2(3, 3)), b(Shape2(3, 3));
  ExpectError([&] { Store(*a, a->T()); }, Error::kInvalidArgument, {"Store", "(3,3)"});
  *b = Store(*a, *a * 2);
}

}  // namespace
}  // namespace tessera
