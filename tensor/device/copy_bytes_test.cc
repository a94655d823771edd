#include "tessera/tensor/device/copy_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::tensor_internal {
namespace {

constexpr char kGuard = 99;

/// Returns bytes none of which is kGuard.
std::vector<char> Bytes(int64_t count) {
  std::vector<char> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 89);
  return bytes;
}

TEST(CopyBytesTest, CopiesEverySizeBetweenAllAddressesAndNothingElse) {
  const std::vector<char> in = Bytes(6000);
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= 200; ++size) sizes.push_back(size);
  // Around the size from which on rows are aligned, and that of a page.
  for (const int64_t middle : {512, 640, 2048, 4096}) {
    for (int64_t size = middle - 2; size <= middle + 2; ++size) sizes.push_back(size);
  }
  for (const Stores stores : {Stores::kCached, Stores::kStreamed}) {
    for (const int64_t size : sizes) {
      for (const int64_t begin : {0, 1, 15, 16, 31, 33, 63}) {
        const int64_t from = begin * 5 % 64;
        alignas(64) char out[6000];
        std::fill(std::begin(out), std::end(out), kGuard);
        CopyBytes(in.data() + from, out + 64 + begin, size, stores);
        FinishStores(stores);
        for (int64_t i = 0; i < size + 256; ++i) {
          const int64_t k = i - 64 - begin;
          const char expected = k >= 0 && k < size ? in[static_cast<size_t>(from + k)] : kGuard;
          ASSERT_EQ(out[i], expected) << "size " << size << ", address " << begin << ", byte " << i;
        }
      }
    }
  }
}

TEST(CopyBytesTest, StreamsRowsOfWholeLines) {
  const std::vector<char> in = Bytes(1024);
  alignas(64) char out[1280];
  std::fill(std::begin(out), std::end(out), kGuard);
  CopyRows(in.data() + 5, 200, out + 64, 256, 4, 128, Stores::kStreamed);
  FinishStores(Stores::kStreamed);
  for (int64_t i = 0; i < 1280; ++i) {
    const int64_t r = (i - 64) / 256, k = (i - 64) % 256;
    const bool is_inside = i >= 64 && k < 128 && r < 4;
    ASSERT_EQ(out[i], is_inside ? in[static_cast<size_t>(5 + r * 200 + k)] : kGuard) << i;
  }
}

TEST(CopyBytesTest, CopiesRowsInEitherDirection) {
  for (const Stores stores : {Stores::kCached, Stores::kStreamed}) {
    for (const int64_t size : {3, 64, 100, 700}) {
      const std::vector<char> in = Bytes(5 * 800);
      std::vector<char> out(7 * 800, kGuard), expected = out;
      const int64_t last = 4 * 800;
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t i = 0; i < size; ++i) {
          expected[static_cast<size_t>(r * 1000 + 9 + i)] =
              in[static_cast<size_t>(last - r * 800 + i)];
        }
      }
      CopyRows(in.data() + last, -800, out.data() + 9, 1000, 5, size, stores);
      FinishStores(stores);
      EXPECT_EQ(out, expected) << "size " << size;
    }
  }
}

TEST(CopyBytesTest, ResultsThatExceedTheCachesAreStreamed) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(StoresFor(15 * kMiB, 30 * kMiB), Stores::kCached);
  EXPECT_EQ(StoresFor(16 * kMiB, 32 * kMiB), Stores::kStreamed);
  EXPECT_EQ(StoresFor(31 * kMiB, 0), Stores::kCached);
  EXPECT_EQ(StoresFor(32 * kMiB, 0), Stores::kStreamed);
}

}  // namespace
}  // namespace tessera::tensor_internal
