#include "tessera/engine/workers/arena_pool.h"

#include <array>
#include <cstdint>
#include <latch>
#include <list>
#include <memory>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/workers/tbb_workers.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

TEST(ArenaPoolTest, AnArenaHasOneOwnerAtATimeAndThenTheNextOne) {
  ArenaPool pool(/*threads=*/2, /*engine_id=*/1);
  std::set<const tbb::task_arena*> arenas;
  for (int round = 0; round < 3; ++round) {
    const ArenaPool::Lease first(pool), second(pool);
    EXPECT_NE(&first.arena(), &second.arena());
    arenas.insert({&first.arena(), &second.arena()});
  }
  EXPECT_EQ(arenas.size(), 2u);
}

TEST(ArenaPoolTest, ArenasGoToTheNextEngineOfAsManyThreads) {
  const auto arena_of = [](uint64_t engine_id, int threads, bool keeps) {
    ArenaPool pool(threads, engine_id);
    if (keeps) pool.KeepForOthers();
    const ArenaPool::Lease lease(pool);
    // TBB's thread may be one that has been in the arena since its last owner's loop.
    std::latch both_there(2);
    std::array<uint64_t, 2> engines;
    lease.arena().execute([&] {
      ParallelFor(2, [&](int i) {
        both_there.arrive_and_wait();
        engines[i] = ThreadFrame::Arena();
      });
    });
    EXPECT_THAT(engines, testing::UnorderedElementsAre(0u, engine_id));
    return &lease.arena();
  };
  const WorkerReservation reservation(2);
  const tbb::task_arena* const first = arena_of(/*engine_id=*/1, /*threads=*/2, /*keeps=*/true);
  EXPECT_NE(arena_of(/*engine_id=*/2, /*threads=*/3, /*keeps=*/true), first);
  EXPECT_EQ(arena_of(/*engine_id=*/3, /*threads=*/2, /*keeps=*/true), first);
  EXPECT_EQ(arena_of(/*engine_id=*/4, /*threads=*/2, /*keeps=*/false), first);
}

// Otherwise those of engines that do not come again would be kept instead of those that do.
TEST(ArenaPoolTest, NewlyKeptArenasTakeThePlacesOfOldOnes) {
  const WorkerReservation reservation(2);
  {
    ArenaPool pool(/*threads=*/5, /*engine_id=*/1);
    pool.KeepForOthers();
    std::list<ArenaPool::Lease> leases;
    for (int i = 0; i < 100; ++i) leases.emplace_back(pool);
  }
  const auto arena_of = [](int threads) {
    ArenaPool pool(threads, /*engine_id=*/2);
    pool.KeepForOthers();
    return &ArenaPool::Lease(pool).arena();
  };
  const tbb::task_arena* const first = arena_of(4);
  const auto in_its_memory = std::make_unique<tbb::task_arena>();  // if it has ended
  EXPECT_NE(in_its_memory.get(), first);
  EXPECT_EQ(arena_of(4), first);
}

}  // namespace
}  // namespace tessera::engine_internal
