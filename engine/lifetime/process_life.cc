#include "tessera/engine/lifetime/process_life.h"

#include <dlfcn.h>
#include <pthread.h>

#include <set>

#include "absl/base/thread_annotations.h"

namespace tessera::engine_internal {

namespace {

struct Watches {
  std::mutex mutex;
  std::set<ForkWatch*> all ABSL_GUARDED_BY(mutex);
};

Watches& TheWatches() {
  // Never destroyed: engines may end after static objects, and forks may come at any time.
  static auto& watches = *new Watches;
  return watches;
}

std::atomic<uint32_t> fork_generation{0};  // written in a child with one thread

}  // namespace

void TellWatchesOfFork() {
  for (ForkWatch* watch : TheWatches().all) watch->forked_.store(true, std::memory_order_relaxed);
}

namespace {

void BeforeFork() {
  DefaultEngineMutex().lock();
  TheWatches().mutex.lock();
}

void AfterForkInParent() {
  TheWatches().mutex.unlock();
  DefaultEngineMutex().unlock();
}

void AfterForkInChild() {
  fork_generation.fetch_add(1, std::memory_order_relaxed);
  TellWatchesOfFork();
  AfterForkInParent();
}

[[maybe_unused]] const int installed =
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);

}  // namespace

uint32_t ForkGeneration() { return fork_generation.load(std::memory_order_relaxed); }

std::mutex& DefaultEngineMutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

void KeepCodeLoaded() {
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&KeepCodeLoaded), &library) == 0) return;
  // If this is the program itself there is nothing to keep, and the call finds nothing.
  dlopen(library.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

ForkWatch::ForkWatch() {
  std::lock_guard<std::mutex> hold(TheWatches().mutex);
  TheWatches().all.insert(this);
}

ForkWatch::~ForkWatch() {
  std::lock_guard<std::mutex> hold(TheWatches().mutex);
  TheWatches().all.erase(this);
}

}  // namespace tessera::engine_internal
