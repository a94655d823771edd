// The engine runs on the consumer's TBB, which alone comes with this definition.
#include <cstdio>
#include <memory>

#include "tessera/engine/engine.h"

#ifndef CONSUMERS_TBB
#error "Tessera took another TBB than the consumer's"
#endif

using namespace tessera;  // NOLINT

int main() {
  const std::unique_ptr<Engine> engine = Engine::Create({.workers = 2});
  Variable* const answer = engine->NewVariable("answer");
  int value = 0;
  engine->PushSync([&value](RunContext) { value = 42; }, Device::Cpu(), {}, {answer});
  engine->WaitForVar(answer);
  engine->DeleteVariable(answer);
  std::printf("%d\n", value);
  return value == 42 ? 0 : 1;
}
