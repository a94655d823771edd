#ifndef TESSERA_TENSOR_LINALG_GEMM_H_
#define TESSERA_TENSOR_LINALG_GEMM_H_

#include <concepts>
#include <cstdint>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera::tensor_internal {

/// One product of row-major matrices: C = alpha * op(A) * op(B) + beta * C, where op(A) is m x k
/// and op(B) is k x n. lda, ldb and ldc are the numbers of elements from one stored row to the
/// next. C is written without being read if beta == 0, and A and B are not read if alpha == 0, so
/// that they may hold NaN. C overlaps neither A nor B.
template <typename T>
struct GemmArguments {
  bool transpose_a;
  bool transpose_b;
  index_t m;
  index_t n;
  index_t k;
  T alpha;
  const T* a;
  index_t lda;
  const T* b;
  index_t ldb;
  T beta;
  T* c;
  index_t ldc;
};

/// A batch: the number of products of one shape, and the elements between the matrices of one
/// product and those of the next.
struct GemmBatch {
  index_t count = 1;
  index_t stride_a = 0;
  index_t stride_b = 0;
  index_t stride_c = 0;
};

/// Returns product i of a batch, given product 0.
template <typename T>
GemmArguments<T> ProductOf(GemmArguments<T> first, const GemmBatch& batch, index_t i) {
  first.a += i * batch.stride_a;
  first.b += i * batch.stride_b;
  first.c += i * batch.stride_c;
  return first;
}

/// What follows a product: `run` takes rows [row, row + rows) of columns [column, column + columns)
/// of C that are finished, a few hundred KiB at a time, on the thread that has computed them.
/// Several threads call it, each for elements of their own; together the calls take all of C. It
/// must not run a parallel loop, as WrittenOperand explains.
struct ProductEnd {
  void (*run)(const void* context, int64_t row, int64_t rows, int64_t column,
              int64_t columns) = nullptr;  ///< null for nothing
  const void* context = nullptr;
};

/// Runs the product on the CPU with the kernel of the best instruction set that this machine has,
/// in parallel if it is large enough. half and bfloat16 accumulate in float. C has the same bits
/// whether anything follows or not.
void Gemm(const GemmArguments<float>& arguments, const ProductEnd& end = {});
void Gemm(const GemmArguments<double>& arguments);
void Gemm(const GemmArguments<half_t>& arguments);
void Gemm(const GemmArguments<bfloat16_t>& arguments);

/// A right operand B that is not stored. `write` writes rows [row, row + rows) of columns [column,
/// column + columns), the first row to `to` and each further one `stride` elements after the one
/// before it. Several threads call it, some for the same rows. It must not run a parallel loop: its
/// thread could begin another product in the memory of this one.
template <typename T>
struct WrittenOperand {
  void (*write)(const void* context, int64_t row, int64_t rows, int64_t column, int64_t columns,
                T* to, int64_t stride);
  const void* context;
};

/// A product whose right operand has at least this many columns sums each element in the order of
/// k, if that operand is not transposed. Others may sum in another order.
inline constexpr index_t kColumnsInOrder = 13;

/// Runs the product with B as `b` writes it, which spares the memory for B: a thread packs at most
/// 1 MiB of it at a time. Sums are in the order of k, and with kColumnsInOrder columns or more have
/// the bits of the product with a stored B. Requires: no transpose_b. arguments.b and ldb are not
/// used.
void Gemm(const GemmArguments<float>& arguments, const WrittenOperand<float>& b,
          const ProductEnd& end = {});

/// An operand that was packed once for many products: as the kernels read it, in tiles of `vectors`
/// packets.
template <typename T>
struct PackedOperand {
  const T* data = nullptr;
  /// The packets in a row of the tiles: what LeftPacking, RightPacking or StreamPacking said.
  int vectors = 0;
};

