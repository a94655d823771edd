// How fast one core draws: the bounds are 2 GB/s for uniform and 1 GB/s for normal numbers in
// float.

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tbb/global_control.h"
#include "tessera/resource/resource.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::Variant;
using benchmarking::Variants;

// In L2: the numbers' cost, not memory's.
constexpr int64_t kSize = 64 << 10;
constexpr double kBytes = kSize * sizeof(float);

template <typename Ours, typename Distribution>
void Add(const std::string& name, double bytes_per_second, const Ours& ours,
         const Distribution& distribution) {
  benchmarking::AddCase(
      {.name = name,
       .bytes = kBytes,
       .items = kSize,
       .limit_seconds = kBytes / bytes_per_second,
       .make = [ours, distribution] {
         const auto values = std::make_shared<std::vector<float>>(kSize);
         const auto random = std::make_shared<Random<cpu>>(1);
         const auto draw = [values, random, ours] { ours(*random, std::span<float>(*values)); };
         const auto draw_std = [values, distribution, twister = std::mt19937(1)]() mutable {
           for (float& value : *values) value = distribution(twister);
         };
         return Variants{.all = {Variant("ours", draw), Variant("std", draw_std)}};
       }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::cpu;
  using tessera::Random;
  const tbb::global_control one_core(tbb::global_control::max_allowed_parallelism, 1);
  tessera::Add(
      "uniform/float", 2e9, [](Random<cpu>& random, auto out) { random.SampleUniform(out); },
      [](auto& twister) { return std::uniform_real_distribution<float>()(twister); });
  tessera::Add(
      "normal/float", 1e9, [](Random<cpu>& random, auto out) { random.SampleGaussian(out); },
      [](auto& twister) { return std::normal_distribution<float>()(twister); });
  return tessera::benchmarking::RunAll(argc, argv);
}
