#ifndef TESSERA_ENGINE_TESTING_THREAD_SLEEP_H_
#define TESSERA_ENGINE_TESTING_THREAD_SLEEP_H_

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace tessera::engine_internal {

/// The calling thread, as the system knows it.
inline pid_t ThisThread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

/// Returns when that thread of this process sleeps or is gone: for tests of what comes when
/// somebody waits already, where nothing else tells of a wait. Returns at once if /proc cannot be
/// read.
inline void AwaitSleep(pid_t thread) {
  const std::string file = "/proc/self/task/" + std::to_string(thread) + "/stat";
  for (;;) {
    std::ifstream stream(file);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    // The state follows on the thread's name, which stands in parentheses.
    const size_t name_end = text.rfind(") ");
    if (name_end == text.npos || text.compare(name_end, 3, ") S") == 0) return;
    std::this_thread::yield();
  }
}

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_TESTING_THREAD_SLEEP_H_
