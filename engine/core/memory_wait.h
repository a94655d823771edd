#ifndef TESSERA_ENGINE_CORE_MEMORY_WAIT_H_
#define TESSERA_ENGINE_CORE_MEMORY_WAIT_H_

#include <chrono>
#include <new>
#include <thread>

namespace tessera::engine_internal {

/// Returns what fn() returns, as soon as it finds memory: for what has to be noted of a device's
/// work. That goes on, and whoever comes next must know what it comes after, so that there is no
/// other way out. `fn` takes memory before it changes anything. Called without locks.
template <typename Fn>
auto WithMemory(const Fn& fn) {
  for (;;) {
    try {
      return fn();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // nobody tells when there is some
    }
  }
}

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_MEMORY_WAIT_H_
