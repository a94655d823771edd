// Statements over random trees, run by Fuse and one after the other: operands and destinations
// share memory in every way that TreeContext draws, and a number, the results of reductions and
// what Store keeps lie in that memory too. TESSERA_TREES_FIRST is the first kind's number and
// TESSERA_TREES_TYPE the elements' type, as the BUILD file says for each of its tests.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/copy.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/fuse/fuse.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/random_tree.h"

namespace tessera {
namespace {

/// The four lists of statements, for each of which several kinds of trees are drawn.
constexpr size_t kOrders = 4;
constexpr uint64_t kKinds = 8;

/// The i-th tree that the statements of number `seed` are made of.
constexpr TreeDraw TreeOf(uint64_t seed, uint64_t i) {
  return i < 2 ? TreeDraw{MixTree(4 * seed + i), 2, 1} : TreeDraw{MixTree(4 * seed + i), 1, 0};
}
constexpr uint32_t NodesOfAll() {
  uint32_t nodes = 0;
  for (uint64_t kind = 0; kind < kKinds; ++kind) {
    for (uint64_t i = 0; i < 4; ++i) nodes |= TreeOf(TESSERA_TREES_FIRST + kind, i).Nodes();
  }
  return nodes;
}
static_assert(NodesOfAll() == kEveryNode, "every kind of node stands in some statement");

/// A statement for Fuse, and a function that does the same without it.
template <typename Deferred, typename Alone>
struct Statement {
  Deferred deferred;
  Alone alone;
};
template <typename Deferred, typename Alone>
Statement(Deferred, Alone) -> Statement<Deferred, Alone>;

/// Returns an expression's value before anything is written.
template <typename T, typename E>
TensorContainer<cpu, 2, T> ValueOf(const E& e) {
  TensorContainer<cpu, 2, T> value(e.shape());
  expr::Assign<sv::saveto>(value, e);
  return value;
}

/// The memory that the statements read and write.
template <typename T>
struct Memory {
  TreeContext<T> context;
  TreeContext<T>
      other;  // for a statement with a Store, which must not read elsewhere what it keeps
  std::vector<T> fresh;  // read and written at one place alone
  index_t taken = 0;

  explicit Memory(uint64_t seed)
      : context(seed),
        other(~seed, context.extent),
        fresh(static_cast<size_t>(3 * context.extent * context.extent)) {}

