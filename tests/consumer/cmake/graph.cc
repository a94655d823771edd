// A graph with its gradient: takes operators that nothing but their registration brings along.
#include <cstdio>
#include <vector>

#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

using namespace tessera;  // NOLINT

int main() {
  const Symbol x = Symbol::Variable("x");
  const Symbol y = Symbol::Apply("Activation", {x * x}, {{"act_type", "relu"}});
  const auto executor = SimpleBind(y, Device::Cpu(), {.shapes = {{"x", {3}}}});
  const std::vector<float> values = {1, 2, 3};
  executor->arg_dict()["x"].SyncCopyFromCPU(values.data(), 3);
  executor->Forward(/*is_train=*/true);
  executor->Backward({NDArray::FromVector(std::vector<float>{1, 1, 1}, {3})});
  for (const float value : executor->grad_dict()["x"].ToVector()) std::printf("%g ", value);
  std::printf("\n");
}
