#include "tessera/tensor/nn/winograd.h"

#include <cstdint>

#include "tessera/tensor/device/instruction_set.h"

namespace tessera::tensor_internal {

#define TESSERA_DECLARE_WINOGRAD_KERNEL(isa)                                                       \
  namespace isa {                                                                                  \
  void Weights(int64_t, const float*, int64_t, int64_t, float*, int64_t);                          \
  void Input(const WinogradTiles&, const float*, int64_t, int64_t, float*, int64_t);               \
  void Output(const WinogradTiles&, const float*, int64_t, float, bool, int64_t, int64_t, float*); \
  }
TESSERA_DECLARE_WINOGRAD_KERNEL(winograd_baseline)
TESSERA_DECLARE_WINOGRAD_KERNEL(winograd_avx2)
TESSERA_DECLARE_WINOGRAD_KERNEL(winograd_avx512)
#undef TESSERA_DECLARE_WINOGRAD_KERNEL

namespace {

struct Kernel {
  decltype(&winograd_baseline::Weights) weights;
  decltype(&winograd_baseline::Input) input;
  decltype(&winograd_baseline::Output) output;
};

const Kernel& BestKernel() {
  static const Kernel kernel = []() -> Kernel {
    switch (UsedInstructionSet()) {
      case InstructionSet::kAvx512:
        return {winograd_avx512::Weights, winograd_avx512::Input, winograd_avx512::Output};
      case InstructionSet::kAvx2:
        return {winograd_avx2::Weights, winograd_avx2::Input, winograd_avx2::Output};
      case InstructionSet::kBaseline:
        break;
    }
    return {winograd_baseline::Weights, winograd_baseline::Input, winograd_baseline::Output};
  }();
  return kernel;
}

}  // namespace

void WinogradWeights(int64_t size, const float* weights, int64_t begin, int64_t end, float* to,
                     int64_t stride) {
  BestKernel().weights(size, weights, begin, end, to, stride);
}

void WinogradInput(const WinogradTiles& tiles, const float* plane, int64_t begin, int64_t end,
                   float* to, int64_t stride) {
  BestKernel().input(tiles, plane, begin, end, to, stride);
}

void WinogradOutput(const WinogradTiles& tiles, const float* from, int64_t stride, float bias,
                    bool add, int64_t begin, int64_t end, float* out) {
  BestKernel().output(tiles, from, stride, bias, add, begin, end, out);
}

}  // namespace tessera::tensor_internal
