#include "tessera/base/fork.h"

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include <atomic>

namespace tessera {
namespace {

// Relaxed everywhere: forks hand them on. Of several threads that fork at once each writes true.
std::atomic<bool> several_threads_before_fork{false};
std::atomic<bool> threads_lost{false};

// How often another thread is looked for. One that has been joined may be there for a moment more.
constexpr int kLooks = 20;

bool HasSeveralThreads() {
  for (int i = 0; i < kLooks; ++i) {
    struct stat tasks;
    // The folder has a link for each thread beside its own two. Without /proc the worst is assumed.
    if (stat("/proc/self/task", &tasks) != 0) return true;
    if (tasks.st_nlink <= 3) return false;
    sched_yield();
  }
  return true;
}

void BeforeFork() {
  several_threads_before_fork.store(HasSeveralThreads(), std::memory_order_relaxed);
}

void AfterForkInChild() {
  if (!several_threads_before_fork.load(std::memory_order_relaxed)) return;
  threads_lost.store(true, std::memory_order_relaxed);
}

// As soon as the program is loaded: whoever asks may do so for the first time in the child.
[[maybe_unused]] const int installed = pthread_atfork(BeforeFork, nullptr, AfterForkInChild);

}  // namespace

bool ThreadsLostInFork() { return threads_lost.load(std::memory_order_relaxed); }

}  // namespace tessera
