#include "tessera/storage/pool/owner_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tessera/base/error.h"

namespace tessera::storage_internal {
namespace {

// Relaxed: the count orders nothing.
constinit std::atomic<int64_t> num_fences{0};

bool Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool CanFenceAllThreads() {
  // The test tries both, because a sandbox may allow only one of them.
  static const bool can = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                          Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  return can;
}

int64_t NumFencesOfAllThreads() { return num_fences.load(std::memory_order_relaxed); }

void FenceAllThreads() {
  num_fences.fetch_add(1, std::memory_order_relaxed);
  if (Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
  // The child of a fork may have to register again.
  const bool fenced = Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                      Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  TESSERA_DCHECK(fenced);
  static_cast<void>(fenced);
}

void OwnerLock::LockAfterOther() noexcept {
  owner_waits_.store(true, std::memory_order_relaxed);
  do {
    while (wanted_.load(std::memory_order_relaxed)) std::this_thread::yield();
  } while (!TryLockAsOwner());
  owner_waits_.store(false, std::memory_order_relaxed);
}

void OwnerLock::YieldToOwner() const {
  constexpr int kMaxYields = 16;
  for (int i = 0; i < kMaxYields && owner_waits_.load(std::memory_order_relaxed); ++i) {
    std::this_thread::yield();
  }
}

}  // namespace tessera::storage_internal
