#include "tessera/tensor/inspect/inspect.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/index/take.h"
#include "tessera/tensor/inspect/inspect_tree.h"
#include "tessera/tensor/linalg/batch_gemm.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/nn/window_pool.h"
#include "tessera/tensor/packet/packet.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reduce_axis.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/concat.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using tensor_internal::kDefaultElementsPerTask;
using tensor_internal::PacketTraits;
using tensor_internal::RunsAvx2;
using testing::HasSubstr;
using testing::Not;

constexpr index_t kPacket = PacketTraits<float>::kSize;
// Of loops over a row of 32 elements and more.
const index_t loop_packet = RunsAvx2() ? 8 : kPacket;
constexpr const char* kVectors = "blocks of 32, which the compiler puts into vectors";
constexpr const char* kTooFew = "one element at a time, since a row has too few for packets";

struct Cube {
  TESSERA_HD static float Map(float a) { return a * a * a; }
};

// Counts how it is asked.
struct Counted {
  static inline int packets = 0;
  static float Map(float a) { return a + 1; }
  template <typename P>
  static P PacketMap(const P& a) {
    ++packets;
    return pk::padd(a, pk::pset1<P>(1.0f));
  }
};

// A tensor of which Inspect needs no more than the shape.
template <typename T = float, int N>
Tensor<cpu, N, T> Unallocated(const Shape<N>& shape) {
  return Tensor<cpu, N, T>(nullptr, shape);
}

class InspectTest : public testing::Test {
 protected:
  GuardedTensor<2, float> a{Shape2(5, 9), RandomValues<float>(45, -1, 1)};
  GuardedTensor<2, float> b{Shape2(5, 9), RandomValues<float>(45, -1, 1)};
  GuardedTensor<2, float> r{Shape2(5, 9), std::vector<float>(45, 7.0f)};

  // The first pass of dst Saver= e, which holds F<Counted>, is in packets where Inspect says so.
  template <typename Saver = sv::saveto, typename Dst, typename E>
  static void ExpectAgreement(const Dst& dst, const E& e) {
    const std::string text = Inspect<Saver>(dst, e);
    Counted::packets = 0;
    expr::Assign<Saver>(dst, e);
    const bool said = text.substr(0, text.find('\n')).find("packets of") != text.npos;
    EXPECT_EQ(said, Counted::packets > 0) << text;
  }
};

TEST_F(InspectTest, ElementwiseExpressionsTakeOnePass) {
  const std::string text = Inspect(*r, *a * *b + *a);
  EXPECT_THAT(text, HasSubstr("pass 1: writes (5,9) float32 as one row; reads 3, writes 1"));
  EXPECT_THAT(text, HasSubstr("packets of " + std::to_string(loop_packet)));
  EXPECT_THAT(text, HasSubstr("1 thread"));
  EXPECT_THAT(text, HasSubstr("temporaries: none"));
  EXPECT_THAT(text, Not(HasSubstr("pass 2")));
  EXPECT_EQ(Inspect(*a * *b + *a), text);
  EXPECT_THAT(Inspect(*r, F<Cube>(*a)), HasSubstr(kVectors));
  const auto few = (*a)[0];
  EXPECT_THAT(Inspect(few, F<Cube>(few)), HasSubstr("one element at a time"));
  EXPECT_THAT(Inspect(*r, 3), HasSubstr("reads 0, writes 1"));
  EXPECT_THAT(Inspect<sv::plusto>(*r, *a), HasSubstr("reads 2, writes 1"));
  EXPECT_THAT(Inspect(*r, Store(*b, *a * 2) + *a), HasSubstr("reads 2, writes 2"));
}

TEST_F(InspectTest, ShortRowsAreMerged) {
  const Tensor<cpu, 4> images(nullptr, Shape4(2, 3, 7, 7)), padded(nullptr, Shape4(2, 3, 7, 7), 8);
  const Tensor<cpu, 1> channels(nullptr, Shape1(3));
  const auto channel = broadcast<1>(channels, images.shape_);
  EXPECT_THAT(Inspect(images * channel),
              HasSubstr("writes (2,3,7,7) float32, its last 2 dimensions as one, row by row; "));
  EXPECT_THAT(Inspect(images * channel), HasSubstr("; packets"));
  EXPECT_THAT(Inspect(padded, images * channel), HasSubstr("(2,3,7,7) float32 row by row"));
  EXPECT_THAT(Inspect(padded * channel), HasSubstr("(2,3,7,7) float32 row by row"));
  EXPECT_THAT(
      Inspect(images * broadcast_to(Tensor<cpu, 4>(nullptr, Shape4(1, 1, 1, 1)), images.shape_)),
      HasSubstr("its last 4 dimensions as one"));
}

