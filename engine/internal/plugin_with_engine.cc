// A plugin that has an engine of its own and the default one inside.

#include <memory>

#include "tessera/engine/engine.h"

namespace tessera {
namespace {

int Count(Engine* engine) {
  Variable* variable = engine->NewVariable();
  int value = 0;
  for (int i = 0; i < 100; ++i) {
    engine->PushSync([&](RunContext) { ++value; }, Device::Cpu(), {}, {variable});
  }
  engine->WaitForVar(variable);
  engine->DeleteVariable(variable);
  return value;
}

}  // namespace
}  // namespace tessera

/// Returns 200 if both engines work.
extern "C" int RunPlugin() {
  using tessera::Engine;
  const std::unique_ptr<Engine> engine =
      Engine::Create({.kind = tessera::EngineKind::kThreaded, .workers = 2});
  return tessera::Count(engine.get()) + tessera::Count(Engine::Get());
}
