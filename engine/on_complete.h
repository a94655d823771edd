#ifndef TESSERA_ENGINE_ON_COMPLETE_H_
#define TESSERA_ENGINE_ON_COMPLETE_H_

#include <exception>
#include <memory>
#include <utility>

#include "tessera/base/dialect.h"

namespace tessera {

namespace engine_internal {
class Completion;
}  // namespace engine_internal

/// A handle that an asynchronous operation calls when its work is done: once, from any thread,
/// during the operation's function or long after it. Copies are handles to the same completion.
///
/// NaiveEngine runs the operations that become ready inside the call; see docs/engine.md.
///
/// Everything that happened before the call is visible to the operations that depend on this one.
/// When every copy is gone and none was called, the operation has failed with
/// Error(kFailedPrecondition): a lost callback is an error at the next wait and not a hang.
class OnComplete {
 public:
  /// The operation succeeded. Throws Error(kFailedPrecondition) if the operation is complete.
  void operator()() const { Complete(nullptr); }

  /// The operation failed with `error`, as if its function had thrown it; null means success.
  /// Throws Error(kFailedPrecondition) if the operation is complete.
  void operator()(std::exception_ptr error) const { Complete(std::move(error)); }

  /// For the engine: user code receives its handles as an argument.
  explicit OnComplete(std::shared_ptr<engine_internal::Completion> completion)
      : completion_(std::move(completion)) {}

 private:
  void Complete(std::exception_ptr error) const;

  std::shared_ptr<engine_internal::Completion> completion_;
};

}  // namespace tessera

#endif  // TESSERA_ENGINE_ON_COMPLETE_H_
