// Statements over random trees, run by Fuse and one after the other: operands and destinations
// share memory in every way that TreeContext draws, and a number and the results of a reduction lie
// in that memory too.
#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/fuse.h"
#include "tessera/tensor/random_tree.h"
#include "tessera/tensor/reductions.h"

namespace tessera {
namespace {

struct Passes {
  int shared = 0;
  int separate = 0;
};

/// Calls use(x, a, y, b, number, c, rows, d) for statements x = a, y -= b, number += the sum of c
/// and rows = the maxima of d's rows.
template <uint64_t kSeed, typename T, typename Use>
void WithStatements(TreeContext<T>* context, const Use& use) {
  const auto a = BuildTree<MixTree(4 * kSeed), 2, T, 1>(context);
  const auto b = BuildTree<MixTree(4 * kSeed + 1), 2, T, 1>(context);
  const auto c = Held(BuildTree<MixTree(4 * kSeed + 2), 1, T, 0>(context));  // the sum stays exact
  const auto d = BuildTree<MixTree(4 * kSeed + 3), 1, T, 0>(context);
  const auto x = context->Block();
  const auto y = context->Stepped();
  const auto rows = context->Block()[context->Draw(0, context->extent - 1)];
  T* const number = &context->Block()[0][0];
  use(x, a.e, y, b.e, *number, c.e, rows, d.e);
}

template <uint64_t kSeed, typename T>
void ExpectTheSame(uint64_t run_seed, Passes* passes) {
  TreeContext<T> fused(run_seed), apart(run_seed);
  WithStatements<kSeed>(
      &fused, [passes](const auto& x, const auto& a, const auto& y, const auto& b, T& number,
                       const auto& c, const auto& rows, const auto& d) {
        const auto assigns = Lazy(x) = a;
        const auto subtracts = Lazy(y) -= b;
        const auto sums = Lazy(number) += sum(c);
        const auto reduces = Lazy(rows) = maximum<1>(d);
        const auto run = [passes](const auto&... statement) {
          ++(expr::NeedSeparatePasses(statement...) ? passes->separate : passes->shared);
          Fuse(statement...);
        };
        if constexpr (kSeed % 2 == 0) {
          run(assigns, subtracts, sums, reduces);
        } else {
          run(reduces, sums, subtracts, assigns);
        }
      });
  WithStatements<kSeed>(&apart, [](const auto& x, const auto& a, const auto& y, const auto& b,
                                   T& number, const auto& c, auto rows, const auto& d) {
    const auto assign = [&] { expr::Assign<sv::saveto>(x, a); };
    const auto subtract = [&] { y -= b; };
    const auto add_up = [&] { number += static_cast<T>(sum(c)); };
    const auto reduce = [&] { rows = maximum<1>(d); };
    if constexpr (kSeed % 2 == 0) {
      assign(), subtract(), add_up(), reduce();
    } else {
      reduce(), add_up(), subtract(), assign();
    }
  });
  ASSERT_EQ(fused.memory == apart.memory, true)
      << "statements " << kSeed << ", run seed " << run_seed << ", extent " << fused.extent;
}

template <typename T, uint64_t... i>
void ExpectAllTheSame(std::integer_sequence<uint64_t, i...>) {
  Passes passes;
  for (uint64_t run = 0; run < 100; ++run) {
    (ExpectTheSame<100 + i, T>(TestSeed() + run * 1000003 + i, &passes), ...);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(passes.shared, 20);
  EXPECT_GT(passes.separate, 20);
}

TEST(RandomFuseTest, AgreesWithOneAssignmentAfterTheOther) {
  ExpectAllTheSame<float>(std::make_integer_sequence<uint64_t, 16>());
}

}  // namespace
}  // namespace tessera
