#ifndef MSHADOW_HALF_H_
#define MSHADOW_HALF_H_

#include "tessera/base/dialect.h"

#if defined(__CUDACC__) && !defined(CUDA_NO_HALF)
// CUDA's header has a type ::half. After `using namespace mshadow` it would make the namespace
// mshadow::half ambiguous. The header still defines __half, and Eigen needs half2.
#define CUDA_NO_HALF
#include <cuda_fp16.h>
typedef __half2 half2;
#endif

#include "tessera/base/dtype.h"

namespace mshadow {

/// IEEE binary16. Numbers convert to it, `half::half_t h = 0.5f`, and it converts to float.
namespace half {
using tessera::half_t;
}  // namespace half

/// bfloat16. Numbers convert to it, and it converts to float.
namespace bfloat {
/// The type; see tessera::Float16.
using bf16_t = tessera::bfloat16_t;
}  // namespace bfloat

}  // namespace mshadow

/// The lowest and the highest finite value.
#define MSHADOW_HALF_MIN ::mshadow::half::half_t::Binary(0xFBFF)
#define MSHADOW_HALF_MAX ::mshadow::half::half_t::Binary(0x7BFF)
#define MSHADOW_BF16_MIN ::mshadow::bfloat::bf16_t::Binary(0xFF7F)
#define MSHADOW_BF16_MAX ::mshadow::bfloat::bf16_t::Binary(0x7F7F)

#endif  // MSHADOW_HALF_H_