/// Returns how a left operand that is not transposed is packed for products of these extents, which
/// have the bits of products with the stored operand. 0 means that packing it does not pay, or that
/// the bits would differ.
int LeftPacking(index_t m, index_t n, index_t k);
/// Writes the packed form of A to `to`: m * k elements.
void PackLeft(index_t m, index_t k, const float* a, index_t lda, int vectors, float* to);
/// Run the product with a packed A, and with a stored B that is not transposed or with B as `b`
/// writes it. arguments.a and lda are not used. The extents m and k are those of PackLeft, and n is
/// at least kColumnsInOrder.
void GemmPackedLeft(const GemmArguments<float>& arguments, const PackedOperand<float>& a,
                    const ProductEnd& end = {});
void GemmPackedLeft(const GemmArguments<float>& arguments, const PackedOperand<float>& a,
                    const WrittenOperand<float>& b, const ProductEnd& end = {});

/// Returns how B is packed for products with these extents and distances of rows, which have the
/// bits of products with the stored B. 0 means that such a product does not pack B, so that nothing
/// is won.
int RightPacking(const GemmArguments<float>& arguments);
/// Returns the number of elements that PackRight writes at most for a B of k x n.
constexpr index_t PackedRightSize(index_t n, index_t k) { return (n + 15) / 16 * 16 * k; }
/// Writes the packed form of arguments.b to `to`, on the calling thread. Only n, k, transpose_b, b
/// and ldb are used.
void PackRight(const GemmArguments<float>& arguments, int vectors, float* to);
void PackRight(const GemmArguments<double>& arguments, int vectors, double* to);
/// Runs the product with a packed B. arguments.b and ldb are not used. RightPacking says for these
/// arguments how B was packed.
void GemmPackedRight(const GemmArguments<float>& arguments, const PackedOperand<float>& b,
                     const ProductEnd& end = {});

/// Returns how B is packed for StreamPackedRight and left operands of about `rows` rows.
int StreamPacking(index_t rows);
/// Runs the product with a packed B on the calling thread, which reads B from one end to the other,
/// once for at most 256 rows. A B larger than the cache is best read in turns from either end
/// (`backwards` is from the last one): a product then begins with what the one before it has read
/// last. An element is one sum in the order of k, and has the same bits for any number of rows and
/// columns beside it. arguments.transpose_b, b and ldb are not used.
void StreamPackedRight(const GemmArguments<float>& arguments, const PackedOperand<float>& b,
                       bool backwards = false);
void StreamPackedRight(const GemmArguments<double>& arguments, const PackedOperand<double>& b,
                       bool backwards = false);

/// Returns the number of threads that a product of these extents can use if it is called from here.
int64_t GemmThreads(index_t m, index_t n, index_t k);

/// Returns the number of products of a batch that one task takes. A task takes several products
/// that are too small to be worth a thread each. Products that use several threads themselves run
/// one after the other: the number is then `count`, so that the calling thread takes them all.
index_t ProductsPerTask(index_t m, index_t n, index_t k, index_t count);

/// True if products of T are computed on copies in float. Both operands are copied and, unless beta
/// is 0, the old C, whose copy then takes the product.
template <typename T>
inline constexpr bool kGemmInFloat = std::same_as<T, half_t> || std::same_as<T, bfloat16_t>;

/// Computes a product of integers by a plain loop that adds up in 64 bits, since such products are
/// rare.
template <std::integral T>
void Gemm(const GemmArguments<T>& g) {
  const auto sum_at = [&g](index_t i, index_t j) {
    uint64_t sum = 0;  // wraps, as the result's type does
    for (index_t p = 0; p < g.k; ++p) {
      const T a = g.transpose_a ? g.a[p * g.lda + i] : g.a[i * g.lda + p];
      const T b = g.transpose_b ? g.b[j * g.ldb + p] : g.b[p * g.ldb + j];
      sum += static_cast<uint64_t>(a) * static_cast<uint64_t>(b);
    }
    return sum;
  };
  for (index_t i = 0; i < g.m; ++i) {
    for (index_t j = 0; j < g.n; ++j) {
      T& c = g.c[i * g.ldc + j];
      const uint64_t product = static_cast<uint64_t>(g.alpha) * sum_at(i, j);
      const uint64_t old = g.beta == T(0) ? 0 : static_cast<uint64_t>(g.beta * c);
      c = static_cast<T>(product + old);
    }
  }
}

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_LINALG_GEMM_H_
