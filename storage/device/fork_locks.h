#ifndef TESSERA_STORAGE_DEVICE_FORK_LOCKS_H_
#define TESSERA_STORAGE_DEVICE_FORK_LOCKS_H_

namespace tessera::storage_internal {

/// The stages in which a fork takes locks, in this order. All code takes a lock of an earlier stage
/// before one of a later stage.
enum class ForkStage {
  kTrimmers,  ///< held while trimmers run, which free
  kPools,     ///< the locks of pools
  kSystem,    ///< the locks of allocators, which pools call
};

/// The process that continues after a fork.
enum class ForkSide {
  kParent,
  kChild,  ///< it has one thread, a copy of the one that forked
};

/// An object whose locks a fork takes. The child has only the thread that forked. A lock that
/// another thread held would stay locked in the child, and its data half changed. Therefore the
/// forking thread takes all locks before the fork and releases them in both processes.
class ForkLocks {
 public:
  /// Takes the object's locks of one stage.
  virtual void LockForFork(ForkStage stage) = 0;

  /// Releases the locks of all stages. In the child it must not wait for anything.
  virtual void UnlockAfterFork(ForkSide side) noexcept = 0;

 protected:
  ~ForkLocks() = default;
};

/// Registers an object, so that each fork takes its locks until the destructor. It should be the
/// object's last member, which is made last and destroyed first.
class ForkRegistration {
 public:
  /// Throws std::bad_alloc.
  explicit ForkRegistration(ForkLocks* locks);
  ~ForkRegistration();
  ForkRegistration(const ForkRegistration&) = delete;
  ForkRegistration& operator=(const ForkRegistration&) = delete;

 private:
  ForkLocks* const locks_;
};

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_DEVICE_FORK_LOCKS_H_
