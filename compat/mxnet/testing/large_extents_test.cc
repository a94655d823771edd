// Extents that 32 bits do not hold: functions with such extents refuse them, and those with 64 bits
// have them right.
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mxnet/c_api.h"
#include "tessera/compat/mxnet/testing/client.h"

namespace tessera::mxnet {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kLarge = (int64_t{1} << 32) + 3;

/// Expects that a function has failed with an error that names it, the extent and the limit.
void ExpectRefusal(int status, const std::string& function, int64_t extent, const char* limit) {
  EXPECT_THAT(ErrorOf(status), AllOf(HasSubstr(function + ": "), HasSubstr(std::to_string(extent)),
                                     HasSubstr(limit)));
}

/// Returns an array without memory.
Owned MakeDelayedArray(const std::vector<int64_t>& shape) {
  NDArrayHandle handle = nullptr;
  Check(MXNDArrayCreateEx64(shape.data(), static_cast<int>(shape.size()), 1, 0, /*delay_alloc=*/1,
                            0, &handle));
  return {handle, MXNDArrayFree};
}

TEST(LargeExtentsTest, TheShapeOfAnArray) {
  const Owned array = MakeDelayedArray({2, kLarge});
  int rank = 0;
  uint32_t legacy_rank = 0;
  const uint32_t* legacy = nullptr;
  const int* extents = nullptr;
  const int64_t* wide = nullptr;
  ExpectRefusal(MXNDArrayGetShape(array.get(), &legacy_rank, &legacy), "MXNDArrayGetShape", kLarge,
                "4294967295");
  ExpectRefusal(MXNDArrayGetShapeEx(array.get(), &rank, &extents), "MXNDArrayGetShapeEx", kLarge,
                "2147483647");
  Check(MXNDArrayGetShapeEx64(array.get(), &rank, &wide));
  EXPECT_THAT(std::vector<int64_t>(wide, wide + rank), ElementsAre(2, kLarge));
}

TEST(LargeExtentsTest, AnExtentOfThirtyTwoBitsWithoutASign) {
  const uint32_t shape[] = {uint32_t{1} << 31};
  NDArrayHandle handle = nullptr;
  Check(MXNDArrayCreateEx(shape, 1, 1, 0, /*delay_alloc=*/1, 0, &handle));
  const Owned array(handle, MXNDArrayFree);
  int rank = 0;
  uint32_t legacy_rank = 0;
  const uint32_t* legacy = nullptr;
  const int* extents = nullptr;
  Check(MXNDArrayGetShape(handle, &legacy_rank, &legacy));
  EXPECT_THAT(std::vector<uint32_t>(legacy, legacy + legacy_rank), ElementsAre(shape[0]));
  ExpectRefusal(MXNDArrayGetShapeEx(handle, &rank, &extents), "MXNDArrayGetShapeEx", shape[0],
                "2147483647");
}

/// The results of inference by a function of these types.
template <typename Extent, typename Rank, typename Count>
struct Inferred {
  Count sizes[3] = {};
  const Rank* ranks[3] = {};
  const Extent** extents[3] = {};
  int complete = 0;

  template <typename Function, typename Offset>
  int Infer(Function* function, SymbolHandle symbol, const std::vector<Extent>& data,
            const std::vector<Offset>& offsets) {
    const char* names[] = {"data"};
    return function(symbol, 1, names, offsets.data(), data.data(), &sizes[0], &ranks[0],
                    &extents[0], &sizes[1], &ranks[1], &extents[1], &sizes[2], &ranks[2],
                    &extents[2], &complete);
  }
};

TEST(LargeExtentsTest, InferredShapes) {
  constexpr int kSide = 1 << 16;
  constexpr int64_t kFlat = int64_t{kSide} * (kSide + 1);
  const Owned data = MakeVariable("data");
  const Owned flat = Apply("Flatten", "flat", {data.get()});
  const std::vector<uint32_t> offsets = {0, 3};
  Inferred<uint32_t, uint32_t, uint32_t> legacy;
  Inferred<int, int, uint32_t> narrow;
  Inferred<int64_t, int, size_t> wide;
  ExpectRefusal(legacy.Infer(MXSymbolInferShape, flat.get(), {1, kSide, kSide + 1}, offsets),
                "MXSymbolInferShape", kFlat, "4294967295");
  ExpectRefusal(legacy.Infer(MXSymbolInferShapePartial, flat.get(), {1, kSide, kSide + 1}, offsets),
                "MXSymbolInferShapePartial", kFlat, "4294967295");
  ExpectRefusal(narrow.Infer(MXSymbolInferShapeEx, flat.get(), {1, kSide, kSide + 1}, offsets),
                "MXSymbolInferShapeEx", kFlat, "2147483647");
  ExpectRefusal(
      narrow.Infer(MXSymbolInferShapePartialEx, flat.get(), {1, kSide, kSide + 1}, offsets),
      "MXSymbolInferShapePartialEx", kFlat, "2147483647");
  for (const auto function : {MXSymbolInferShapeEx64, MXSymbolInferShapePartialEx64}) {
    Check(wide.Infer(function, flat.get(), {1, kSide, kSide + 1}, std::vector<int64_t>{0, 3}));
    EXPECT_THAT(std::vector<int64_t>(wide.extents[1][0], wide.extents[1][0] + wide.ranks[1][0]),
                ElementsAre(1, kFlat));
  }
}

TEST(LargeExtentsTest, ExtentsThatAClientWritesWithoutASign) {
  const Owned data = MakeVariable("data");
  const Owned flat = Apply("Flatten", "flat", {data.get()});
  // The client has written 2^31.
  constexpr int kWrapped = -2147483647 - 1;
  Inferred<int, int, uint32_t> narrow;
  ExpectRefusal(
      narrow.Infer(MXSymbolInferShapeEx, flat.get(), {1, kWrapped}, std::vector<uint32_t>{0, 2}),
      "MXSymbolInferShapeEx", kWrapped, "2147483647");
}

}  // namespace
}  // namespace tessera::mxnet
