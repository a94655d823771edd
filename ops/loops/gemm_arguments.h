#ifndef TESSERA_OPS_LOOPS_GEMM_ARGUMENTS_H_
#define TESSERA_OPS_LOOPS_GEMM_ARGUMENTS_H_

#include <utility>

#include "tessera/ops/loops/matrix_product.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera::ops_internal {

/// The products of two batches in the form that the GEMM takes: a batch of batches. `outer` tells
/// how many batches there are and how far apart they lie, and `batch` tells it of the products in
/// one.
template <typename T>
struct GemmProducts {
  tensor_internal::GemmArguments<T> first;
  tensor_internal::GemmBatch batch;
  tensor_internal::GemmBatch outer;

  /// Returns the first product of outer batch i.
  tensor_internal::GemmArguments<T> FirstOf(index_t i) const {
    return tensor_internal::ProductOf(first, outer, i);
  }
};

/// Returns the products c = alpha * a * b, or c += alpha * a * b, for a c that is not transposed.
template <typename T>
GemmProducts<T> ProductsOf(const MatrixBatch& a, const MatrixBatch& b, const MatrixBatch& c,
                           double alpha, bool add) {
  const auto row_stride = [](const MatrixBatch& x) {
    return x.row_stride != 0 ? x.row_stride : x.inner * x.columns;
  };
  const auto inner_stride = [](const MatrixBatch& x) {
    return x.inner_stride != 0 ? x.inner_stride : x.columns;
  };
  GemmProducts<T> products{.first = {.transpose_a = a.transposed,
                                     .transpose_b = b.transposed,
                                     .m = c.rows,
                                     .n = c.columns,
                                     .k = a.transposed ? a.rows : a.columns,
                                     .alpha = static_cast<T>(alpha),
                                     .a = static_cast<const T*>(a.data),
                                     .lda = row_stride(a),
                                     .b = static_cast<const T*>(b.data),
                                     .ldb = row_stride(b),
                                     .beta = T(add ? 1 : 0),
                                     .c = static_cast<T*>(c.data),
                                     .ldc = row_stride(c)},
                           .batch = {.count = c.inner,
                                     .stride_a = inner_stride(a),
                                     .stride_b = inner_stride(b),
                                     .stride_c = inner_stride(c)},
                           .outer = {.count = c.outer,
                                     .stride_a = a.rows * row_stride(a),
                                     .stride_b = b.rows * row_stride(b),
                                     .stride_c = c.rows * row_stride(c)}};
  // A row as a column, which the kernel would read with a stride.
  if (a.transposed && products.first.lda == 1) {
    products.first.transpose_a = false;
    products.first.lda = a.rows;
  }
  // Without an inner batch, the outer one is a single batch.
  if (products.batch.count == 1) std::swap(products.batch, products.outer);
  return products;
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_GEMM_ARGUMENTS_H_
