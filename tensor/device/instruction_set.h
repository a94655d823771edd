#ifndef TESSERA_TENSOR_DEVICE_INSTRUCTION_SET_H_
#define TESSERA_TENSOR_DEVICE_INSTRUCTION_SET_H_

#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera::tensor_internal {

/// The instruction sets for which kernels are compiled; a program runs the kernels of one of them.
/// kBaseline is x86-64 with SSE2, or the set that the build chooses. kAvx2 is AVX2 with FMA and
/// F16C, which converts half_t. kAvx512 is AVX-512 F, DQ, BW and VL. Other processors have
/// kBaseline only.
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

/// Returns the instruction set whose kernels run. It is the best one that this machine has, or the
/// one that the environment variable TESSERA_INSTRUCTION_SET ("baseline", "avx2", "avx512") names
/// if that is less. It is determined once in a process. Throws Error(kInvalidArgument) if the
/// variable has another value. Thread-safe.
InstructionSet UsedInstructionSet();

/// Returns "baseline", "avx2" or "avx512".
std::string_view Name(InstructionSet set);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_INSTRUCTION_SET_H_
