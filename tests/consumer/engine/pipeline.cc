// A three-stage pipeline over two buffers, ordered by nothing but what each stage reads and writes.
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "tessera/engine/engine.h"

using namespace tessera;  // NOLINT

int main() {
  const std::unique_ptr<Engine> engine = Engine::Create({.workers = 4});
  std::array<std::vector<int>, 2> buffers;
  std::array<Variable*, 2> filled = {engine->NewVariable("even"), engine->NewVariable("odd")};
  Variable* const total = engine->NewVariable("total");
  long sum = 0;
  for (int batch = 0; batch < 100; ++batch) {
    std::vector<int>& buffer = buffers[batch % 2];
    Variable* const variable = filled[batch % 2];
    const auto load = [&buffer, batch](RunContext) { buffer.assign(10, batch); };
    const auto square = [&buffer](RunContext) {
      for (int& value : buffer) value *= value;
    };
    const auto add = [&buffer, &sum](RunContext) {
      sum = std::accumulate(buffer.begin(), buffer.end(), sum);
    };
    engine->PushSync(load, Device::Cpu(), {}, {variable});
    engine->PushSync(square, Device::Cpu(), {}, {variable});
    engine->PushSync(add, Device::Cpu(), {variable}, {total});  // the next load waits for it
  }
  engine->WaitForVar(total);
  std::printf("%ld\n", sum);
  for (Variable* variable : {filled[0], filled[1], total}) engine->DeleteVariable(variable);
}
