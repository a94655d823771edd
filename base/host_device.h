#ifndef TESSERA_BASE_HOST_DEVICE_H_
#define TESSERA_BASE_HOST_DEVICE_H_

#include "tessera/base/dialect.h"

/// TESSERA_HD marks a function that runs on both the host and a CUDA device, and asks for it to be
/// inlined: such functions are the bodies of kernels. It is the only place where the preprocessor
/// looks at the CUDA compiler outside of files named for CUDA.
#if defined(__CUDACC__)
#define TESSERA_HD __host__ __device__ __forceinline__
#else
#define TESSERA_HD inline __attribute__((always_inline))
#endif

/// 1 where nvcc compiles for the device: for the few functions of which the host has another form.
#if defined(__CUDA_ARCH__)
#define TESSERA_DEVICE_CODE 1
#else
#define TESSERA_DEVICE_CODE 0
#endif

/// The namespace of code whose instructions depend on the compiler or on the instruction set: an
/// inline namespace by this name keeps the linker from merging two different bodies into one. A
/// kernel that is compiled several times within one program defines a name of its own.
#if defined(TESSERA_ISA_NAMESPACE)
#elif defined(__CUDACC__)
#define TESSERA_ISA_NAMESPACE isa_nvcc
#elif defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__)
#define TESSERA_ISA_NAMESPACE isa_avx512
#elif defined(__AVX512F__)
#define TESSERA_ISA_NAMESPACE isa_avx512f
#elif defined(__AVX2__) && defined(__FMA__)
#define TESSERA_ISA_NAMESPACE isa_avx2
#elif defined(__AVX2__)
#define TESSERA_ISA_NAMESPACE isa_avx2_without_fma
#elif defined(__AVX__)
#define TESSERA_ISA_NAMESPACE isa_avx
#elif defined(__SSE4_1__)
#define TESSERA_ISA_NAMESPACE isa_sse4
#else
#define TESSERA_ISA_NAMESPACE isa_baseline
#endif

#endif  // TESSERA_BASE_HOST_DEVICE_H_
