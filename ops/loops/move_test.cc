#include "tessera/ops/loops/move.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/tensor/device/copy_bytes.h"

namespace tessera::ops_internal {
namespace {

/// A dimension of a copy, with strides of both views in elements.
struct Dimension {
  index_t extent, from, to;
};

template <typename T>
struct Views {
  StridedView from, to;

  Views(const std::vector<T>& in, std::vector<T>* out, index_t in_begin, index_t out_begin,
        const std::vector<Dimension>& dimensions) {
    from.dtype = to.dtype = kDTypeOf<T>;
    from.data = const_cast<T*>(in.data()) + in_begin;
    to.data = out->data() + out_begin;
    for (const Dimension& d : dimensions) {
      from.Append(d.extent, d.from);
      to.Append(d.extent, d.to);
    }
  }
};

/// Copies element by element.
template <typename T>
void CopyPlainly(const StridedView& from, const StridedView& to, bool add, int d = 0,
                 index_t in = 0, index_t out = 0) {
  if (d == from.num_dims) {
    const T value = static_cast<const T*>(from.data)[in];
    T& target = static_cast<T*>(to.data)[out];
    target = add ? static_cast<T>(target + value) : value;
    return;
  }
  const auto k = static_cast<size_t>(d);
  for (index_t i = 0; i < from.extents[k]; ++i) {
    CopyPlainly<T>(from, to, add, d + 1, in + i * from.strides[k], out + i * to.strides[k]);
  }
}

template <typename T>
void ExpectMoves(index_t in_size, index_t out_size, index_t in_begin, index_t out_begin,
                 const std::vector<Dimension>& dimensions) {
  std::vector<T> in(static_cast<size_t>(in_size)), old(static_cast<size_t>(out_size));
  std::mt19937 random(7);
  for (T& x : in) x = static_cast<T>(random() % 100);
  for (T& x : old) x = static_cast<T>(random() % 100);
  for (const OpReqType req : {kWriteTo, kAddTo, kNullOp}) {
    std::vector<T> expected = old, actual = old;
    const Views<T> plain(in, &expected, in_begin, out_begin, dimensions);
    if (req != kNullOp) CopyPlainly<T>(plain.from, plain.to, req == kAddTo);
    const Views<T> views(in, &actual, in_begin, out_begin, dimensions);
    Move(views.from, views.to, req, OpContext());
    EXPECT_EQ(actual, expected) << "request " << static_cast<int>(req) << ", type " << kDTypeOf<T>;
  }
}

void ExpectMovesOfAllSizes(index_t in_size, index_t out_size, index_t in_begin, index_t out_begin,
                           const std::vector<Dimension>& dimensions) {
  ExpectMoves<uint8_t>(in_size, out_size, in_begin, out_begin, dimensions);
  ExpectMoves<int16_t>(in_size, out_size, in_begin, out_begin, dimensions);
  ExpectMoves<float>(in_size, out_size, in_begin, out_begin, dimensions);
  ExpectMoves<double>(in_size, out_size, in_begin, out_begin, dimensions);
}

TEST(MoveTest, CopiesEveryKindOfView) {
  ExpectMovesOfAllSizes(1, 1, 0, 0, {});
  ExpectMovesOfAllSizes(100, 100, 0, 0, {{100, 1, 1}});
  ExpectMovesOfAllSizes(100, 100, 3, 2, {{97, 1, 1}});
  ExpectMovesOfAllSizes(100, 100, 99, 0, {{100, -1, 1}});  // reversed
  ExpectMovesOfAllSizes(100, 100, 0, 99, {{100, 1, -1}});  // reversed in the output
  ExpectMovesOfAllSizes(1, 100, 0, 0, {{100, 0, 1}});      // repeated
  ExpectMovesOfAllSizes(10, 100, 0, 0, {{10, 1, 10}, {10, 0, 1}});
  ExpectMovesOfAllSizes(10, 100, 0, 0, {{10, 0, 10}, {10, 1, 1}});
  ExpectMovesOfAllSizes(100, 50, 1, 0, {{33, 3, 1}});  // every third
  ExpectMovesOfAllSizes(50, 100, 0, 1, {{33, 1, 3}});
  ExpectMovesOfAllSizes(0, 0, 0, 0, {{0, 1, 1}, {3, 1, 1}});  // empty
  for (const index_t run : {1, 2, 3, 4, 5, 8, 16, 17}) {      // short rows
    ExpectMovesOfAllSizes(40 * run, 21 * run, 0, 0, {{20, 2 * run, run}, {run, 1, 1}});
  }
}

TEST(MoveTest, TransposesTilesWholeAndInPart) {
  for (const index_t m : {1, 3, 16, 31, 64, 130}) {
    for (const index_t n : {2, 15, 16, 63, 64, 200}) {
      ExpectMoves<float>(m * n, m * n, 0, 0, {{n, 1, m}, {m, n, 1}});
      ExpectMoves<uint8_t>(m * n, m * n, 0, 0, {{n, 1, m}, {m, n, 1}});
    }
  }
  ExpectMovesOfAllSizes(3 * 70 * 90, 3 * 70 * 90, 0, 0,
                        {{3, 6300, 6300}, {90, 1, 70}, {70, 90, 1}});
  // Dimensions 0 and 2 change places; the block's two dimensions are no neighbours.
  ExpectMovesOfAllSizes(20 * 7 * 33, 20 * 7 * 33, 0, 0, {{33, 1, 140}, {7, 33, 20}, {20, 231, 1}});
}

TEST(MoveTest, CopiesRandomPermutationsOfSlices) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const int rank = 1 + static_cast<int>(random() % 5);
    std::vector<Dimension> dimensions(static_cast<size_t>(rank));
    std::vector<size_t> order(dimensions.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::shuffle(order.begin(), order.end(), random);
    index_t in_size = 1, out_size = 1, in_begin = 0, out_begin = 0;
    for (auto& d : dimensions) d.extent = 1 + static_cast<index_t>(random() % 9);
    for (const size_t k : order) {  // the input's order of dimensions, innermost first
      Dimension& d = dimensions[k];
      const index_t step = 1 + static_cast<index_t>(random() % 2);
      d.from = in_size * step;
      in_size *= d.extent * step;
      if (random() % 3 == 0) {
        in_begin += d.from * (d.extent - 1);
        d.from = -d.from;
      }
    }
    for (size_t k = dimensions.size(); k-- > 0;) {
      dimensions[k].to = out_size;
      out_size *= dimensions[k].extent + static_cast<index_t>(random() % 2);
    }
    ExpectMovesOfAllSizes(in_size, out_size, in_begin, out_begin, dimensions);
  }
}

TEST(MoveTest, LargeCopiesAreSharedByThreads) {
  tbb::task_arena arena(4);
  arena.execute([] {
    ExpectMoves<float>(300000, 300000, 0, 0, {{300000, 1, 1}});
    ExpectMoves<float>(300000, 300000, 0, 0, {{600, 1, 500}, {500, 600, 1}});
    ExpectMoves<float>(1, 300000, 0, 0, {{300000, 0, 1}});
    ExpectMoves<uint8_t>(90000, 90000, 89999, 0, {{90000, -1, 1}});
    ExpectMoves<double>(3 * 50000, 3 * 50000, 0, 0, {{50000, 3, 1}, {3, 1, 50000}});
  });
}

TEST(MoveTest, OutputsPastTheCachesAreTheSame) {
  tensor_internal::least_streamed_bytes.store(1);
  tbb::task_arena arena(4);
  arena.execute([] {
    for (const index_t begin : {0, 1, 5, 16}) {
      ExpectMovesOfAllSizes(100032, 100032, begin, 16 - begin, {{100000, 1, 1}});
      ExpectMovesOfAllSizes(30000, 20100, begin, begin, {{100, 300, 200}, {199, 1, 1}});
      ExpectMovesOfAllSizes(40032, 40032, 3, begin, {{200, 1, 200}, {200, 200, 1}});
    }
    // Tiles whose rows are whole lines, since vectors begin where lines do.
    for (const index_t m : {16, 64, 130}) {
      std::vector<float> in(static_cast<size_t>(m * 128)), out(in.size() + 16), expected(in.size());
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
      const auto address = reinterpret_cast<uintptr_t>(out.data());
      const auto begin = static_cast<index_t>((64 - address % 64) % 64 / sizeof(float));
      const std::vector<Dimension> dimensions = {{m, 1, 128}, {128, m, 1}};
      const Views<float> plain(in, &expected, 0, 0, dimensions);
      CopyPlainly<float>(plain.from, plain.to, /*add=*/false);
      const Views<float> views(in, &out, 0, begin, dimensions);
      Move(views.from, views.to, kWriteTo, OpContext());
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + begin)) << m;
    }
  });
  tensor_internal::least_streamed_bytes.store(tensor_internal::kStreamedBytes);
}

