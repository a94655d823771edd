#include "tessera/storage/device/fork_locks.h"

#include <pthread.h>

#include <mutex>
#include <set>

namespace tessera::storage_internal {
namespace {

struct Registrations {
  std::mutex mutex;
  std::set<ForkLocks*> all;  // guarded by mutex, which a fork holds from its start to its end
};

Registrations& TheRegistrations() {
  // The object is never destroyed, because a fork may happen at any time.
  static auto& registrations = *new Registrations;
  return registrations;
}

void BeforeFork() {
  Registrations& registrations = TheRegistrations();
  registrations.mutex.lock();
  for (const ForkStage stage : {ForkStage::kTrimmers, ForkStage::kPools, ForkStage::kSystem}) {
    for (ForkLocks* const locks : registrations.all) locks->LockForFork(stage);
  }
}

void AfterFork(ForkSide side) {
  Registrations& registrations = TheRegistrations();
  for (ForkLocks* const locks : registrations.all) locks->UnlockAfterFork(side);
  registrations.mutex.unlock();
}

void AfterForkInParent() { AfterFork(ForkSide::kParent); }
void AfterForkInChild() { AfterFork(ForkSide::kChild); }

[[maybe_unused]] const int installed =
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);

}  // namespace

ForkRegistration::ForkRegistration(ForkLocks* locks) : locks_(locks) {
  Registrations& registrations = TheRegistrations();
  const std::lock_guard<std::mutex> lock(registrations.mutex);
  registrations.all.insert(locks_);
}

ForkRegistration::~ForkRegistration() {
  Registrations& registrations = TheRegistrations();
  const std::lock_guard<std::mutex> lock(registrations.mutex);
  registrations.all.erase(locks_);
}

}  // namespace tessera::storage_internal
