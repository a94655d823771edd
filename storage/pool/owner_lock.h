#ifndef TESSERA_STORAGE_POOL_OWNER_LOCK_H_
#define TESSERA_STORAGE_POOL_OWNER_LOCK_H_

#include <atomic>
#include <cstdint>
#include <thread>

namespace tessera::storage_internal {

/// Returns true if the kernel can execute a memory fence on all threads of this process (Linux's
/// membarrier). The first call registers the process for that.
bool CanFenceAllThreads();

/// Executes a full memory fence on every thread of the process. Requires: CanFenceAllThreads()
/// returned true.
void FenceAllThreads();

/// Returns the number of calls of FenceAllThreads, for tests.
int64_t NumFencesOfAllThreads();

/// A biased lock: one thread, the owner, takes it in nearly every call, and other threads seldom
/// take it. The owner executes two plain stores and a load. The others execute a system call, which
/// replaces the memory fence that the owner leaves out.
///
/// The algorithm is Dekker's: each side raises its flag, then reads the other's. A side that sees
/// the other's flag backs off. The owner lowers its own flag, so there is no deadlock.
///
/// Threads: the Owner functions are for one thread. The Other functions are for one thread at a
/// time, which the caller ensures, here by the pool's mutex. The owner may take that mutex only
/// while it does not hold this lock.
class OwnerLock {
 public:
  OwnerLock() : asymmetric_(CanFenceAllThreads()) {}

  void LockAsOwner() {
    if (!TryLockAsOwner()) [[unlikely]]
      LockAfterOther();
  }
  /// Returns false, without the lock, if another thread holds the lock or is about to.
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

  /// Yields the processor to an owner that waits for the lock. Call it after UnlockAsOther and
  /// before the lock is taken again. The scheduler may still run the owner too late.
  void YieldToOwner() const;

  // LockAsOther has three steps, so that many locks share one fence: announce at each lock, call
  // FenceAllThreads() once if any lock is asymmetric, then await each owner, or give up with
  // UnlockAsOther.
  //
  // One fence is enough because a lock only needs it between its announcement and its AwaitOwner.
  // The kernel's fence falls somewhere into the owner's instructions. If it falls before the owner
  // raises its flag, the owner reads the other flag after the announcement and sees it. If it falls
  // after, the owner's flag is visible before FenceAllThreads returns, and AwaitOwner sees it. The
  // argument involves no other lock, so operations on others in between do no harm.
  void AnnounceOther() { wanted_.store(true, std::memory_order_seq_cst); }
  bool asymmetric() const { return asymmetric_; }
  void AwaitOwner() const {
    // The owner holds the lock for nanoseconds, unless it is preempted or a timeline is recorded.
    while (held_.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }

  /// Lowers the owner's flags, in the child of a fork that holds the lock as another thread. The
  /// owner may be a thread that does not exist in the child, and that had raised its flag.
  void ResetOwner() {
    held_.store(false, std::memory_order_relaxed);
    owner_waits_.store(false, std::memory_order_relaxed);
  }

 private:
  /// Raises the owner's flag and returns the other side's.
  bool RaiseFlag() {
    if (asymmetric_) {
      held_.store(true, std::memory_order_relaxed);
      // The compiler must not reorder the store and the load. FenceAllThreads makes up for their
      // reordering by the processor.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      return wanted_.load(std::memory_order_acquire);
    }
    held_.store(true, std::memory_order_seq_cst);
    return wanted_.load(std::memory_order_seq_cst);
  }

  /// Waits for the other thread and takes the lock, after TryLockAsOwner returned false.
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

/// Holds the lock as its owner for a scope, unless another thread holds or wants it.
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

/// Holds the lock as another thread for a scope.
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
