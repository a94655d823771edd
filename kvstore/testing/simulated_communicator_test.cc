#include "tessera/kvstore/testing/simulated_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/error.h"

namespace tessera::kvstore_testing {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// Makes a call of a communicator and waits for it. Returns the error's text, or "" without one.
std::string Await(const std::function<void(Communicator::Done)>& call) {
  const auto result = std::make_shared<std::promise<std::string>>();
  call([result](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
      result->set_value("");
    } catch (const Error& caught) {
      result->set_value(caught.what());
    }
  });
  return result->get_future().get();
}

std::string Barrier(Communicator& rank) {
  return Await([&](Communicator::Done done) { rank.Barrier(std::move(done)); });
}

std::string Sum(Communicator& rank, std::span<const SumBuffer> buffers) {
  return Await(
      [&](Communicator::Done done) { rank.SumInto(buffers, DType::kFloat32, std::move(done)); });
}

TEST(SimulatedCommunicatorTest, SumsSeveralBuffersInTheOrderOfTheRanks) {
  const SimulatedGroup group(4);
  group.RunRanks([](const auto& rank) {
    // From the left the small ones are lost; in any other order they would not be.
    const float summands[] = {1e8f, 3.0f, 3.0f, -1e8f};
    std::vector<float> in = {summands[rank->rank()], 1.0f}, out(2);
    std::vector<float> in_place(3, static_cast<float>(rank->rank()));
    const SumBuffer buffers[] = {{in.data(), out.data(), 2}, {in_place.data(), in_place.data(), 3}};
    EXPECT_EQ(Sum(*rank, buffers), "");
    EXPECT_THAT(out, ElementsAre(((1e8f + 3.0f) + 3.0f) - 1e8f, 4.0f));
    EXPECT_THAT(in_place, Each(6.0f));
  });
}

TEST(SimulatedCommunicatorTest, MovesWordsAndBytes) {
  const SimulatedGroup group(3);
  group.RunRanks([](const auto& rank) {
    EXPECT_EQ(rank->size(), 3);
    EXPECT_EQ(rank->local_size(), 3);
    EXPECT_EQ(rank->local_rank(), rank->rank());
    uint64_t words[] = {uint64_t{7} << rank->rank(), ~uint64_t{0}};
    EXPECT_EQ(Await([&](auto done) { rank->Intersect(words, done); }), "");
    EXPECT_THAT(words, ElementsAre(4, ~uint64_t{0}));
    std::array<std::byte, 2> bytes = {std::byte(rank->rank()), std::byte(10)};
    EXPECT_EQ(Await([&](auto done) { rank->Broadcast(bytes, 2, done); }), "");
    EXPECT_THAT(bytes, ElementsAre(std::byte(2), std::byte(10)));
    const std::array<std::byte, 1> mine = {std::byte(rank->rank() + 5)};
    std::array<std::byte, 3> all = {};
    EXPECT_EQ(Await([&](auto done) { rank->AllGather(mine, all, done); }), "");
    EXPECT_THAT(all, ElementsAre(std::byte(5), std::byte(6), std::byte(7)));
    EXPECT_EQ(Barrier(*rank), "");
    rank->Shutdown();
  });
}

TEST(SimulatedCommunicatorTest, ManyCallsMayBePending) {
  const SimulatedGroup group(2);
  group.RunRanks([](const auto& rank) {
    constexpr int kCalls = 100;
    std::vector<float> values(kCalls, 1.0f);
    std::atomic<int> completed{0};
    for (int i = 0; i < kCalls; ++i) {
      const SumBuffer buffer{&values[static_cast<size_t>(i)], &values[static_cast<size_t>(i)], 1};
      rank->SumInto(std::span(&buffer, 1), DType::kFloat32, [&, i](std::exception_ptr error) {
        EXPECT_EQ(error, nullptr);
        EXPECT_EQ(completed++, i);  // in order
      });
    }
    rank->Shutdown();
    EXPECT_EQ(completed, kCalls);
    EXPECT_THAT(values, Each(2.0f));
  });
}

TEST(SimulatedCommunicatorTest, WhatIsPostedRunsWhereCallsEnd) {
  const SimulatedGroup group(2);
  group.RunRanks([](const auto& rank) {
    std::thread::id of_posted, of_done;
    EXPECT_EQ(Await([&](const Communicator::Done& done) {
                rank->Post([&, done] {
                  of_posted = std::this_thread::get_id();
                  rank->Barrier([&, done](const std::exception_ptr& error) {
                    of_done = std::this_thread::get_id();
                    done(error);
                  });
                });
              }),
              "");
    EXPECT_EQ(of_posted, of_done);
    rank->Shutdown();
    rank->Post([&] { of_posted = std::this_thread::get_id(); });
    EXPECT_EQ(of_posted, std::this_thread::get_id());
  });
}

TEST(SimulatedCommunicatorTest, LatencyBandwidthAndASlowRankTakeTime) {
  using std::chrono::milliseconds;
  SimulatedGroup group(2, {.latency = milliseconds(20), .bytes_per_second = 1e6});
  const auto seconds_of_sum = [&](int64_t size) {
    const Clock::time_point start = Clock::now();
    group.RunRanks([&](const auto& rank) {
      std::vector<float> values(static_cast<size_t>(size));
      const SumBuffer buffer{values.data(), values.data(), size};
      EXPECT_EQ(Sum(*rank, std::span(&buffer, 1)), "");
    });
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  EXPECT_GE(seconds_of_sum(1), 0.020);
  EXPECT_GE(seconds_of_sum(10000), 0.060);  // 2 (2 - 1) / 2 times 40,000 bytes
  group.SlowDown(1, milliseconds(50));
  EXPECT_GE(seconds_of_sum(1), 0.070);
}

TEST(SimulatedCommunicatorTest, CallsThatDifferFailOnEveryRank) {
  const SimulatedGroup group(2);
  group.RunRanks([](const auto& rank) {
    float value = 1;
    const SumBuffer buffer{&value, &value, 1};
    const std::string error =
        rank->rank() == 0 ? Barrier(*rank) : Sum(*rank, std::span(&buffer, 1));
    EXPECT_THAT(error, AllOf(HasSubstr("rank 0 calls Barrier"),
                             HasSubstr("rank 1 calls SumInto of float32 in buffers of 1")));
    EXPECT_THAT(Barrier(*rank), HasSubstr("rank 0 calls Barrier"));
  });
}

TEST(SimulatedCommunicatorTest, TheDeathOfARankFailsTheOthersCalls) {
  SimulatedGroup group(3);
  group.RunRanks([&](const auto& rank) {
    EXPECT_EQ(Barrier(*rank), "");
    if (rank->rank() == 1) return group.Kill(1);
    EXPECT_THAT(Barrier(*rank), HasSubstr("rank 1 has died"));
    rank->Shutdown();
  });
}

TEST(SimulatedCommunicatorTest, AbortNamesTheRankAndTheCause) {
  const SimulatedGroup group(2);
  group.RunRanks([](const auto& rank) {
    if (rank->rank() == 1) rank->Abort("no more data", AbortBy::kThisRank);
    EXPECT_THAT(Barrier(*rank), HasSubstr("rank 1: no more data"));
  });
}

TEST(SimulatedCommunicatorTest, ACallAfterShutdownFails) {
  const SimulatedGroup group(1);
  const std::shared_ptr<Communicator> rank = group.communicator(0);
  rank->Shutdown();
  EXPECT_THAT(Barrier(*rank), HasSubstr("rank 0 calls Barrier after Shutdown"));
}

}  // namespace
}  // namespace tessera::kvstore_testing
