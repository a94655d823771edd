#ifndef TESSERA_ENGINE_CORE_COMPLETION_H_
#define TESSERA_ENGINE_CORE_COMPLETION_H_

#include <atomic>
#include <exception>
#include <source_location>
#include <string>

namespace tessera::engine_internal {

struct Execution;

/// Who hears that an asynchronous execution is complete.
class CompletionListener {
 public:
  /// Called once for each completion, in the thread that completes it.
  virtual void OnExecutionComplete(Execution* execution, std::exception_ptr error) = 0;

 protected:
  ~CompletionListener() = default;
};

/// The state that all OnComplete handles of one operation share. After the completion it does not
/// touch the execution or the engine any more, so handles may outlive both.
class Completion {
 public:
  Completion(CompletionListener* listener, Execution* execution);
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  /// The last handle is gone: if none was called, the operation has failed.
  ~Completion();

  /// Completes the operation. Returns false if it was complete before.
  bool TryComplete(std::exception_ptr error);

  const std::string& operation() const { return operation_; }
  std::source_location pushed_at() const { return pushed_at_; }

 private:
  CompletionListener* const listener_;
  Execution* const execution_;
  const std::string operation_;  // a copy, for an error after the execution is reused
  const std::source_location pushed_at_;
  const uint32_t fork_generation_;  // in the child of a fork the engine may be gone
  std::atomic<bool> complete_{false};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_COMPLETION_H_
