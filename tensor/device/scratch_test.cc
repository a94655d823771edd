#include "tessera/tensor/device/scratch.h"

#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace tessera {
namespace {

using tensor_internal::Scratch;

TEST(ScratchTest, MemoryIsAlignedAndDistinct) {
  Scratch<cpu> scratch;
  auto* const a = static_cast<char*>(scratch.Allocate(1));
  auto* const b = static_cast<char*>(scratch.Allocate(100));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  EXPECT_GE(b - a, 64);
  std::memset(a, 1, 1);
  std::memset(b, 2, 100);
  EXPECT_EQ(*a, 1);
}

TEST(ScratchTest, NestedScopesGiveBackOnlyTheirOwn) {
  Scratch<cpu> outer;
  auto* const kept = static_cast<char*>(outer.Allocate(64));
  std::memset(kept, 7, 64);
  void* first;
  {
    Scratch<cpu> inner;
    first = inner.Allocate(64);
    std::memset(first, 8, 64);
    // More than any block so far: the blocks in use stay where they are.
    std::memset(inner.Allocate(int64_t{1} << 22), 9, size_t{1} << 22);
  }
  Scratch<cpu> next;
  EXPECT_EQ(next.Allocate(64), first);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(kept[i], 7);
}

TEST(ScratchTest, OneBlockHoldsWhatSeveralHeldBefore) {
  const auto evaluate = [] {
    Scratch<cpu> scratch;
    for (int i = 0; i < 10; ++i) std::memset(scratch.Allocate(100000), i, 100000);
  };
  evaluate();
  evaluate();
  const int64_t before = tensor_internal::ScratchAllocations();
  for (int i = 0; i < 10; ++i) evaluate();
  EXPECT_EQ(tensor_internal::ScratchAllocations(), before);
}

TEST(ScratchTest, LargeMemoryGoesBackToTheSystem) {
  const auto evaluate = [] {
    Scratch<cpu> scratch;
    EXPECT_NE(scratch.Allocate(2 * Scratch<cpu>::kKeptBytes), nullptr);
  };
  evaluate();
  const int64_t before = tensor_internal::ScratchAllocations();
  evaluate();
  EXPECT_EQ(tensor_internal::ScratchAllocations(), before + 1);
}

}  // namespace
}  // namespace tessera
