#include "tessera/ndarray/overlaps.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::ndarray_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<size_t> Found(const Overlaps& overlaps, const NDArray& array) {
  std::vector<size_t> found;
  overlaps.ForEach(ArrayAccess::Memory(array), [&](size_t i) { found.push_back(i); });
  EXPECT_EQ(overlaps.Any(ArrayAccess::Memory(array)), !found.empty());
  std::sort(found.begin(), found.end());
  return found;
}

TEST(OverlapsTest, FindsArraysThatShareBytes) {
  const NDArray a(TShape{8}), b(TShape{8});
  const std::vector<NDArray> arrays = {a.Slice(0, 4), NDArray(), b, a.Slice(3, 5), a.Slice(6, 8)};
  const Overlaps overlaps(arrays);
  EXPECT_THAT(Found(overlaps, a), ElementsAre(0, 3, 4));
  EXPECT_THAT(Found(overlaps, a.Slice(3, 4)), ElementsAre(0, 3));
  EXPECT_THAT(Found(overlaps, a.Slice(5, 6)), IsEmpty());
  EXPECT_THAT(Found(overlaps, b.Slice(7, 8)), ElementsAre(2));
  EXPECT_THAT(Found(overlaps, NDArray(TShape{8})), IsEmpty());
  EXPECT_THAT(Found(Overlaps({}), a), IsEmpty());
}

TEST(OverlapsTest, AgreesWithComparingAllPairs) {
  std::mt19937 random(7);
  const NDArray chunks[] = {NDArray(TShape{20}), NDArray(TShape{20}), NDArray(TShape{20})};
  const auto draw = [&] {
    const int64_t begin = static_cast<int64_t>(random() % 20);
    const int64_t end = begin + static_cast<int64_t>(random() % static_cast<uint64_t>(21 - begin));
    return chunks[random() % 3].Slice(begin, end);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<NDArray> arrays;
    for (int i = 0; i < 12; ++i) arrays.push_back(draw());
    const Overlaps overlaps(arrays);
    const NDArray asked = draw();
    std::vector<size_t> expected;
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (ArrayAccess::Memory(arrays[i]).Overlaps(ArrayAccess::Memory(asked)))
        expected.push_back(i);
    }
    EXPECT_EQ(Found(overlaps, asked), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace tessera::ndarray_internal