TEST_F(InspectTest, ReductionsInsideAreCountedAndNotRun) {
  const std::string text = Inspect(*r, (*a - sum(*a * *b)) / (maximum<1>(*b).spread() + 1));
  EXPECT_THAT(text, HasSubstr("pass 1: reduces (5,9) float32 to a number; reads 2 per element"));
  EXPECT_THAT(text, HasSubstr("pass 2: reduces (5,9) float32 to (5,) float32"));
  EXPECT_THAT(text, HasSubstr("pass 3: writes (5,9) float32 row by row; reads 2, writes 1"));
  EXPECT_THAT(text, HasSubstr("temporaries: (5,) float32"));
  EXPECT_EQ(r.values(), std::vector<float>(45, 7.0f));
  EXPECT_THAT(Inspect(sum(*a)), HasSubstr("pass 1: reduces (5,9) float32 to a number"));
  const std::string whole = Inspect(1 + sum_rows(*a));
  EXPECT_THAT(whole, HasSubstr("pass 1: reduces (5,9) float32 to (9,) float32; reads 1"));
  EXPECT_THAT(whole, HasSubstr("pass 2: writes (9,) float32"));
}

TEST_F(InspectTest, AReductionAloneGoesStraightToItsDestination) {
  GuardedTensor<1, float> rows(Shape1(5));
  const std::string text = Inspect(*rows, sum<1>(*a));
  EXPECT_THAT(text, HasSubstr("pass 1: reduces (5,9) float32 to (5,) float32"));
  EXPECT_THAT(text, Not(HasSubstr("pass 2")));
  EXPECT_THAT(text, HasSubstr("temporaries: none"));
  const std::string added = "pass 2: writes (5,) float32";
  EXPECT_THAT(Inspect<sv::plusto>(*rows, sum<1>(*a)), HasSubstr(added));
  EXPECT_THAT(Inspect(*rows, 1 + sum<1>(*a)), HasSubstr(added));
  EXPECT_THAT(Inspect(*rows, sum<1>(Store(*b, *a))), HasSubstr(added));
  // Of what it would overwrite it is computed first.
  EXPECT_THAT(Inspect((*a)[0].Slice(0, 5), sum<1>(*a)), HasSubstr(added));
  // So does a function of one, unless it has kernels of its own.
  EXPECT_EQ(Inspect(*rows, sqrt(sum<1>(*a))), text);
  EXPECT_THAT(Inspect(*rows, exp(sum<1>(*a))), HasSubstr("pass 2"));
}

TEST_F(InspectTest, AFunctionUnderWindowsIsStored) {
  GuardedTensor<2, float> pooled(Shape2(2, 4));
  const std::string text = Inspect(*pooled, pool<red::maximum>(tanh(*a), 2, 2));
  EXPECT_THAT(text, HasSubstr("pass 1: writes (5,9) float32 to be read many times"));
  EXPECT_THAT(text, HasSubstr("pass 2: writes (2,4) float32"));
  EXPECT_THAT(text, HasSubstr("temporaries: (5,9) float32\n"));
  EXPECT_THAT(Inspect(*pooled, pool<red::maximum>(*a, 2, 2)), HasSubstr("temporaries: none"));
}

TEST_F(InspectTest, EqualReductionsOfOneEvaluationShowOnce) {
  const std::string plain = Inspect(*r, exp(*a) / sum(exp(*a)));
  EXPECT_THAT(plain, HasSubstr("pass 2: writes (5,9) float32"));
  EXPECT_THAT(plain, Not(HasSubstr("pass 3")));
  const auto shifted = *a - maximum(*a);
  const std::string softmax = Inspect(*r, exp(shifted) / sum(exp(shifted)));
  EXPECT_THAT(softmax, HasSubstr("pass 3: writes (5,9) float32"));
  EXPECT_THAT(softmax, Not(HasSubstr("pass 4")));
  const auto centred = *a - mean<1>(*a).spread();
  const std::string of_rows = Inspect(*r, centred / norm<1>(centred).spread());
  EXPECT_THAT(of_rows, HasSubstr("pass 3: writes (5,9) float32"));
  EXPECT_THAT(of_rows, Not(HasSubstr("pass 4")));
  EXPECT_THAT(of_rows, HasSubstr("temporaries: (5,) float32, (5,) float32\n"));
  EXPECT_THAT(Inspect(sum(*a) / (sum(*a) + 1)), Not(HasSubstr("pass 2")));
  EXPECT_THAT(Inspect(*r, *a / sum(*a) + *b / sum(*b)), HasSubstr("pass 3: writes"));
  EXPECT_THAT(Inspect(*r, *a / sum(*a * 2) + *b / sum(*a * 3)), HasSubstr("pass 3: writes"));
  EXPECT_THAT(Inspect(*r, sum(Store(*b, *b + 1)) + sum(Store(*b, *b + 1)) + *a),
              HasSubstr("pass 3: writes"));
  // What is computed as a whole has evaluations of its own.
  GuardedTensor<1, float> v(Shape1(9));
  EXPECT_THAT(Inspect(*v, sum_rows(*a - mean(*a)) + mean(*a)), HasSubstr("pass 4: writes"));
  const std::string product = Inspect(dot(*a - mean(*a), (*b - mean(*a)).T()) + mean(*a));
  EXPECT_THAT(product, HasSubstr("pass 7: writes (5,5) float32"));
}

