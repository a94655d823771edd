// A tensor that one operation of the engine fills and the next one sums up.
#include <cstdio>
#include <memory>

#include "tessera/engine/engine.h"
#include "tessera/tensor/tensor.h"

using namespace tessera;  // NOLINT

int main() {
  const std::unique_ptr<Engine> engine = Engine::Create({.workers = 2});
  Variable* const squares = engine->NewVariable("squares");
  TensorContainer<cpu, 1> x(Shape1(10));
  float sum = 0;
  const auto fill = [&x](RunContext) {
    for (index_t i = 0; i < 10; ++i) x[i] = static_cast<float>(i * i);
  };
  engine->PushSync(fill, Device::Cpu(), {}, {squares});
  engine->PushSync([&](RunContext) { sum = ReduceAll<red::sum>(x + 1.0f); }, Device::Cpu(), {},
                   {squares});
  engine->WaitForVar(squares);
  engine->DeleteVariable(squares);
  std::printf("%g\n", sum);
  return sum == 295.0f ? 0 : 1;
}
