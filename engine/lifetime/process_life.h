#ifndef TESSERA_ENGINE_LIFETIME_PROCESS_LIFE_H_
#define TESSERA_ENGINE_LIFETIME_PROCESS_LIFE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace tessera::engine_internal {

/// The number of forks between this process and the first one.
uint32_t ForkGeneration();

/// Held while the default engine is made, and during a fork: a child never finds it half made.
std::mutex& DefaultEngineMutex();

/// Keeps this library's code where it is until the process ends, even if a plugin that holds it is
/// closed: TBB's threads are on their way through it for some moments after an engine has ended.
void KeepCodeLoaded();

/// Learns of forks for an object that is of no use in the child.
class ForkWatch {
 public:
  ForkWatch();
  ~ForkWatch();
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;

  /// Returns whether the process is another one than that in which the object was made. The threads
  /// that worked on it are gone, their locks are not.
  bool forked() const {
    // Relaxed: written when the process has one thread.
    return forked_.load(std::memory_order_relaxed);
  }

 private:
  friend void TellWatchesOfFork();

  std::atomic<bool> forked_{false};
};

/// A member that is left alone in the child of a fork: its destructor would wait for threads that
/// are not there any more.
template <typename Type>
class DroppedAfterFork {
 public:
  template <typename... Arguments>
  explicit DroppedAfterFork(const ForkWatch& watch, Arguments&&... arguments)
      : watch_(watch), object_(new Type(std::forward<Arguments>(arguments)...)) {}
  ~DroppedAfterFork() {
    if (!watch_.forked()) delete object_;
  }
  DroppedAfterFork(const DroppedAfterFork&) = delete;
  DroppedAfterFork& operator=(const DroppedAfterFork&) = delete;

  Type& operator*() const { return *object_; }
  Type* operator->() const { return object_; }

 private:
  const ForkWatch& watch_;
  Type* const object_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_LIFETIME_PROCESS_LIFE_H_