  /// Most are fresh: in what the trees read, one pass is hardly ever enough.
  Tensor<cpu, 2, T> Destination(TreeContext<T>* operands) {
    if (context.Draw(0, 4) == 0) return operands->Block();
    const index_t extent = context.extent;
    T* const block = fresh.data() + extent * extent * taken++;
    return {block, Shape2(extent, extent), extent, nullptr};
  }
  TensorView<cpu, 2, T> SteppedDestination() {
    if (context.Draw(0, 4) == 0) return context.Stepped();
    return View(Destination(&context), kAll, kAll);
  }
  bool operator==(const Memory& m) const {
    return context.memory == m.context.memory && other.memory == m.other.memory && fresh == m.fresh;
  }
};

/// Calls use(statement...) with statements of which some read, at its own place, what others write
/// or keep.
template <uint64_t kSeed, typename T, typename Use>
void WithStatements(Memory<T>* memory, const Use& use) {
  constexpr size_t kOrder = kSeed % kOrders;
  constexpr bool kStores = kOrder >= 2;
  TreeContext<T>* const context = &memory->context;
  TreeContext<T>* const operands = kStores ? &memory->other : context;
  const auto a = BuildTree<TreeOf(kSeed, 0)>(operands).e;
  const auto b = BuildTree<TreeOf(kSeed, 1)>(context).e;
  const auto c = Held(BuildTree<TreeOf(kSeed, 2)>(operands)).e;  // its sum stays exact
  const auto d = BuildTree<TreeOf(kSeed, 3)>(context).e;
  const auto x = memory->Destination(operands);
  const auto y = memory->SteppedDestination();
  const auto z = memory->Destination(context);
  const auto row = z[context->Draw(0, context->extent - 1)];

  if constexpr (!kStores) {
    const auto assigns = Statement{Lazy(x) = a, [=] { expr::Assign<sv::saveto>(x, a); }};
    const auto subtracts = Statement{Lazy(y) -= b + x, [=] { y -= b + x; }};
    T* const number = &context->Block()[0][0];
    const auto sums =
        Statement{Lazy(*number) += sum(c), [=] { *number += static_cast<T>(sum(c)); }};
    const auto reduces =
        Statement{Lazy(row) = maximum<1>(d), [=] { expr::Assign<sv::saveto>(row, maximum<1>(d)); }};
    if constexpr (kOrder == 0) use(assigns, subtracts, sums, reduces);
    if constexpr (kOrder == 1) use(reduces, subtracts, assigns, sums);
  } else {
    const auto& kept = z;
    const auto subtracts = Statement{Lazy(y) -= b + kept, [=] { y -= b + kept; }};
    if constexpr (kOrder == 2) {
      const auto stores = Statement{Lazy(x) = Store(kept, a - kept) + c, [=] {
                                      const auto value = ValueOf<T>(a - kept);
                                      const auto result = ValueOf<T>(value + c);
                                      Copy(kept, value);
                                      Copy(x, result);
                                    }};
      const auto columns = context->Block()[0];
      const auto reduces = Statement{Lazy(columns) = maximum<0>(d + kept), [=] {
                                       expr::Assign<sv::saveto>(columns, maximum<0>(d + kept));
                                     }};
      use(subtracts, stores, reduces);
    } else {
      const auto stores = Statement{Lazy(x) = a - sum(Store(kept, c)), [=] {
                                      const auto value = ValueOf<T>(c);
                                      const auto result =
                                          ValueOf<T>(a - static_cast<T>(sum(value)));
                                      Copy(kept, value);
                                      Copy(x, result);
                                    }};
      use(stores, subtracts);
    }
  }
}

struct Passes {
  int shared = 0;
  int separate = 0;
};

template <uint64_t kSeed, typename T>
void ExpectTheSame(uint64_t run_seed, Passes* passes) {
  Memory<T> fused(run_seed), apart(run_seed);
  const index_t extent = fused.context.extent;
  WithStatements<kSeed>(&fused, [&](const auto&... statement) {
    // Of so few elements, hardly any lies elsewhere.
    if (extent > 2) {
      ++(expr::NeedSeparatePasses(statement.deferred...) ? passes->separate : passes->shared);
    }
    Fuse(statement.deferred...);
  });
  WithStatements<kSeed>(&apart, [](const auto&... statement) { (statement.alone(), ...); });
  ASSERT_TRUE(fused == apart) << "statements " << kSeed << ", run seed " << run_seed << ", extent "
                              << extent;
}

template <typename T, uint64_t... i>
void ExpectAllTheSame(std::integer_sequence<uint64_t, i...>) {
  std::array<Passes, kOrders> passes;
  for (uint64_t run = 0; run < 100; ++run) {
    (ExpectTheSame<TESSERA_TREES_FIRST + i, T>(TestSeed() + run * 1000003 + i,
                                               &passes[(TESSERA_TREES_FIRST + i) % kOrders]),
     ...);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (size_t order = 0; order < kOrders; ++order) {
    EXPECT_GT(passes[order].shared, 20) << "order " << order;
    EXPECT_GT(passes[order].separate, 20) << "order " << order;
  }
}

TEST(RandomFuseTest, AgreesWithOneAssignmentAfterTheOther) {
  ExpectAllTheSame<TESSERA_TREES_TYPE>(std::make_integer_sequence<uint64_t, kKinds>());
}

}  // namespace
}  // namespace tessera
