// Random numbers and workspace, ordered by the engine among the operations that use them.
#include <cstdio>
#include <vector>

#include "tessera/resource/resource_manager.h"
#include "tessera/tensor/random.h"

using namespace tessera;  // NOLINT

int main() {
  ResourceManager* resources = ResourceManager::Get();
  resources->SeedRandom(7);
  const ResourceHandle random = resources->Request(Device::Cpu(), {ResourceRequest::Type::kRandom});
  std::vector<float> noise(4);
  Engine::Get()->PushSync(
      [&](RunContext) {
        random.resource->get_random<cpu>(nullptr).SampleUniform(std::span<float>(noise), 0.0, 1.0);
      },
      Device::Cpu(), {}, {random.var});
  Engine::Get()->WaitForVar(random.var);
  for (const float value : noise) std::printf("%.4f ", value);  // the same on every machine
  std::printf("\n");
}