TEST_F(InspectTest, PacketsAreWhereTheyRun) {
  const index_t wide = 8 * kPacket, narrow = kPacket - 1;
  for (const index_t columns : {narrow, kPacket, 4 * kPacket - 1, 4 * kPacket, wide}) {
    for (const index_t padding : {0, 1}) {
      const GuardedLayout layout{.row_padding = padding};
      GuardedTensor<2, float> x(Shape2(2, columns), RandomValues<float>(2 * columns, -1, 1),
                                layout);
      GuardedTensor<2, float> y(Shape2(2, columns), x.values(), layout);
      GuardedTensor<1, float> rows(Shape1(2)), row(Shape1(columns));
      ExpectAgreement(*y, F<Counted>(*x));
      ExpectAgreement<sv::plusto>(*y, F<Counted>(*x));
      ExpectAgreement(*y, F<Counted>(*x) + F<Cube>(*x));
      ExpectAgreement(*rows, sum<1>(F<Counted>(*x)));
      ExpectAgreement(*row, maximum<0>(F<Counted>(*x)));
      ExpectAgreement(*row, sum_rows(F<Counted>(*x)));
      ExpectAgreement(*rows, sumall_except_dim<0>(F<Counted>(*x)));
      ExpectAgreement(*y, sum(F<Counted>(*x)));
      const auto apart = View(*y, kAll, Range(columns - 1, -1, -1));
      ExpectAgreement(apart, F<Counted>(*x));
      ExpectAgreement(View(*y, kAll, kAll), F<Counted>(*x));
      ExpectAgreement(View(*y, 1, kAll), F<Counted>(View(*x, 0, kAll)));
    }
  }
}

TEST_F(InspectTest, TooFewElementsForPacketsShow) {
  EXPECT_THAT(Inspect(sum<1>(*a)), HasSubstr(kTooFew));
  const auto padded = View(*r, kAll, Range(0, 3));
  EXPECT_THAT(Inspect(padded, View(*a, kAll, Range(0, 3))), HasSubstr(kTooFew));
  const auto all = Unallocated<int32_t>(Shape1(1000));
  EXPECT_THAT(Inspect(sum(all)), HasSubstr("; one element at a time;"));  // added up in 64 bits
  EXPECT_THAT(Inspect<sv::divto>(all, all), HasSubstr(kVectors));
}

TEST_F(InspectTest, LoopsOfANodesOwnAreNotPackets) {
  const auto joined = concat<0>(a->Slice(0, 2), a->Slice(2, 5));
  const std::string text = Inspect(*r, joined);
  EXPECT_THAT(text, HasSubstr("row by row"));
  EXPECT_THAT(text, HasSubstr("the node's own loop for a row"));
  // They write, and do not combine.
  EXPECT_THAT(Inspect<sv::plusto>(*r, joined), Not(HasSubstr("own loop")));
  EXPECT_THAT(Inspect(*r, joined + 1), Not(HasSubstr("own loop")));
}

TEST_F(InspectTest, NodesThatShareWorkRunInBlocks) {
  GuardedTensor<1, float> column_sums(Shape1(9));
  const auto sums = reduce_with_axis<red::sum, false>(*a, 0);
  EXPECT_THAT(Inspect(*column_sums, sums), HasSubstr("the node's own loop for a row"));
  const std::string text = Inspect(*column_sums, 2.0f * sums);
  EXPECT_THAT(text, HasSubstr("nodes' own loops over blocks of 1024"));
  EXPECT_THAT(text, Not(HasSubstr("costly functions")));
  EXPECT_THAT(Inspect<sv::plusto>(*column_sums, sums), HasSubstr("nodes' own loops"));
}

