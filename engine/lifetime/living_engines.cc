#include "tessera/engine/lifetime/living_engines.h"

#include <mutex>

#include "tessera/base/fork.h"

namespace tessera::engine_internal {
namespace {

// Where a fork has lost threads one of them may hold it; but then there are no workers to ask.
std::mutex& TheMutex() {
  // Never destroyed: engines may end after static objects.
  static auto& mutex = *new std::mutex;
  return mutex;
}

LivingEngine* first = nullptr;  // guarded by the mutex

}  // namespace

LivingEngine::LivingEngine(uint64_t id, DependencyEngine* engine) : id_(id), engine_(engine) {
  if (ThreadsLostInFork()) return;
  std::lock_guard<std::mutex> hold(TheMutex());
  next_ = first;
  if (first != nullptr) first->previous_ = this;
  first = this;
}

void LivingEngine::End() {
  if (ThreadsLostInFork()) return;
  std::lock_guard<std::mutex> hold(TheMutex());
  if (ended_) return;
  ended_ = true;
  (previous_ == nullptr ? first : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

bool LivingEngine::Find(uint64_t id, const std::function<void(DependencyEngine&)>& use) {
  if (ThreadsLostInFork()) return false;
  std::lock_guard<std::mutex> hold(TheMutex());
  LivingEngine* living = first;
  while (living != nullptr && living->id_ != id) living = living->next_;
  if (living == nullptr) return false;
  use(*living->engine_);
  return true;
}

}  // namespace tessera::engine_internal
