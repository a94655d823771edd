#include "tessera/compat/mxnet/core/callbacks.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::mxnet {
namespace {

thread_local uint32_t calls_of_thread = 0;

/// The calls of clients' functions that all threads are in, and whether more may begin.
class CallGate {
 public:
  /// Returns the process's gate, which is never destroyed.
  static CallGate& Get() {
    static auto* const gate = new CallGate;
    return *gate;
  }

  bool Enter() {
    uint32_t state = state_.load();
    do {
      if (!IsOpen(state)) return false;
    } while (!state_.compare_exchange_weak(state, state + kCall));
    ++calls_of_thread;
    return true;
  }

  bool IsOpen() const { return IsOpen(state_.load()); }

  void Leave() {
    --calls_of_thread;
    state_.fetch_sub(kCall);
    state_.notify_all();
  }

  void End() {
    uint32_t state = state_.fetch_or(kEnded) | kEnded;
    while (state != (kEnded | calls_of_thread * kCall)) {
      state_.wait(state);
      state = state_.load();
    }
  }

 private:
  /// Calls inside a client's function belong to the call that End waits for.
  static bool IsOpen(uint32_t state) { return (state & kEnded) == 0 || calls_of_thread > 0; }

  static constexpr uint32_t kEnded = 1;
  static constexpr uint32_t kCall = 2;

  CallGate() {
    // The child of a fork has one thread.
    pthread_atfork(nullptr, nullptr, [] {
      CallGate& gate = Get();
      gate.state_.store((gate.state_.load() & kEnded) | calls_of_thread * kCall);
    });
  }

  std::atomic<uint32_t> state_{0};
};

}  // namespace

CallbackScope::CallbackScope()
    : allowed_(CallGate::Get().Enter()), saved_(std::move(Results::OfThread())) {
  Results::OfThread() = Results();
}

CallbackScope::~CallbackScope() {
  Results::OfThread() = std::move(saved_);
  if (allowed_) CallGate::Get().Leave();
}

void CallbackScope::RequireAllowed() const {
  if (allowed_) return;
  throw FailedPrecondition("a function of the client is needed, but the client has ended: ",
                           "MXNotifyShutdown was called");
}

Callbacks::Callbacks(const MXCallbackList& list) {
  if (list.num_callbacks < 0) throw InvalidArgument("the number of callbacks is negative");
  const auto count = static_cast<size_t>(list.num_callbacks);
  const auto contexts = ListOf(list.contexts, count, "contexts");
  for (int (*const function)() : ListOf(list.callbacks, count, "callbacks")) {
    functions_.push_back(reinterpret_cast<void (*)()>(function));
  }
  contexts_.assign(contexts.begin(), contexts.end());
}

void Callbacks::Delete(size_t index) const noexcept {
  try {
    Call(index);
  } catch (...) {
    // The client has ended, and its memory with it.
  }
}

bool MayCallBack() { return CallGate::Get().IsOpen(); }

bool InCallback() { return calls_of_thread > 0; }

void EndCallbacks() { CallGate::Get().End(); }

}  // namespace tessera::mxnet