TEST_F(InspectTest, ADearOperandOfABroadcastIsStored) {
  const auto sums = reduce_with_axis<red::sum, false>(*a, 0);
  const std::string text = Inspect(*r, *a - broadcast<1>(sums, a->shape_));
  EXPECT_THAT(text, HasSubstr("pass 1: writes (9,) float32 to a temporary"));
  EXPECT_THAT(text, HasSubstr("temporaries: (9,) float32\n"));
  EXPECT_THAT(Inspect(*r, broadcast<1>((*a)[0] + 1, a->shape_)), HasSubstr("temporaries: none"));
}

TEST_F(InspectTest, ATransposeThatIsReducedIsStored) {
  const std::string text = Inspect(sum<1>(a->T()));
  EXPECT_THAT(text, HasSubstr("pass 1: writes (9,5) float32 to a temporary"));
  EXPECT_THAT(text, HasSubstr("pass 2: reduces (9,5) float32 to (9,) float32"));
  EXPECT_THAT(Inspect(sum(a->T() * 2.0f)), HasSubstr("temporaries: (9,5) float32\n"));
}

TEST_F(InspectTest, LoopsChooseAvx2PacketsWhenTheyRun) {
  EXPECT_EQ(Inspect(*r, *a + *b).find("chosen at run time") != std::string::npos, RunsAvx2());
  EXPECT_EQ(Inspect(sum(*a)).find("chosen at run time") != std::string::npos, RunsAvx2());
  const auto matrix = Unallocated(Shape2(8, expr::kMinAvx2Row));
  EXPECT_EQ(Inspect(sum<1>(matrix)).find("chosen at run time") != std::string::npos, RunsAvx2());
  const auto one_less = Unallocated(Shape1(expr::kMinAvx2Row - 1));
  EXPECT_THAT(Inspect(one_less, one_less + one_less), Not(HasSubstr("chosen at run time")));
}

TEST_F(InspectTest, WhatNoCacheHoldsIsStoredPastThem) {
  const auto large = Unallocated(Shape2(4096, 4096));
  EXPECT_THAT(Inspect<sv::plusto>(large, large), Not(HasSubstr("past the caches")));
  // What is read comes into the caches anyway.
  const Tensor<cpu, 2> other(large.dptr_ + large.shape_.Size(), large.shape_);
  EXPECT_THAT(Inspect(large, large - 0.1f * (other + 0.01f * large)),
              Not(HasSubstr("past the caches")));
  EXPECT_EQ(Inspect(large, 0.1f * other).find("past the caches") != std::string::npos, RunsAvx2());
  const auto short_rows = Unallocated(Shape2(1 << 20, 40));
  const Tensor<cpu, 2> padded(nullptr, Shape2(1 << 20, 40), 48, nullptr);
  EXPECT_THAT(Inspect(short_rows, padded), Not(HasSubstr("past the caches")));
  EXPECT_THAT(Inspect(*r, *a), Not(HasSubstr("past the caches")));
}

TEST_F(InspectTest, CostlyFunctionsRunInBlocks) {
  auto costly = exp(*a) + *b;
  constexpr bool kInBlocks = expr::HoldsSpans<decltype(costly)>();
  const std::string text = Inspect(*r, costly);
  EXPECT_THAT(text, HasSubstr("packets of " + std::to_string(loop_packet)));
  EXPECT_EQ(text.find("costly functions over blocks of 1024") != text.npos, kInBlocks) << text;
  if (kInBlocks) {
    EXPECT_THAT(Inspect(*r, exp(F<Cube>(*a))), HasSubstr("the rest: " + std::string(kVectors)));
  }
}

TEST_F(InspectTest, PowersRunInBlocks) {
  const auto expect = [](const auto& r, const auto& power, const std::string& rest) {
    constexpr bool kInBlocks = expr::HoldsSpans<std::remove_cvref_t<decltype(power)>>();
    const std::string text = Inspect(r, power);
    EXPECT_EQ(text.find("costly functions over blocks of 1024") != text.npos, kInBlocks) << text;
    if (kInBlocks) {
      EXPECT_THAT(text, HasSubstr("the rest: " + rest));
    }
  };
  const std::string packets = "packets of " + std::to_string(loop_packet);
  expect(*r, pow(*a, *b), packets);
  expect(*r, pow(*a, 2.5f), packets);
  expect(*r, pow(2.0f, *a + *b), packets);
  expect(*r, pow(*a, *b) * *b, packets);
  expect(*r, pow(*a, F<Cube>(*b)), kVectors);
}

