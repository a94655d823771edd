#ifndef TESSERA_COMPAT_MXNET_CORE_EXCLUSIVE_USE_H_
#define TESSERA_COMPAT_MXNET_CORE_EXCLUSIVE_USE_H_

#include <atomic>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::mxnet {

/// The right of a call to use what one call at a time may use. A second call is an error instead of
/// waiting, because the first one may be the one that it is called by.
class ExclusiveUse {
 public:
  /// Takes the right, and has it until the end of the scope. Throws Error(kFailedPrecondition) with
  /// the message `in_use` if another call has it. `flag` is false at first and outlives the object.
  ExclusiveUse(std::atomic<bool>* flag, const char* in_use) : flag_(flag) {
    // Acquire: pairs with the release of the call before, whose changes this one sees.
    if (flag_->exchange(true, std::memory_order_acquire)) throw FailedPrecondition(in_use);
  }
  ExclusiveUse(ExclusiveUse&& other) noexcept : flag_(std::exchange(other.flag_, nullptr)) {}
  ~ExclusiveUse() {
    if (flag_ != nullptr) flag_->store(false, std::memory_order_release);
  }
  ExclusiveUse& operator=(ExclusiveUse&&) = delete;

 private:
  std::atomic<bool>* flag_;  // null if another object has taken the right
};

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_EXCLUSIVE_USE_H_
