#include "tessera/storage/pool/live_bytes.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace tessera::storage_internal {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;

/// Counts for one thread in the way of its cache.
class Thread {
 public:
  explicit Thread(LiveBytes* live) : live_(live) {}
  void Take(int64_t size_bytes) {
    const bool has_room = unreported_.HasRoomToAdd(size_bytes);
    unreported_.Add(size_bytes);
    if (!has_room) unreported_.Flush(live_);
  }
  void Give(int64_t size_bytes) {
    const bool has_room = unreported_.HasRoomToSubtract(size_bytes);
    unreported_.Subtract(size_bytes);
    if (!has_room) unreported_.Flush(live_);
  }
  void Flush() { unreported_.Flush(live_); }

 private:
  LiveBytes* const live_;
  UnreportedBytes unreported_;
};

TEST(LiveBytesTest, PeaksOfOneThreadAreExact) {
  LiveBytes live;
  Thread thread(&live);
  for (const int64_t megabytes : {3, 30, 7}) {
    for (int i = 0; i < megabytes; ++i) thread.Take(kMegabyte);
    thread.Take(1);
    for (int i = 0; i < megabytes; ++i) thread.Give(kMegabyte);
    thread.Give(1);
  }
  thread.Flush();
  EXPECT_EQ(live.live(), 0);
  EXPECT_EQ(live.peak(), 30 * kMegabyte + 1);
  live.MarkPeak();
  thread.Take(2 * kMegabyte);
  thread.Flush();
  EXPECT_EQ(live.peak_since_mark(), 2 * kMegabyte);
}

TEST(LiveBytesTest, AThreadThatReallocatesWhatItFreedWritesNoSharedCacheLine) {
  LiveBytes live;
  Thread thread(&live);
  for (int i = 0; i < 20; ++i) thread.Take(kMegabyte);
  const auto step = [&] {
    for (int i = 0; i < 12; ++i) thread.Give(kMegabyte);
    for (int i = 0; i < 12; ++i) thread.Take(kMegabyte);
  };
  step();
  const int64_t reported = live.live();
  for (int i = 0; i < 12; ++i) {
    thread.Give(kMegabyte);
    EXPECT_EQ(live.live(), reported);
  }
}

TEST(LiveBytesTest, FreesOfOtherThreadsMemoryAreReportedSoon) {
  LiveBytes live;
  Thread takes(&live), gives(&live);
  for (int i = 0; i < 100; ++i) {
    takes.Take(3 * kMegabyte);
    gives.Give(3 * kMegabyte);
  }
  EXPECT_LE(live.peak(), 3 * kMegabyte + 2 * UnreportedBytes::kMaxBytes);
}

TEST(LiveBytesTest, PeaksOfSeveralThreadsAreWithinTheDocumentedError) {
  LiveBytes live;
  Thread a(&live), b(&live);
  for (int i = 0; i < 40; ++i) a.Take(kMegabyte);
  for (int i = 0; i < 40; ++i) a.Give(kMegabyte);
  for (int i = 0; i < 40; ++i) b.Take(kMegabyte);
  EXPECT_LE(live.peak(), 40 * kMegabyte + UnreportedBytes::kMaxGivenBytes);
  EXPECT_GE(live.peak(), 40 * kMegabyte - 2 * UnreportedBytes::kMaxBytes);
}

}  // namespace
}  // namespace tessera::storage_internal