TEST_F(InspectTest, ReductionsOfCostlyFunctionsRunInBlocks) {
  const auto expect = [](const auto& e, index_t block, const std::string& rest, bool spans) {
    const std::string text = Inspect(e);
    const std::string over = "costly functions over blocks of " + std::to_string(block);
    EXPECT_EQ(text.find(over + " by kernels for ") != text.npos, spans) << text;
    if (spans) {
      EXPECT_THAT(text, HasSubstr(", the rest: " + rest));
    }
  };
  constexpr bool kSpans = expr::HoldsSpans<decltype(exp(*a))>();
  const auto large = Unallocated(Shape2(3000, 3000));
  const std::string packets = "packets of " + std::to_string(kPacket);
  const index_t row = expr::kReduceBlock * expr::kReduceChains * kPacket;
  // A tensor's elements go into the functions where they lie, others by buffers.
  expect(sum(exp(large)), row, packets, kSpans);
  expect(sum<1>(exp(large)), row, packets, kSpans);
  expect(sum<0>(exp(large)), expr::kColumnBlock, packets, kSpans);
  expect(sum_rows(exp(large)), expr::kColumnBlock, packets, kSpans);
  expect(sumall_except_dim<0>(exp(large)), row, packets, kSpans);
  expect(sum<1>(exp(large) * large), std::min(row, expr::kSpanBlock<float>), packets, kSpans);
  expect(sum<1>(exp(F<Cube>(large))), 512, "one element at a time", kSpans);
  expect(sum<1>(pow(large, large)), row, packets, kSpans);
  expect(sum<1>(pow(large, 3)), row, packets, kSpans);
  expect(sum<1>(pow(large, large * large)), std::min(row, expr::kSpanBlock<float>), packets,
         kSpans);
  expect(sum<1>(exp(Unallocated(Shape2(9, 3)))), row, kTooFew, kSpans);
  expect(sum(large), row, packets, false);
}

TEST_F(InspectTest, ViewsRunByRows) {
  const std::string column = Inspect(View(*r, kAll, 3), View(*a, kAll, 4));
  EXPECT_THAT(column, HasSubstr("writes (5,) float32 as one row; reads 1, writes 1"));
  EXPECT_THAT(column, HasSubstr("; one element at a time;"));
  EXPECT_THAT(Inspect(View(*r, kAll, kAll), *a), HasSubstr("row by row"));
  EXPECT_THAT(Inspect(View(*r, 1, kAll), View(*r, 1, Range(8, -1, -1))),
              HasSubstr("temporaries: (9,) float32 because an operand shares memory"));
}

TEST_F(InspectTest, ThreadsAreAsManyAsThereAreTasks) {
  tbb::task_arena arena(4);
  const auto inspect = [&](const auto&... inspected) {
    return arena.execute([&] { return Inspect(inspected...); });
  };
  const auto task = Unallocated(Shape1(kDefaultElementsPerTask));
  const auto tasks = Unallocated(Shape1(kDefaultElementsPerTask + 1));
  EXPECT_THAT(inspect(task * 2), HasSubstr("; 1 thread\n"));
  EXPECT_THAT(inspect(tasks * 2), HasSubstr("; up to 2 threads\n"));
  const index_t columns = 2 * kDefaultElementsPerTask;
  const Tensor<cpu, 2, float> padded(nullptr, Shape2(3, columns), columns + 1, nullptr);
  EXPECT_THAT(inspect(padded * 2), HasSubstr("row by row"));
  EXPECT_THAT(inspect(padded * 2), HasSubstr("; up to 3 threads\n"));
  EXPECT_THAT(inspect(sum(padded)), HasSubstr("; up to 2 threads\n"));
  const auto chunks = Unallocated(Shape1(2 * expr::kReduceChunk));
  EXPECT_THAT(inspect(sum(chunks)), HasSubstr("; 1 thread\n"));
  EXPECT_THAT(inspect(sum(exp(chunks))), HasSubstr("; up to 2 threads\n"));
  const auto rows = Unallocated(Shape2(128, 128));
  EXPECT_THAT(inspect(sum<1>(rows)), HasSubstr("; 1 thread\n"));
  EXPECT_THAT(inspect(sum<1>(tanh(rows))), HasSubstr("; up to 4 threads\n"));
  EXPECT_THAT(inspect(sumall_except_dim<0>(tanh(rows))), HasSubstr("; up to 4 threads\n"));
  const auto blocks = Unallocated(Shape2(8, 2 * expr::kColumnBlock));
  EXPECT_THAT(inspect(sum<0>(blocks)), HasSubstr("; 1 thread\n"));
  EXPECT_THAT(inspect(sum<0>(tanh(blocks))), HasSubstr("; up to 2 threads\n"));
  EXPECT_THAT(inspect(sum_rows(tanh(blocks))), HasSubstr("; up to 2 threads\n"));
  const auto large = Unallocated(Shape2(1000, 1000));
  EXPECT_THAT(inspect(sum(large)), HasSubstr("; up to 4 threads\n"));
  EXPECT_THAT(inspect(dot(large, large)), HasSubstr("; up to 4 threads\n"));
  const Tensor<cpu, 3> batch(nullptr, Shape3(500, 64, 64));
  const std::string products = inspect(batch_dot<false, false>(batch, batch));
  EXPECT_THAT(products, HasSubstr("; up to 4 threads\n"));
  EXPECT_THAT(inspect(sum_rows(large)), HasSubstr("; up to 4 threads\n"));
  const std::string one =
      inspect(Unallocated(Shape1(1)), sumall_except_dim<0>(Unallocated(Shape2(1, 20000000))));
  EXPECT_THAT(one, HasSubstr("; up to 4 threads\n"));
  EXPECT_THAT(one, HasSubstr("1221 partial results\n"));
  const std::string along = inspect(sum<1>(Unallocated(Shape2(2, 40000))));
  EXPECT_THAT(along, HasSubstr("; up to 4 threads\n"));
  EXPECT_THAT(along, HasSubstr("temporaries: 6 partial results\n"));
}

