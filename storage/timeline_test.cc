#include <atomic>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tessera/base/error.h"
#include "tessera/storage/storage.h"
#include "tessera/storage/testing/fake_system_allocator.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int64_t kMegabyte = int64_t{1} << 20;

std::vector<int64_t> Live(const json& trace, const std::string& name) {
  std::vector<int64_t> live;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == name) live.push_back(event["args"]["live"].get<int64_t>());
  }
  return live;
}

TEST(TimelineTest, EveryAllocAndFreeIsACounterEvent) {
  Storage storage;
  const Storage::Handle before = storage.Alloc(1000, Device::Cpu());
  storage.StartTimeline();
  const Storage::Handle a = storage.Alloc(500, Device::Cpu());
  const Storage::Handle b = storage.Alloc(3 * kMegabyte, Device::Cpu());
  storage.Free(a);
  const Storage::Handle c =
      storage.Alloc(20, Device::Cpu(1));  // a pool that is made during the recording
  storage.Free(b);
  storage.Free(before);
  const json trace = json::parse(storage.StopTimeline());
  EXPECT_EQ(Live(trace, "memory cpu(0)"), (std::vector<int64_t>{1000, 1500, 1500 + 3 * kMegabyte,
                                                                1000 + 3 * kMegabyte, 1000, 0}));
  EXPECT_EQ(Live(trace, "memory cpu(1)"), (std::vector<int64_t>{0, 20}));
  EXPECT_EQ(trace["otherData"]["dropped_events"], 0);
  storage.Free(c);
}

TEST(TimelineTest, EventsAreAddedToATrace) {
  const std::string traces[] = {
      R"({"displayTimeUnit":"ns","otherData":{"dropped_events":3},"traceEvents":[
{"ph":"X","name":"say \"traceEvents\":[","ts":1.5},
{"ph":"X","name":"b","ts":2}
]})",
      R"( { "traceEvents" : [ ] } )"};
  for (const std::string& text : traces) {
    json before = json::parse(text);
    Storage storage;
    // StopTimeline without StartTimeline adds no events.
    json trace = json::parse(storage.StopTimeline(text));
    EXPECT_EQ(trace["traceEvents"], before["traceEvents"]);
    storage.StartTimeline(2);
    const Storage::Handle block = storage.Alloc(500, Device::Cpu());
    storage.Free(block);
    for (const std::string_view wrong :
         {"x", "{}", R"({"traceEvents":{}})", R"("traceEvents":[])"}) {
      EXPECT_THROW(storage.StopTimeline(wrong), Error) << wrong;
    }
    trace = json::parse(storage.StopTimeline(text));
    EXPECT_EQ(Live(trace, "memory cpu(0)"), (std::vector<int64_t>{0, 500}));
    EXPECT_EQ(trace["storage_dropped_events"], 1);
    EXPECT_EQ(trace["traceEvents"].size(), before["traceEvents"].size() + 2);
    EXPECT_EQ(trace["otherData"], before["otherData"]);  // null if there is none
    EXPECT_EQ(json::parse(storage.StopTimeline())["traceEvents"].size(), 0u);
  }
}

TEST(TimelineTest, EventsAreCountersInTheOrderOfTime) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  storage.StartTimeline();
  for (int i = 0; i < 100; ++i) storage.Free(storage.Alloc(100 * i + 1, Device::Cpu()));
  const json trace = json::parse(storage.StopTimeline());
  ASSERT_EQ(trace["traceEvents"].size(), 201u);
  double last = 0;
  for (const json& event : trace["traceEvents"]) {
    EXPECT_EQ(event["ph"], "C");
    EXPECT_GE(event["ts"].get<double>(), last);
    last = event["ts"].get<double>();
    const int64_t cached = event["args"]["cached"].get<int64_t>();
    EXPECT_GE(cached, 0);
  }
  const json& end = trace["traceEvents"].back();
  EXPECT_EQ(end["args"]["live"], 0);
  EXPECT_EQ(end["args"]["cached"], storage.Stats(Device::Cpu()).cached_bytes);
}

TEST(TimelineTest, DroppedEventsAreCounted) {
  Storage storage;
  storage.Free(storage.Alloc(10, Device::Cpu()));
  storage.StartTimeline(4);
  for (int i = 0; i < 5; ++i) storage.Free(storage.Alloc(10, Device::Cpu()));
  const json trace = json::parse(storage.StopTimeline());
  EXPECT_EQ(Live(trace, "memory cpu(0)"), (std::vector<int64_t>{0, 10, 0, 10}));
  EXPECT_EQ(trace["otherData"]["dropped_events"], 7);
}

TEST(TimelineTest, NothingIsRecordedBeforeTheStartAndAfterTheEnd) {
  Storage storage;
  storage.Free(storage.Alloc(10, Device::Cpu()));
  EXPECT_EQ(json::parse(storage.StopTimeline())["traceEvents"].size(), 0u);
  storage.StartTimeline();
  EXPECT_EQ(json::parse(storage.StopTimeline())["traceEvents"].size(), 1u);
  storage.Free(storage.Alloc(10, Device::Cpu()));
  EXPECT_EQ(json::parse(storage.StopTimeline())["traceEvents"].size(), 0u);
  EXPECT_THROW(storage.StartTimeline(0), Error);
  EXPECT_THROW(storage.StartTimeline(-1), Error);
}

TEST(TimelineTest, ThreadsRecordSideBySide) {
  constexpr int kThreads = 4;
  constexpr int kPairs = 500;
  Storage storage;
  storage.Free(storage.Alloc(10, Device::Cpu()));
  storage.StartTimeline();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPairs; ++i) storage.Free(storage.Alloc(100, Device::Cpu()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<int64_t> live = Live(json::parse(storage.StopTimeline()), "memory cpu(0)");
  ASSERT_EQ(live.size(), 1u + 2 * kThreads * kPairs);
  EXPECT_EQ(live.back(), 0);
  for (const int64_t bytes : live) {
    EXPECT_GE(bytes, 0);
    EXPECT_LE(bytes, 100 * kThreads);
  }
}

/// Returns the last value of a timeline of one device, which may be long.
int64_t LastLive(const std::string& trace) {
  constexpr std::string_view kKey = "\"live\": ";
  const size_t place = trace.rfind(kKey);
  return place == std::string::npos ? -1 : std::stoll(trace.substr(place + kKey.size(), 20));
}

TEST(TimelineTest, TheFirstValueIsExactWhateverThreadsDo) {
  constexpr int kThreads = 3;
  constexpr int kPairs = 20000;
  for (int round = 0; round < 10; ++round) {
    Storage storage;
    const Storage::Handle kept = storage.Alloc(7, Device::Cpu());
    std::atomic<bool> half_done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        // DirectFree bypasses the thread's cache.
        const auto free = t == 0 ? &Storage::DirectFree : &Storage::Free;
        for (int i = 0; i < kPairs; ++i) {
          if (i == kPairs / 2) half_done = true;
          (storage.*free)(storage.Alloc(100, Device::Cpu()));
        }
      });
    }
    while (!half_done) std::this_thread::yield();
    storage.StartTimeline();
    for (std::thread& thread : threads) thread.join();
    // An error of the first value would persist to the last.
    EXPECT_EQ(LastLive(storage.StopTimeline()), 7);
    storage.Free(kept);
  }
}

}  // namespace
}  // namespace tessera
