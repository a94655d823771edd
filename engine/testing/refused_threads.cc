#include "tessera/engine/testing/refused_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace tessera::engine_internal {
namespace {

constexpr int kAlways = std::numeric_limits<int>::max();

std::atomic<int> made{0};
std::atomic<int> refused_from{kAlways};
std::atomic<int> delayed{kAlways};
std::atomic<bool> has_delayed{false}, delayed_may_begin{false};

struct DelayedStart {
  void* (*function)(void*);
  void* argument;
};
DelayedStart delayed_start;  // written before its thread is made

void* StartLate(void*) {
  delayed_may_begin.wait(false);
  return delayed_start.function(delayed_start.argument);
}

}  // namespace

void RefuseThreadsAfter(int count) { refused_from = made + count; }

void AllowThreads() { refused_from = kAlways; }

void DelayThreadAfter(int count) { delayed = made + count; }

void BeginDelayedThread() {
  delayed_may_begin = true;
  delayed_may_begin.notify_all();
}

bool HasDelayedThread() { return has_delayed; }

}  // namespace tessera::engine_internal

using namespace tessera::engine_internal;  // NOLINT: for a function of the system's

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*function)(void*), void* argument) noexcept {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  const int number = made.load();
  if (number >= refused_from) return EAGAIN;
  ++made;
  if (number != delayed) return create(thread, attributes, function, argument);
  delayed_start = {function, argument};
  has_delayed = true;
  return create(thread, attributes, StartLate, nullptr);
}