TEST_F(InspectTest, ProductsAreOnePassOfTheGemm) {
  GuardedTensor<2, float> x(Shape2(5, 7)), y(Shape2(7, 9));
  const std::string text = Inspect(*r, dot(*x, *y));
  EXPECT_THAT(text, HasSubstr("pass 1: multiplies (5,7) and (7,9) float32 by the GEMM for "));
  EXPECT_THAT(text, HasSubstr("; 1 thread\n"));
  EXPECT_THAT(text, Not(HasSubstr("pass 2")));
  EXPECT_THAT(text, HasSubstr("temporaries: none"));
  EXPECT_EQ(Inspect<sv::minusto>(*r, 0.5f * dot(*x, *y)), text);
  EXPECT_THAT(Inspect(*y, dot(x->T(), *r)), HasSubstr("multiplies (5,7) and (5,9)"));
}

TEST_F(InspectTest, TemporariesOfProductsShow) {
  GuardedTensor<2, float> x(Shape2(5, 7)), y(Shape2(7, 9)), square(Shape2(9, 9));
  const std::string computed = Inspect(*r, dot(*x * 2, *y));
  EXPECT_THAT(computed, HasSubstr("pass 1: writes (5,7) float32"));
  EXPECT_THAT(computed, HasSubstr("pass 2: multiplies (5,7) and (7,9)"));
  EXPECT_THAT(computed, HasSubstr("temporaries: (5,7) float32\n"));
  const std::string inside = Inspect(*r, 1 + dot(*x, *y));
  EXPECT_THAT(inside, HasSubstr("pass 1: multiplies"));
  EXPECT_THAT(inside, HasSubstr("pass 2: writes (5,9) float32"));
  EXPECT_THAT(inside, HasSubstr("temporaries: (5,9) float32\n"));
  const std::string shared = Inspect(*r, dot(*r, *square));
  EXPECT_THAT(shared, HasSubstr("pass 2: copies it to the destination"));
  EXPECT_THAT(shared, HasSubstr("temporaries: (5,9) float32 because an operand shares memory"));
  const std::string scaled = Inspect<sv::multo>(*r, dot(*x, *y));
  EXPECT_THAT(scaled, HasSubstr("pass 2: combines it with the destination"));
  EXPECT_THAT(scaled, HasSubstr("temporaries: (5,9) float32 because a GEMM only adds"));
  EXPECT_THAT(Inspect(View(*square, Range(0, 5), kAll), dot(*x, *y)),
              HasSubstr("pass 2: writes (5,9) float32 row by row"));
  const auto half = Unallocated<half_t>(Shape2(3, 3));
  EXPECT_THAT(Inspect(dot(half, half)), HasSubstr("temporaries: float32 copies of the product"));
  const auto batch = Unallocated(Shape3(2, 3, 3));
  const std::string products = Inspect(batch_dot<false, false>(batch, batch));
  EXPECT_THAT(products, HasSubstr("multiplies (2,3,3) and (2,3,3) float32 one after another by"));
}

