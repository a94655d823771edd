#ifndef TESSERA_STORAGE_POOL_OWNER_LOCK_H_
#define TESSERA_STORAGE_POOL_OWNER_LOCK_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace tessera::storage_internal {

/// True if this process may ask the kernel to fence all of its threads at once (Linux's
/// membarrier); the first call registers the process for that.
bool CanFenceAllThreads();

/// Every thread of the process has run a full fence when this returns. Only after
/// CanFenceAllThreads() said yes.
void FenceAllThreads();

/// How often FenceAllThreads has been called, for tests.
int64_t NumFencesOfAllThreads();

/// A lock between one thread, its owner, which takes it at nearly every call, and others, which
/// hardly ever do. The owner pays two plain stores and a load; the others pay for both with a
/// system call, which stands in for the fence that the owner leaves out.
///
/// It is Dekker's: each side raises its flag, then looks at the other's. A side that sees the
/// other's flag backs off, the owner by lowering its own, so there is no deadlock.
///
/// Threads: the Owner functions on one thread; the Other functions by one thread at a time, which
/// the caller sees to (here by the pool's mutex). The owner may take the mutex only while it does
/// not hold the lock.
class OwnerLock {
 public:
  OwnerLock() : asymmetric_(CanFenceAllThreads()) {}

  void LockAsOwner() {
    if (!TryLockAsOwner()) [[unlikely]]
      LockAfterOther();
  }
  /// False, and nothing is locked, if somebody else holds the lock or is about to.
  bool TryLockAsOwner() {
    if (!RaiseFlag()) [[likely]]
      return true;
    UnlockAsOwner();
    return false;
  }
  /// Pairs with the acquire in LockAsOther.
  void UnlockAsOwner() { held_.store(false, std::memory_order_release); }

  void LockAsOther() {
    AnnounceOther();
    if (asymmetric_) FenceAllThreads();
    AwaitOwner();
  }
  /// Pairs with the acquire in RaiseFlag.
  void UnlockAsOther() { wanted_.store(false, std::memory_order_release); }

  /// After UnlockAsOther, if the lock is soon to be taken again: an owner that waits for it has it
  /// first, unless the scheduler keeps it from that.
  void YieldToOwner() const;

  // LockAsOther in three steps, so that many locks share one fence: announce at each, one
  // FenceAllThreads() if any is asymmetric, then await each, or give up with UnlockAsOther.
  //
  // One is enough because all that a lock needs of it is its place after that lock's announcement
  // and before its AwaitOwner. On the owner's thread the kernel's fence falls somewhere in between:
  // if before the owner raises its flag, the owner's look comes after the announcement and sees it;
  // if after, the flag is out before FenceAllThreads returns, and AwaitOwner sees that. Nothing of
  // this speaks of other locks, so whatever is done to them on the way does no harm.
  void AnnounceOther() { wanted_.store(true, std::memory_order_seq_cst); }
  bool asymmetric() const { return asymmetric_; }
  void AwaitOwner() const {
    // The owner holds it for nanoseconds, unless the scheduler has put it aside or a timeline is
    // being taken.
    while (held_.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }

  /// In the child of a fork that has held the lock as somebody else: the owner may be a thread that
  /// is gone, and may have had its flag raised, about to see the other one.
  void ResetOwner() {
    held_.store(false, std::memory_order_relaxed);
    owner_waits_.store(false, std::memory_order_relaxed);
  }

 private:
  /// The owner's; returns the other side's.
  bool RaiseFlag() {
    if (asymmetric_) {
      held_.store(true, std::memory_order_relaxed);
      // Keeps the compiler from swapping the two; what the processor swaps, FenceAllThreads undoes.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      return wanted_.load(std::memory_order_acquire);
    }
    held_.store(true, std::memory_order_seq_cst);
    return wanted_.load(std::memory_order_seq_cst);
  }

  /// After TryLockAsOwner has said no.
  void LockAfterOther() noexcept;

  const bool asymmetric_;
  std::atomic<bool> held_{false};
  std::atomic<bool> wanted_{false};
  /// Relaxed: it orders nothing.
  std::atomic<bool> owner_waits_{false};
};

/// Holds the lock as its owner for a scope.
class OwnerGuard {
 public:
  explicit OwnerGuard(OwnerLock& lock) : lock_(lock) { lock_.LockAsOwner(); }
  ~OwnerGuard() { lock_.UnlockAsOwner(); }
  OwnerGuard(const OwnerGuard&) = delete;
  OwnerGuard& operator=(const OwnerGuard&) = delete;

 private:
  OwnerLock& lock_;
};

/// Holds the lock as its owner for a scope if nobody else wants it.
class OwnerTryGuard {
 public:
  explicit OwnerTryGuard(OwnerLock& lock) : lock_(lock), locked_(lock.TryLockAsOwner()) {}
  ~OwnerTryGuard() {
    if (locked_) lock_.UnlockAsOwner();
  }
  OwnerTryGuard(const OwnerTryGuard&) = delete;
  OwnerTryGuard& operator=(const OwnerTryGuard&) = delete;

  bool locked() const { return locked_; }

 private:
  OwnerLock& lock_;
  const bool locked_;
};

/// Holds the lock as somebody else for a scope.
class OtherGuard {
 public:
  explicit OtherGuard(OwnerLock& lock) : lock_(lock) { lock_.LockAsOther(); }
  ~OtherGuard() { lock_.UnlockAsOther(); }
  OtherGuard(const OtherGuard&) = delete;
  OtherGuard& operator=(const OtherGuard&) = delete;

 private:
  OwnerLock& lock_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_POOL_OWNER_LOCK_H_
