#include "tessera/tensor/device/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <string>

#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::tensor_internal {
namespace {

#if defined(__x86_64__)
// Returns whether the processor has F16C. The __builtin_cpu_supports of some compilers does not
// know it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

InstructionSet MachinesInstructionSet() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c()) {
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return avx512 ? InstructionSet::kAvx512 : InstructionSet::kAvx2;
  }
#endif
  return InstructionSet::kBaseline;
}

InstructionSet AllowedInstructionSet() {
  const std::string name = EnvironmentString("TESSERA_INSTRUCTION_SET", "avx512");
  for (const auto set :
       {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (name == Name(set)) return set;
  }
  throw InvalidArgument("TESSERA_INSTRUCTION_SET=", Excerpt(name),
                        " is not an instruction set; expected baseline, avx2 or avx512");
}

}  // namespace

InstructionSet UsedInstructionSet() {
  static const InstructionSet used = std::min(MachinesInstructionSet(), AllowedInstructionSet());
  return used;
}

std::string_view Name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace tessera::tensor_internal
