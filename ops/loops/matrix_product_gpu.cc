// The products of matrix_product.h on a GPU. The host's compilation of this file is empty.
#if defined(TESSERA_XPU_GPU)

#include "tessera/base/error.h"
#include "tessera/ops/loops/gemm_arguments.h"
#include "tessera/tensor/linalg/dot_cuda.h"

namespace tessera::ops_internal {
namespace {

void Multiply(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c, double alpha,
              DType dtype, bool add, Stream<gpu>* stream) {
  VisitRealDType(dtype, "a product of matrices", [&](auto tag) {
    const auto products = ProductsOf<typename decltype(tag)::type>(a, b, c, alpha, add);
    for (index_t i = 0; i < products.outer.count; ++i) {
      tensor_internal::GemmCuda(products.FirstOf(i), stream, products.batch);
    }
  });
}

[[maybe_unused]] const bool kRegistered = [] {
  GetMultiplyOnGpu() = &Multiply;
  return true;
}();

}  // namespace
}  // namespace tessera::ops_internal

#endif  // TESSERA_XPU_GPU
