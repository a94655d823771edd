// A task engine that orders work by what it reads and writes.
#include <cstdio>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"

using namespace tessera;  // NOLINT

int main() {
  const std::unique_ptr<Engine> engine = Engine::Create({.workers = 2});
  Variable* a = engine->NewVariable("a");
  Variable* b = engine->NewVariable("b");
  int left = 0, right = 0, sum = 0;
  engine->PushSync([&](RunContext) { left = 20; }, Device::Cpu(), {}, {a});
  engine->PushSync([&](RunContext) { right = 22; }, Device::Cpu(), {}, {b});  // beside the first
  Variable* c = engine->NewVariable("c");
  engine->PushSync([&](RunContext) { sum = left + right; }, Device::Cpu(), {a, b}, {c});
  engine->WaitForVar(c);
  std::printf("%d\n", sum);
  engine->PushSync([](RunContext) { throw NotFound("no such file"); }, Device::Cpu(), {}, {a},
                   {.name = "load"});
  try {
    engine->WaitForVar(a);  // the error surfaces here, once
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
  for (Variable* variable : {a, b, c}) engine->DeleteVariable(variable);
}
