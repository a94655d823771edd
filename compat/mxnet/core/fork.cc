#include "tessera/compat/mxnet/core/fork.h"

#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>

#include "tessera/engine/engine.h"

namespace tessera::mxnet {
namespace {

/// Waits for the engine without taking its errors, which belong to later waits.
void WaitForEngine() {
  constexpr auto kPatience = std::chrono::seconds(5);
  constexpr auto kPause = std::chrono::microseconds(50);
  const Engine* const engine = Engine::Get();
  const uint64_t pushed = engine->counters().pushed;
  uint64_t done = 0;
  auto progress = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - progress < kPatience) {
    const EngineCounters now = engine->counters();
    if (now.run + now.skipped >= pushed) return;
    if (now.run + now.skipped != done) progress = std::chrono::steady_clock::now();
    done = now.run + now.skipped;
    std::this_thread::sleep_for(kPause);
  }
}

void BeforeFork() {
  try {
    WaitForEngine();
  } catch (const std::exception&) {
    // The process ends or has no memory: there is nothing to wait for.
  }
}

}  // namespace

void PrepareForForks() {
  // Handlers run in the reverse order of their registration. This one is registered after the
  // engine's, which is registered before main: it runs before the engine is locked.
  [[maybe_unused]] static const int installed = pthread_atfork(BeforeFork, nullptr, nullptr);
}

}  // namespace tessera::mxnet