TEST_F(InspectTest, OverlapShowsAsATemporary) {
  GuardedTensor<2, float> square(Shape2(4, 4));
  const std::string text = Inspect(*square, square->T());
  EXPECT_THAT(text, HasSubstr("pass 2: copies"));
  EXPECT_THAT(text, HasSubstr("temporaries: (4,4) float32 because an operand shares memory"));
  EXPECT_THAT(Inspect(*square, *square * 2), HasSubstr("temporaries: none"));
  const std::string row = Inspect((*square)[1], sum_rows(*square));
  EXPECT_THAT(row, HasSubstr("pass 1: reduces (4,4) float32 to (4,) float32 in a temporary"));
  EXPECT_THAT(row, HasSubstr("pass 2: copies"));
}

TEST_F(InspectTest, ContainersTakeTheShape) {
  TensorContainer<cpu, 2, float> c(Shape2(9, 5));
  const std::string text = Inspect(c, *a * 2);
  EXPECT_THAT(text, HasSubstr("the destination takes the shape (5,9) in its memory\npass 1: "));
  EXPECT_THAT(text, HasSubstr("temporaries: none"));
  EXPECT_THAT(Inspect(c, c.T()), HasSubstr("temporaries: (5,9) float32 because an operand shares"));
  EXPECT_THAT(Inspect(c, dot(*a, a->T()) + 1), HasSubstr("takes the shape (5,5) in its memory"));
  EXPECT_THAT(Inspect(c, dot(a->T(), *b)), HasSubstr("takes the shape (9,9) in new memory"));
  EXPECT_THAT(Inspect(c, 3), Not(HasSubstr("takes the shape")));
  EXPECT_THAT(Inspect(c, sum(*a) * 2), Not(HasSubstr("takes the shape")));
  EXPECT_EQ(c.shape_, Shape2(9, 5));
  c = c.T();
  EXPECT_EQ(c.shape_, Shape2(5, 9));
  EXPECT_THAT(Inspect(c, *a), HasSubstr("pass 1: writes (5,9)"));
  ExpectError([&] { Inspect<sv::plusto>(c, a->T()); }, Error::kInvalidArgument, {"(9,5)", "(5,9)"});
}

TEST_F(InspectTest, ATensorAssignedToATensorIsAHandle) {
  EXPECT_THAT(Inspect(*r, *a), HasSubstr("no pass"));
  EXPECT_THAT(Inspect(*r, *a), Not(HasSubstr("pass 1")));
  EXPECT_THAT(Inspect(View(*r, kAll, kAll), *a), HasSubstr("pass 1"));
}

TEST_F(InspectTest, OnAGpuEachPassIsAKernel) {
  const Tensor<gpu, 2, float> x(nullptr, Shape2(5, 9)), y(nullptr, Shape2(5, 9));
  const Tensor<gpu, 1, float> v(nullptr, Shape1(9));
  EXPECT_EQ(Inspect(y, x * 2 + y),
            "pass 1: writes (5,9) float32 as one row; reads 2, writes 1 per element; "
            "one CUDA kernel\ntemporaries: none\n");
  // A number is read from where its reduction left it.
  EXPECT_EQ(Inspect(sum(x)),
            "pass 1: reduces (5,9) float32 to a number; reads 1 per element; one CUDA kernel\n"
            "temporaries: none\n");
  const std::string ratio = Inspect(sum(x * y) / norm(y));
  EXPECT_THAT(ratio, HasSubstr("pass 1: reduces (5,9) float32 to a number; reads 2"));
  EXPECT_THAT(ratio, HasSubstr("pass 2: reduces (5,9) float32 to a number; reads 1"));
  EXPECT_THAT(ratio, HasSubstr("pass 3: computes a number from these; one CUDA kernel\n"));
  EXPECT_THAT(ratio, Not(HasSubstr("pass 4")));
  const std::string centred = Inspect(y, x - mean(x));
  EXPECT_THAT(centred, HasSubstr("pass 2: writes (5,9) float32"));
  EXPECT_THAT(centred, Not(HasSubstr("pass 3")));
  const std::string doubled = Inspect(v, 2 * sum_rows(x));
  EXPECT_THAT(doubled, HasSubstr("pass 1: reduces (5,9) float32 to (9,) float32; reads 1"));
  EXPECT_THAT(doubled, HasSubstr("pass 2: scales these"));
  EXPECT_THAT(Inspect(v, sum_rows(x)), Not(HasSubstr("pass 2")));
  EXPECT_THAT(Inspect<sv::plusto>(v, sum_rows(x)), HasSubstr("pass 2"));
  EXPECT_THAT(Inspect(dot(x.T(), y)), HasSubstr("multiplies (5,9) and (5,9) float32 by cuBLAS\n"));
  // A reduction goes straight to the tensor that it is assigned to, by way of parts where it would
  // have too few threads.
  EXPECT_EQ(Inspect(v, sum<0>(x)),
            "pass 1: reduces (5,9) float32 to (9,) float32; reads 1 per element; one CUDA kernel\n"
            "temporaries: none\n");
  const Tensor<gpu, 2, float> tall(nullptr, Shape2(1 << 16, 9)), wide(nullptr, Shape2(9, 1 << 16));
  EXPECT_EQ(Inspect(v, sum<0>(tall)),
            "pass 1: reduces (65536,9) float32 to (9,) float32; reads 1 per element; a CUDA kernel "
            "for 1024 pieces of each, and for these\ntemporaries: 9216 partial results\n");
  EXPECT_THAT(Inspect(v, maximum<1>(wide)), HasSubstr("for 16 pieces of each"));
  EXPECT_THAT(Inspect(v, sum_rows(tall)), HasSubstr("for 1024 pieces of each"));
  EXPECT_THAT(Inspect(v, sumall_except_dim<0>(wide)), HasSubstr("for 16 pieces of each"));
  const Tensor<gpu, 4, float> images(nullptr, Shape4(7, 9, 3, 2));
  EXPECT_THAT(Inspect(v, sumall_except_dim<1>(images)), HasSubstr("for 7 pieces of each"));
  // On the CPU numbers are divided without a pass.
  EXPECT_THAT(Inspect(sum(*a * *b) / norm(*b)), Not(HasSubstr("pass 3")));
}

