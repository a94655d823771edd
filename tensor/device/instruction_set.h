#ifndef TESSERA_TENSOR_DEVICE_INSTRUCTION_SET_H_
#define TESSERA_TENSOR_DEVICE_INSTRUCTION_SET_H_

#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera {

/// What kernels are compiled for, one of which runs: x86-64 with SSE2 (or whatever the build asks
/// for), with AVX2, FMA and F16C (half_t), or with AVX-512 F, DQ, BW and VL. Off x86-64 there is
/// the first alone.
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

/// The best one that this machine has, or what the environment variable TESSERA_INSTRUCTION_SET
/// ("baseline", "avx2", "avx512") asks for if that is less. Looked up once. Throws
/// Error(kInvalidArgument) if the variable has another value. May be called from any thread.
InstructionSet UsedInstructionSet();

/// "baseline", "avx2" or "avx512".
std::string_view Name(InstructionSet set);

}  // namespace tessera

#endif  // TESSERA_TENSOR_DEVICE_INSTRUCTION_SET_H_
