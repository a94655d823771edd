#ifndef TESSERA_OPS_LOOPS_SPARSE_SPARSE_PRODUCT_H_
#define TESSERA_OPS_LOOPS_SPARSE_SPARSE_PRODUCT_H_

#include "tessera/ops/operator.h"
#include "tessera/ops/sparse.h"
#include "tessera/tensor/tblob.h"

/// Products of a csr matrix and another array, on the CPU. An array counts as the matrix of its
/// first axis and all others.
///
/// Types: the floating-point types, the same for all operands; 16-bit types accumulate in float32.
/// Each element sums its products in one order, whatever the number of threads is. Cost: a pass
/// over what the csr matrix stores for each 64 columns of the dense one.
namespace tessera::ops_internal {

/// Computes the dense c = a * b or adds it (kAddTo): c[i] = sum_k a[i, k] * b[k]. Shapes: a (m, k),
/// b (k, n), dense or row_sparse, c (m, n). Does nothing for kNullOp.
void MultiplyCsr(const SparseBlob& a, const SparseBlob& b, OpReqType req, const TBlob& c);

/// Computes c = a^T * b, c[j] = sum_i a[i, j] * b[i]. Shapes: a (m, n), b (m, k), dense or
/// row_sparse, c (n, k). A row_sparse c stores the columns of `a` that store something in a row
/// that b stores. A dense c is added to if `req` is kAddTo. Does nothing for kNullOp.
void MultiplyTransposedCsr(const SparseBlob& a, const SparseBlob& b, OpReqType req, SparseBlob* c);

/// Computes the csr matrix c = a * b, c[i, j] = sum_k a[i, k] * b[k, j]. Shapes: a (m, k), b
/// (k, n), csr, c (m, n). Each row of c stores the columns in which b stores something.
void MultiplyByCsr(const TBlob& a, const SparseBlob& b, SparseBlob* c);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_SPARSE_SPARSE_PRODUCT_H_
