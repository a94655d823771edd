// A plugin that has an engine of its own and the default one inside.

#include <atomic>
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

std::atomic<int> left_behind{0};

/// Leaves the engine with work that pends when the plugin is closed.
void LeaveWork(Engine* engine) {
  Variable* variable = engine->NewVariable();
  for (int i = 0; i < 100; ++i) {
    engine->PushSync([](RunContext) { ++left_behind; }, Device::Cpu(), {}, {variable});
  }
  engine->DeleteVariable(variable);
}

}  // namespace
}  // namespace tessera

/// Returns 200 if both engines work.
extern "C" int RunPlugin() {
  using tessera::Engine;
  const std::unique_ptr<Engine> engine =
      Engine::Create({.kind = tessera::EngineKind::kThreaded, .workers = 2});
  const int counted = tessera::Count(engine.get()) + tessera::Count(Engine::Get());
  tessera::LeaveWork(Engine::Get());
  return counted;
}
