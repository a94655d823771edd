#include "tessera/compat/mxnet/core/failed_draws.h"

#include <exception>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tessera::mxnet {
namespace {

struct Chain {
  std::mutex mutex;
  // The engine whose variable it is: the child of a fork has another one.
  Engine* engine ABSL_GUARDED_BY(mutex) = nullptr;
  Variable* var ABSL_GUARDED_BY(mutex) = nullptr;
};

Chain& TheChain() {
  static auto* const chain = new Chain;  // never destroyed, like Engine::Get()
  return *chain;
}

}  // namespace

Variable* FailedDraws() {
  Chain& chain = TheChain();
  const std::lock_guard<std::mutex> lock(chain.mutex);
  Engine* const engine = Engine::Get();
  if (chain.var == nullptr || chain.engine != engine) {
    chain.var = engine->NewVariable("failed draws");
    chain.engine = engine;
  }
  return chain.var;
}

void EndFailedDraws() noexcept {
  try {
    Chain& chain = TheChain();
    const std::lock_guard<std::mutex> lock(chain.mutex);
    if (chain.var != nullptr && chain.engine == Engine::Get()) {
      chain.engine->DeleteVariable(chain.var);
    }
    chain.var = nullptr;
  } catch (const std::exception&) {
    // The engine accepts no more work, because the process is ending.
  }
}

}  // namespace tessera::mxnet
