#include "tessera/base/fork.h"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <latch>
#include <thread>

#include "gtest/gtest.h"

namespace tessera {
namespace {

/// Returns the result of `body` in the child of a fork.
bool InChild(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 1 : 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

TEST(ForkTest, OnlyAProcessWithSeveralThreadsLosesSome) {
  EXPECT_FALSE(ThreadsLostInFork());
  EXPECT_FALSE(InChild(ThreadsLostInFork));
  std::latch goes_on(1);
  std::thread other([&] { goes_on.wait(); });
  EXPECT_TRUE(InChild(ThreadsLostInFork));
  EXPECT_TRUE(InChild([] { return InChild(ThreadsLostInFork); })) << "also where it forks again";
  EXPECT_FALSE(ThreadsLostInFork()) << "the parent has them";
  goes_on.count_down();
  other.join();
}

TEST(ForkTest, AThreadThatWasJoinedIsNotLost) {
  for (int i = 0; i < 2000; ++i) {
    std::thread([] {}).join();
    ASSERT_FALSE(InChild(ThreadsLostInFork)) << "fork " << i;
  }
}

}  // namespace
}  // namespace tessera
