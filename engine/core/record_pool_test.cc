#include "tessera/engine/core/record_pool.h"

#include <barrier>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/engine/core/futex_lock.h"

namespace tessera::engine_internal {
namespace {

struct Record {
  int value = 0;  // written by whoever has the record, and by nobody else
  Record* next = nullptr;
};

TEST(RecordPoolTest, RecordsAreDistinctUntilTheyAreGivenBack) {
  RecordPool<Record> pool;
  std::set<Record*> taken;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(taken.insert(pool.Take()).second);
  for (int round = 0; round < 20; ++round) {  // 20,000 in all, of at most 2,000
    for (Record* record : std::vector<Record*>(taken.begin(), taken.end())) pool.Give(record);
    std::set<Record*> again;
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(again.insert(pool.Take()).second);
    taken = again;
  }
  int made = 0;
  pool.ForEach([&](Record&) { ++made; });
  EXPECT_LE(made, 2000) << "memory is reused";
}

TEST(RecordPoolTest, ForEachSeesEveryRecordInUse) {
  RecordPool<Record> pool;
  for (int i = 0; i < 100; ++i) pool.Take()->value = 1;
  int seen = 0;
  pool.ForEach([&](Record& record) { seen += record.value; });
  EXPECT_EQ(seen, 100);
}

TEST(RecordPoolTest, ManyThreadsMayTakeAndGive) {
  RecordPool<Record> pool;
  constexpr int kThreads = 4, kRounds = 5000;
  std::barrier<> together(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      std::vector<Record*> mine;
      for (int i = 0; i < kRounds; ++i) {
        mine.push_back(pool.Take());
        ++mine.back()->value;  // a race, if two threads had the same record
        if (mine.size() == 5) {
          for (Record* record : mine) pool.Give(record);
          mine.clear();
        }
      }
      for (Record* record : mine) pool.Give(record);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t total = 0;
  pool.ForEach([&](Record& record) { total += record.value; });
  EXPECT_EQ(total, kThreads * kRounds);
}

TEST(FutexLockTest, ExcludesManyMoreThreadsThanCores) {
  FutexLock lock;
  int64_t count = 0;
  constexpr int kThreads = 16, kRounds = 5000;
  std::barrier<> together(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      for (int i = 0; i < kRounds; ++i) {
        std::lock_guard<FutexLock> hold(lock);
        ++count;
        if (i % 100 == 0) std::this_thread::yield();  // others find it held, and sleep
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kRounds);
}

}  // namespace
}  // namespace tessera::engine_internal
