#ifndef TESSERA_COMPAT_MXNET_CORE_CALLBACKS_H_
#define TESSERA_COMPAT_MXNET_CORE_CALLBACKS_H_

#include <cstddef>
#include <vector>

#include "tessera/compat/mxnet/core/api_call.h"

namespace tessera::mxnet {

/// A call of a client's function. The thread has other results for its duration.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  /// Returns whether the function may be called. After MXNotifyShutdown, which waits for the end of
  /// scopes that may, none may begin: Python is ending.
  bool allowed() const { return allowed_; }
  /// Throws Error(kFailedPrecondition) unless it may.
  void RequireAllowed() const;

 private:
  const bool allowed_;
  Results saved_;
};

/// Functions that a client hands over, with an argument for each. MXNet's names for the members.
struct MXCallbackList {
  int num_callbacks;
  int (**callbacks)(void);
  void** contexts;
};

/// A copy of a list of functions, which stay callable until the client's delete function was
/// called.
///
/// Threads: calls may overlap.
class Callbacks {
 public:
  Callbacks() = default;
  /// Throws Error(kInvalidArgument) for a list without its arrays.
  explicit Callbacks(const MXCallbackList& list);

  /// Calls function `index` with its context as the last argument. Returns whether the function has
  /// succeeded; false if the list does not have it. Throws Error(kFailedPrecondition) after
  /// MXNotifyShutdown.
  template <typename... Arguments>
  bool Call(size_t index, Arguments... arguments) const {
    if (index >= functions_.size() || functions_[index] == nullptr) return false;
    const CallbackScope scope;
    scope.RequireAllowed();
    const auto function = reinterpret_cast<int (*)(Arguments..., void*)>(functions_[index]);
    return function(arguments..., contexts_[index]) != 0;
  }

  /// Calls the client's delete function, unless there is none or the client has ended.
  void Delete(size_t index) const noexcept;

 private:
  std::vector<void (*)()> functions_;  // of types that their callers know
  std::vector<void*> contexts_;
};

/// Returns what CallbackScope::allowed() would return now, for a client's function that may be left
/// out.
bool MayCallBack();

/// Returns whether the thread is in a call of a client's function.
bool InCallback();

/// Forbids later calls of clients' functions, and returns when those of other threads have ended.
void EndCallbacks();

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_CALLBACKS_H_
