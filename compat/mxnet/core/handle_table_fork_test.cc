#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "tessera/compat/mxnet/core/handle_table.h"

namespace tessera::mxnet {
namespace {

TEST(HandleTableTest, TheChildOfAForkHasTheHandles) {
  Handles<int> handles("a number", 1);
  void* const kept = handles.Add(7);
  std::atomic<bool> end{false};
  // A thread that holds the table's locks at many a moment.
  std::thread other([&] {
    while (!end.load()) handles.Remove(handles.Add(*handles.Get(kept)));
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // A lock that stays locked ends by the signal.
      alarm(20);
      bool right = *handles.Get(kept) == 7;
      for (int k = 0; k < 100; ++k) handles.Remove(handles.Add(k));
      handles.Remove(kept);
      _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  end = true;
  other.join();
  EXPECT_EQ(*handles.Get(kept), 7);
}

}  // namespace
}  // namespace tessera::mxnet
