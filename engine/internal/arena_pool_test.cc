#include "tessera/engine/internal/arena_pool.h"

#include <set>

#include "gtest/gtest.h"
#include "tbb/task_arena.h"

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

}  // namespace
}  // namespace tessera::engine_internal