TEST(MoveTest, SumsWrapAroundAndBoolIsOr) {
  std::vector<int8_t> small = {100, -100}, sums = {100, -100};
  const Views<int8_t> of_small(small, &sums, 0, 0, {{2, 1, 1}});
  Move(of_small.from, of_small.to, kAddTo, OpContext());
  EXPECT_EQ(sums, (std::vector<int8_t>{-56, 56}));
  bool in[] = {false, true, false, true}, out[] = {false, false, true, true};
  MoveFlat(TBlob(in, {4}, DType::kBool, Device::Cpu()),
           TBlob(out, {2, 2}, DType::kBool, Device::Cpu()), kAddTo, OpContext());
  EXPECT_TRUE(!out[0] && out[1] && out[2] && out[3]);
}

TEST(MoveTest, ViewsAreSlicedSplitAndPermuted) {
  std::vector<float> data(24);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  StridedView view(TBlob(data.data(), {4, 6}, DType::kFloat32, Device::Cpu()));
  view.Slice(0, 3, -2, 2);  // rows 3 and 1
  view.Split(1, 2, 3);
  const StridedView permuted = view.Permuted(std::vector<int>{2, 0, 1});
  std::vector<float> out(12);
  Move(permuted, StridedView(TBlob(out.data(), {3, 2, 2}, DType::kFloat32, Device::Cpu())),
       kWriteTo, OpContext());
  EXPECT_EQ(out, (std::vector<float>{18, 21, 6, 9, 19, 22, 7, 10, 20, 23, 8, 11}));
}

TEST(MoveTest, ZerosOverwriteAndAddNothing) {
  std::vector<float> data = {1, 2, 3};
  const TBlob blob(data.data(), {3}, DType::kFloat32, Device::Cpu());
  MoveZeros(blob, kAddTo, OpContext());
  EXPECT_EQ(data, (std::vector<float>{1, 2, 3}));
  MoveZeros(blob, kWriteTo, OpContext());
  EXPECT_EQ(data, (std::vector<float>{0, 0, 0}));
}

}  // namespace
}  // namespace tessera::ops_internal
