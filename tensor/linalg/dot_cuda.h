#ifndef TESSERA_TENSOR_LINALG_DOT_CUDA_H_
#define TESSERA_TENSOR_LINALG_DOT_CUDA_H_

#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera::tensor_internal {

/// Enqueues the product on the stream through cuBLAS. A batch enqueues all its products, of which
/// `first` is product 0. CUDA builds alone define it.
void GemmCuda(const GemmArguments<float>& first, Stream<gpu>* stream, const GemmBatch& batch = {});
void GemmCuda(const GemmArguments<double>& first, Stream<gpu>* stream, const GemmBatch& batch = {});
void GemmCuda(const GemmArguments<half_t>& first, Stream<gpu>* stream, const GemmBatch& batch = {});
void GemmCuda(const GemmArguments<bfloat16_t>& first, Stream<gpu>* stream,
              const GemmBatch& batch = {});

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_LINALG_DOT_CUDA_H_
