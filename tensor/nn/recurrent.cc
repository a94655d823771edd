#include "tessera/tensor/nn/recurrent.h"

#include "tessera/tensor/device/instruction_set.h"

namespace tessera::tensor_internal {

#define TESSERA_DECLARE_RECURRENT_KERNEL(isa)                           \
  namespace isa {                                                       \
  void ForwardFloat(RecurrentCell, const RecurrentStep<float>&);        \
  void ForwardDouble(RecurrentCell, const RecurrentStep<double>&);      \
  void BackwardFloat(RecurrentCell, const RecurrentGradient<float>&);   \
  void BackwardDouble(RecurrentCell, const RecurrentGradient<double>&); \
  }
TESSERA_DECLARE_RECURRENT_KERNEL(recurrent_baseline)
TESSERA_DECLARE_RECURRENT_KERNEL(recurrent_avx2)
TESSERA_DECLARE_RECURRENT_KERNEL(recurrent_avx512)
#undef TESSERA_DECLARE_RECURRENT_KERNEL

namespace {

template <typename Kernel>
Kernel Choose(Kernel baseline, Kernel avx2, Kernel avx512) {
  switch (UsedInstructionSet()) {
    case InstructionSet::kAvx512:
      return avx512;
    case InstructionSet::kAvx2:
      return avx2;
    case InstructionSet::kBaseline:
      break;
  }
  return baseline;
}

}  // namespace

void RecurrentForward(RecurrentCell cell, const RecurrentStep<float>& step) {
  static const auto kernel = Choose(recurrent_baseline::ForwardFloat, recurrent_avx2::ForwardFloat,
                                    recurrent_avx512::ForwardFloat);
  kernel(cell, step);
}
void RecurrentForward(RecurrentCell cell, const RecurrentStep<double>& step) {
  static const auto kernel = Choose(recurrent_baseline::ForwardDouble,
                                    recurrent_avx2::ForwardDouble, recurrent_avx512::ForwardDouble);
  kernel(cell, step);
}

void RecurrentBackward(RecurrentCell cell, const RecurrentGradient<float>& step) {
  static const auto kernel = Choose(recurrent_baseline::BackwardFloat,
                                    recurrent_avx2::BackwardFloat, recurrent_avx512::BackwardFloat);
  kernel(cell, step);
}
void RecurrentBackward(RecurrentCell cell, const RecurrentGradient<double>& step) {
  static const auto kernel =
      Choose(recurrent_baseline::BackwardDouble, recurrent_avx2::BackwardDouble,
             recurrent_avx512::BackwardDouble);
  kernel(cell, step);
}

}  // namespace tessera::tensor_internal
