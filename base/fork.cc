#include "tessera/base/fork.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

namespace tessera {
namespace {

// Relaxed everywhere: forks hand them on. Of several threads that fork at once each writes true.
std::atomic<bool> several_threads_before_fork{false};
std::atomic<bool> threads_lost{false};

/// Whether a thread of this process has begun to end, or is gone. One that has been joined is still
/// listed for a moment.
bool IsEnding(const std::string& thread) {
  // See proc(5): after the name, which may hold anything, the state, five numbers and the flags.
  const std::string path = "/proc/self/task/" + thread + "/stat";
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return !std::filesystem::exists(path);
  size_t space = line.rfind(')');
  for (int i = 0; i < 7 && space != line.npos; ++i) space = line.find(' ', space + 1);
  uint64_t flags = 0;
  if (space != line.npos) {
    std::from_chars(line.data() + space + 1, line.data() + line.size(), flags);
  }
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING of Linux
  return (flags & kExiting) != 0;
}

bool HasSeveralThreads() {
  struct stat tasks;
  // The folder has a link for each thread beside its own two. Without /proc the worst is assumed.
  if (stat("/proc/self/task", &tasks) != 0) return true;
  if (tasks.st_nlink <= 3) return false;
  try {
    const std::string self = std::to_string(gettid());
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const std::string thread = task.path().filename();
      if (thread != self && !IsEnding(thread)) return true;
    }
    return false;
  } catch (const std::exception&) {  // no memory, or no more files
    return true;
  }
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
