#ifndef TESSERA_TENSOR_DEVICE_RUNS_AVX2_H_
#define TESSERA_TENSOR_DEVICE_RUNS_AVX2_H_

#include "tessera/base/host_device.h"
#include "tessera/tensor/device/instruction_set.h"

/// Loops compiled for AVX2 in programs that are compiled for the x86-64 baseline. Such a loop
/// (TESSERA_AVX2_LOOP) runs if RunsAvx2 returns true. It has no fused multiply-add, so that a
/// result has the same bits as in a loop for the baseline.

/// Defined as 1 if this build has such loops, and the AVX2 packets of avx2_packet.h: a build for
/// the baseline by GCC 12 or later. Other builds have Eigen's own packets of that size, or none.
#if defined(__x86_64__) && __GNUC__ >= 12 && !defined(__clang__) && !defined(__AVX__) && \
    !defined(__CUDACC__)
#define TESSERA_HAS_AVX2_PACKETS 1
/// Marks a loop compiled for AVX2.
#define TESSERA_AVX2_LOOP __attribute__((target("avx2"), noinline))
/// Marks a function that only loops compiled for AVX2 call.
#define TESSERA_IN_AVX2_LOOP __attribute__((target("avx2"), always_inline)) inline
#else
#define TESSERA_HAS_AVX2_PACKETS 0
#define TESSERA_AVX2_LOOP
#define TESSERA_IN_AVX2_LOOP inline
#endif

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns whether loops compiled for AVX2 run: this build has such loops, the machine has the
/// instructions of InstructionSet::kAvx2, and TESSERA_INSTRUCTION_SET allows them. Throws the
/// errors of UsedInstructionSet.
inline bool RunsAvx2() {
#if TESSERA_HAS_AVX2_PACKETS
  static const bool runs = UsedInstructionSet() != InstructionSet::kBaseline;
  return runs;
#else
  return false;
#endif
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_RUNS_AVX2_H_
