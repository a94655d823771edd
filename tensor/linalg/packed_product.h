#ifndef TESSERA_TENSOR_LINALG_PACKED_PRODUCT_H_
#define TESSERA_TENSOR_LINALG_PACKED_PRODUCT_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// A product with an operand that was packed before, or a block of one, as the kernels take it. It
/// is plain data, because the kernels of several instruction sets share no code.
template <typename T>
struct PackedProduct {
  // As in GemmArguments. a is null if A is packed, and b if B is packed or written.
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  T alpha = 1;
  const T* a = nullptr;
  int64_t lda = 0;
  const T* b = nullptr;
  int64_t ldb = 0;
  T beta = 0;
  T* c = nullptr;
  int64_t ldc = 0;

  int vectors = 0;  ///< see PackedOperand

  const T* left = nullptr;  ///< a packed A of `left_rows` rows, of which the block has m
  int64_t left_rows = 0;
  int64_t first_row = 0;  ///< the block's first row of A, at which a tile begins

  /// A packed B, from the block's first column on, at which a slab of it begins.
  const T* right = nullptr;

  /// WrittenOperand::write of a B that is not stored, with its context; null for another one.
  void (*write)(const void* context, int64_t row, int64_t rows, int64_t column, int64_t columns,
                T* to, int64_t stride) = nullptr;
  const void* context = nullptr;
  int64_t first_column = 0;  ///< the block's first column of a written B
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_LINALG_PACKED_PRODUCT_H_