// A gradient of take, that is computed for all rows at once, straight into a tensor.
TEST_F(InspectTest, PartsComputedByCodeOfTheirOwnAreNamed) {
  const Tensor<cpu, 1, int32_t> index = Unallocated<int32_t>(Shape1(5));
  EXPECT_EQ(Inspect(Unallocated(Shape2(6, 9)), take_grad(index, *a, 6)),
            "pass 1: computes (6,9) float32 by code of its own\ntemporaries: none\n");
  const std::string inside = Inspect(Unallocated(Shape2(6, 9)), take_grad(index, *a, 6) * 2.0f);
  EXPECT_THAT(inside, HasSubstr("pass 1: computes (6,9) float32 by code of its own\n"));
  EXPECT_THAT(inside, HasSubstr("pass 2: writes (6,9) float32"));
  EXPECT_THAT(inside, HasSubstr("temporaries: (6,9) float32\n"));
}

TEST_F(InspectTest, TheTreeShowsClassesShapesAndTypes) {
  EXPECT_EQ(InspectTree((*a - sum(*a)) * 2),
            "BinaryMapExp<mul> (5,9) float32\n"
            "  BinaryMapExp<minus> (5,9) float32\n"
            "    Tensor<cpu, 2, float> (5,9) float32\n"
            "    ReduceAllExp<sum, None, float> number float32\n"
            "      Tensor<cpu, 2, float> (5,9) float32\n"
            "  ScalarExp<float> number float32: 2\n");
  // A product, of which the right factor is transposed; 16-bit numbers; and a program's functor.
  EXPECT_EQ(InspectTree(tcast<half_t>(dot(F<Cube>(*a), b->T())) * 0.5),
            "BinaryMapExp<mul> (5,5) float16\n"
            "  TypecastExp (5,5) float16\n"
            "    DotExp<false, true> (5,5) float32\n"
            "      UnaryMapExp<Cube> (5,9) float32\n"
            "        Tensor<cpu, 2, float> (5,9) float32\n"
            "      Tensor<cpu, 2, float> (5,9) float32\n"
            "  ScalarExp number float16: 0.5\n");
  EXPECT_EQ(InspectTree(*r), "Tensor<cpu, 2, float> (5,9) float32\n");
  EXPECT_EQ(r.values(), std::vector<float>(45, 7.0f));
}

TEST_F(InspectTest, ShapesThatDifferAreRefused) {
  GuardedTensor<2, float> other(Shape2(9, 5));
  ExpectError([&] { Inspect(*r, *other * 2); }, Error::kInvalidArgument, {"(9,5)", "(5,9)"});
  ExpectError([&] { Inspect(*r, dot(*other, *r)); }, Error::kInvalidArgument, {"(9,9)", "(5,9)"});
}

}  // namespace
}  // namespace tessera
