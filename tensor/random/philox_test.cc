#include "tessera/tensor/random/philox.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

std::vector<uint32_t> Words(const PhiloxWords& block) {
  return std::vector<uint32_t>(block.word, block.word + 4);
}

// The published vectors of Random123 (kat_vectors, philox4x32 10): zeros, ones, digits of pi.
TEST(PhiloxTest, GivesThePublishedAnswers) {
  struct Case {
    PhiloxWords counter;
    uint64_t key;
    std::vector<uint32_t> answer;
  };
  const Case cases[] = {
      {{{0, 0, 0, 0}}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{{~0u, ~0u, ~0u, ~0u}}, ~uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0x299f31d0a4093822,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(Words(Philox4x32(test.counter, test.key)), test.answer);
  }
}

TEST(PhiloxTest, StateLaysOutCounterAsBlockThenStream) {
  const PhiloxState state = {.seed = 0x299f31d0a4093822, .stream = 0x0370734413198a2e};
  const PhiloxWords block = state.Block(0x85a308d3243f6a88);
  EXPECT_EQ(block.word[0], 0xd16cfe09u);
  EXPECT_EQ(block.word[3], 0x24126ea1u);
}

TEST(PhiloxTest, ReserveHandsOutEachBlockOnce) {
  PhiloxState state;
  EXPECT_EQ(state.Reserve(3), 0u);
  EXPECT_EQ(state.Reserve(0), 3u);
  EXPECT_EQ(state.Reserve(5), 3u);
  EXPECT_EQ(state.next_block, 8u);
}

TEST(PhiloxTest, SeedsStreamsBlocksAndAttemptsAllDiffer) {
  std::set<std::vector<uint32_t>> blocks;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (uint64_t stream = 0; stream < 4; ++stream) {
      for (uint64_t number = 0; number < 4; ++number) {
        for (uint32_t attempt = 0; attempt < 4; ++attempt) {
          const PhiloxState state = {.seed = seed, .stream = stream};
          blocks.insert(Words(state.Block(number, attempt)));
        }
      }
    }
  }
  EXPECT_EQ(blocks.size(), 256u);
}

}  // namespace
}  // namespace tessera
