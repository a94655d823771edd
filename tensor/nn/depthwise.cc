#include "tessera/tensor/nn/depthwise.h"

#include <cstdint>

#include "tessera/tensor/device/instruction_set.h"

namespace tessera::tensor_internal {

#define TESSERA_DECLARE_DEPTHWISE_KERNEL(isa)                                                    \
  namespace isa {                                                                                \
  void Correlate(const DepthwiseWindow&, const float*, const float*, float, bool, int64_t,       \
                 int64_t, float*);                                                               \
  void Spread(const DepthwiseWindow&, const float*, const float*, float, bool, int64_t, int64_t, \
              float*);                                                                           \
  void GroupCorrelate(const DepthwiseWindow&, const GroupExtents&, const float*, const float*,   \
                      const float*, bool, int64_t, int64_t, float*);                             \
  void WeightGradient(const DepthwiseWindow&, const float*, int64_t, const float*, int64_t,      \
                      int64_t, int64_t, double*);                                                \
  void GroupWeightGradient(const DepthwiseWindow&, const GroupExtents&, const float*, int64_t,   \
                           const float*, int64_t, int64_t, int64_t, double*);                    \
  }
TESSERA_DECLARE_DEPTHWISE_KERNEL(depthwise_baseline)
TESSERA_DECLARE_DEPTHWISE_KERNEL(depthwise_avx2)
TESSERA_DECLARE_DEPTHWISE_KERNEL(depthwise_avx512)
#undef TESSERA_DECLARE_DEPTHWISE_KERNEL

namespace {

struct Kernel {
  decltype(&depthwise_baseline::Correlate) correlate;
  decltype(&depthwise_baseline::Spread) spread;
  decltype(&depthwise_baseline::GroupCorrelate) group_correlate;
  decltype(&depthwise_baseline::WeightGradient) weight_gradient;
  decltype(&depthwise_baseline::GroupWeightGradient) group_weight_gradient;
};

const Kernel& BestKernel() {
  static const Kernel kernel = []() -> Kernel {
    switch (UsedInstructionSet()) {
      case InstructionSet::kAvx512:
        return {depthwise_avx512::Correlate, depthwise_avx512::Spread,
                depthwise_avx512::GroupCorrelate, depthwise_avx512::WeightGradient,
                depthwise_avx512::GroupWeightGradient};
      case InstructionSet::kAvx2:
        return {depthwise_avx2::Correlate, depthwise_avx2::Spread, depthwise_avx2::GroupCorrelate,
                depthwise_avx2::WeightGradient, depthwise_avx2::GroupWeightGradient};
      case InstructionSet::kBaseline:
        break;
    }
    return {depthwise_baseline::Correlate, depthwise_baseline::Spread,
            depthwise_baseline::GroupCorrelate, depthwise_baseline::WeightGradient,
            depthwise_baseline::GroupWeightGradient};
  }();
  return kernel;
}

}  // namespace

void DepthwiseCorrelate(const DepthwiseWindow& window, const float* plane, const float* weights,
                        float start, bool add, int64_t begin, int64_t end, float* out) {
  if (begin >= end || window.out_width == 0) return;
  BestKernel().correlate(window, plane, weights, start, add, begin, end, out);
}

void DepthwiseSpread(const DepthwiseWindow& window, const float* out, const float* weights,
                     float start, bool add, int64_t begin, int64_t end, float* plane) {
  if (begin >= end || window.width == 0) return;
  BestKernel().spread(window, out, weights, start, add, begin, end, plane);
}

void GroupCorrelate(const DepthwiseWindow& window, const GroupExtents& group, const float* planes,
                    const float* weights, const float* biases, bool add, int64_t begin, int64_t end,
                    float* outs) {
  if (begin >= end || window.out_width == 0) return;
  BestKernel().group_correlate(window, group, planes, weights, biases, add, begin, end, outs);
}

void DepthwiseWeightGradient(const DepthwiseWindow& window, const DepthwiseSamples& samples,
                             int64_t begin, int64_t end, double* sums) {
  BestKernel().weight_gradient(window, samples.planes, samples.plane_stride, samples.outs,
                               samples.out_stride, begin, end, sums);
}

void GroupWeightGradient(const DepthwiseWindow& window, const GroupExtents& group,
                         const DepthwiseSamples& samples, int64_t begin, int64_t end,
                         double* sums) {
  BestKernel().group_weight_gradient(window, group, samples.planes, samples.plane_stride,
                                     samples.outs, samples.out_stride, begin, end, sums);
}

}  // namespace tessera::tensor_internal
