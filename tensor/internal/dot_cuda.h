#ifndef TESSERA_TENSOR_INTERNAL_DOT_CUDA_H_
#define TESSERA_TENSOR_INTERNAL_DOT_CUDA_H_

#include "tessera/tensor/internal/gemm.h"
#include "tessera/tensor/stream.h"

namespace tessera::tensor_internal {

/// Enqueues the product on the stream through cuBLAS; defined by CUDA builds only.
void GemmCuda(const GemmArguments<float>& arguments, Stream<gpu>* stream);
void GemmCuda(const GemmArguments<double>& arguments, Stream<gpu>* stream);
void GemmCuda(const GemmArguments<half_t>& arguments, Stream<gpu>* stream);
void GemmCuda(const GemmArguments<bfloat16_t>& arguments, Stream<gpu>* stream);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_INTERNAL_DOT_CUDA_H_
