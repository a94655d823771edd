#ifndef TESSERA_STORAGE_DEVICE_FORK_LOCKS_H_
#define TESSERA_STORAGE_DEVICE_FORK_LOCKS_H_

namespace tessera::storage_internal {

/// The locks that a fork takes, in this order: each is elsewhere, too, taken before those below it.
enum class ForkStage {
  kTrimmers,  ///< held while trimmers run, which free
  kPools,
  kSystem,  ///< what pools call with their locks held
};

/// Who goes on after a fork.
enum class ForkSide {
  kParent,
  kChild,  ///< with one thread, the one that forked
};

/// An object with locks. Of all threads only the one that forks is there in the child: what another
/// one has locked would stay locked in it, and half changed. So the thread that forks takes all
/// locks before, and gives them back on both sides.
class ForkLocks {
 public:
  /// Takes the object's locks of one stage.
  virtual void LockForFork(ForkStage stage) = 0;

  /// Gives back what all stages have taken. In the child it must not wait for anything.
  virtual void UnlockAfterFork(ForkSide side) noexcept = 0;

 protected:
  ~ForkLocks() = default;
};

/// Has an object's locks taken at each fork while this lives: a member that is made last, and
/// destroyed first.
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
