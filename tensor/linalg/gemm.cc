#include "tessera/tensor/linalg/gemm.h"

#include <algorithm>
#include <memory>
#include <new>
#include <type_traits>

#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/device/scratch.h"
#include "tessera/tensor/linalg/packed_product.h"

namespace tessera::tensor_internal {

using Write = decltype(WrittenOperand<float>::write);

#define TESSERA_DECLARE_GEMM_KERNEL(isa)                                                      \
  namespace isa {                                                                             \
  int64_t GemmScratchFloat(bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t);          \
  int64_t GemmScratchDouble(bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t);         \
  int64_t GemmWrittenScratchFloat(bool, int64_t, int64_t, int64_t, int64_t, Write);           \
  void GemmWrittenFloat(bool, int64_t, int64_t, int64_t, float, const float*, int64_t, Write, \
                        const void*, int64_t, float, float*, int64_t, float*);                \
  void GemmFloat(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,         \
                 const float*, int64_t, float, float*, int64_t, float*);                      \
  void GemmDouble(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,      \
                  const double*, int64_t, double, double*, int64_t, double*);                 \
  int GemmLeftVectors(const PackedProduct<float>&);                                           \
  int GemmRightVectors(const PackedProduct<float>&);                                          \
  int GemmStreamVectors(int64_t);                                                             \
  void GemmPackLeft(const PackedProduct<float>&, float*);                                     \
  void GemmPackRight(const PackedProduct<float>&, float*);                                    \
  void GemmPackRight(const PackedProduct<double>&, double*);                                  \
  int64_t GemmBlockRow(const PackedProduct<float>&, int64_t, int64_t);                        \
  int64_t GemmBlockColumn(const PackedProduct<float>&, int64_t, int64_t);                     \
  int64_t GemmPackedScratch(const PackedProduct<float>&);                                     \
  void GemmPacked(const PackedProduct<float>&, float*);                                       \
  void GemmSlabs(const PackedProduct<float>&, bool);                                          \
  void GemmSlabs(const PackedProduct<double>&, bool);                                         \
  }
TESSERA_DECLARE_GEMM_KERNEL(gemm_baseline)
TESSERA_DECLARE_GEMM_KERNEL(gemm_avx2)
TESSERA_DECLARE_GEMM_KERNEL(gemm_avx512)
#undef TESSERA_DECLARE_GEMM_KERNEL

namespace {

// The number of multiply-adds below which a product stays on one thread. This is about 20 us of
// work for one core, twice the cost of waking another thread.
constexpr double kParallelMultiplyAdds = 2e6;
// The least number of rows and columns of a block of a parallel product, unless C has fewer. It is
// more than the few rows for which the kernel sums in another order.
constexpr index_t kMinBlock = 24;
static_assert(kMinBlock >= kColumnsInOrder);

// The elements of C that a thread finishes before what follows the product takes them: half of a
// second-level cache of 512 KiB. Each piece reads all of the other operand, which is cheap beside
// the product of at least this many columns or rows.
constexpr index_t kPieceElements = index_t{1} << 16;
constexpr index_t kMinPieceColumns = 256;
constexpr index_t kMinPieceRows = 256;
// Pieces begin at a multiple of this many columns, as whole packets do.
constexpr index_t kPieceUnit = 16;
static_assert(kMinPieceColumns - kPieceUnit >= kMinBlock);

template <typename T>
struct Kernel {
  int64_t (*scratch)(bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t);
  void (*run)(bool, bool, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*,
              int64_t, T*);
};

template <typename T>
const Kernel<T>& BestKernel() {
  static const Kernel<T> kernel = [] {
    const InstructionSet isa = UsedInstructionSet();
    if constexpr (std::is_same_v<T, float>) {
      switch (isa) {
        case InstructionSet::kAvx512:
          return Kernel<T>{gemm_avx512::GemmScratchFloat, gemm_avx512::GemmFloat};
        case InstructionSet::kAvx2:
          return Kernel<T>{gemm_avx2::GemmScratchFloat, gemm_avx2::GemmFloat};
        case InstructionSet::kBaseline:
          break;
      }
      return Kernel<T>{gemm_baseline::GemmScratchFloat, gemm_baseline::GemmFloat};
    } else {
      switch (isa) {
        case InstructionSet::kAvx512:
          return Kernel<T>{gemm_avx512::GemmScratchDouble, gemm_avx512::GemmDouble};
        case InstructionSet::kAvx2:
          return Kernel<T>{gemm_avx2::GemmScratchDouble, gemm_avx2::GemmDouble};
        case InstructionSet::kBaseline:
          break;
      }
      return Kernel<T>{gemm_baseline::GemmScratchDouble, gemm_baseline::GemmDouble};
    }
  }();
  return kernel;
}

struct WrittenKernel {
  decltype(&gemm_baseline::GemmWrittenScratchFloat) scratch;
  decltype(&gemm_baseline::GemmWrittenFloat) run;
};

const WrittenKernel& BestWrittenKernel() {
  static const WrittenKernel kernel = []() -> WrittenKernel {
    switch (UsedInstructionSet()) {
      case InstructionSet::kAvx512:
        return {gemm_avx512::GemmWrittenScratchFloat, gemm_avx512::GemmWrittenFloat};
      case InstructionSet::kAvx2:
        return {gemm_avx2::GemmWrittenScratchFloat, gemm_avx2::GemmWrittenFloat};
      case InstructionSet::kBaseline:
        break;
    }
    return {gemm_baseline::GemmWrittenScratchFloat, gemm_baseline::GemmWrittenFloat};
  }();
  return kernel;
}

// The functions for products with an operand that was packed before.
struct PackedKernel {
  int (*left_vectors)(const PackedProduct<float>&);
  int (*right_vectors)(const PackedProduct<float>&);
  int (*stream_vectors)(int64_t);
  void (*pack_left)(const PackedProduct<float>&, float*);
  void (*pack_right)(const PackedProduct<float>&, float*);
  void (*pack_right_double)(const PackedProduct<double>&, double*);
  int64_t (*block_row)(const PackedProduct<float>&, int64_t, int64_t);
  int64_t (*block_column)(const PackedProduct<float>&, int64_t, int64_t);
  int64_t (*scratch)(const PackedProduct<float>&);
  void (*run)(const PackedProduct<float>&, float*);
  void (*run_slabs)(const PackedProduct<float>&, bool);
  void (*run_slabs_double)(const PackedProduct<double>&, bool);
};

#define TESSERA_PACKED_KERNEL(isa)                                                          \
  PackedKernel {                                                                            \
    isa::GemmLeftVectors, isa::GemmRightVectors, isa::GemmStreamVectors, isa::GemmPackLeft, \
        isa::GemmPackRight, isa::GemmPackRight, isa::GemmBlockRow, isa::GemmBlockColumn,    \
        isa::GemmPackedScratch, isa::GemmPacked, isa::GemmSlabs, isa::GemmSlabs             \
  }

const PackedKernel& BestPackedKernel() {
  static const PackedKernel kernel = [] {
    switch (UsedInstructionSet()) {
      case InstructionSet::kAvx512:
        return TESSERA_PACKED_KERNEL(gemm_avx512);
      case InstructionSet::kAvx2:
        return TESSERA_PACKED_KERNEL(gemm_avx2);
      case InstructionSet::kBaseline:
        break;
    }
    return TESSERA_PACKED_KERNEL(gemm_baseline);
  }();
  return kernel;
}
#undef TESSERA_PACKED_KERNEL

// Returns the calling thread's memory for packed operands. It grows to the need of the thread's
// products (at most a few megabytes) and is released when the thread ends.
template <typename T>
T* PackingMemory(int64_t elements) {
  struct Free {
    void operator()(T* memory) const { ::operator delete(memory, std::align_val_t(64)); }
  };
  thread_local std::unique_ptr<T, Free> memory;
  thread_local int64_t capacity = 0;
  if (elements > capacity) {
    memory.reset();
    capacity = 0;
    memory.reset(static_cast<T*>(
        ::operator new(static_cast<size_t>(elements) * sizeof(T), std::align_val_t(64))));
    capacity = elements;
  }
  return memory.get();
}

// Runs a block of a product on the calling thread. The block's B begins at column x.
template <typename T>
void RunBlock(GemmArguments<T> g, index_t /*y*/, index_t x) {
  const Kernel<T>& kernel = BestKernel<T>();
  T* const scratch =
      PackingMemory<T>(kernel.scratch(g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.lda, g.ldb));
  g.b += x * (g.transpose_b ? g.ldb : 1);
  kernel.run(g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta,
             g.c, g.ldc, scratch);
}

void RunWrittenBlock(const GemmArguments<float>& g, const WrittenOperand<float>& b, index_t x) {
  const WrittenKernel& kernel = BestWrittenKernel();
  float* const scratch =
      PackingMemory<float>(kernel.scratch(g.transpose_a, g.m, g.n, g.k, g.lda, b.write));
  kernel.run(g.transpose_a, g.m, g.n, g.k, g.alpha, g.a, g.lda, b.write, b.context, x, g.beta, g.c,
             g.ldc, scratch);
}

template <typename T>
PackedProduct<T> PackedProductOf(const GemmArguments<T>& g, int vectors) {
  return {.transpose_a = g.transpose_a,
          .transpose_b = g.transpose_b,
          .m = g.m,
          .n = g.n,
          .k = g.k,
          .alpha = g.alpha,
          .a = g.a,
          .lda = g.lda,
          .b = g.b,
          .ldb = g.ldb,
          .beta = g.beta,
          .c = g.c,
          .ldc = g.ldc,
          .vectors = vectors};
}

void RunPackedBlock(const PackedProduct<float>& g) {
  const PackedKernel& kernel = BestPackedKernel();
  kernel.run(g, PackingMemory<float>(kernel.scratch(g)));
}

template <typename T>
void ScaleByBeta(const GemmArguments<T>& g) {
  for (index_t y = 0; y < g.m; ++y) {
    for (index_t x = 0; x < g.n; ++x) {
      T& element = g.c[y * g.ldc + x];
      element = g.beta == T(0) ? T(0) : static_cast<T>(element * g.beta);
    }
  }
}

// Returns the number of rows of blocks if C is cut into `count` blocks. It is the divisor of count
// whose blocks have the shortest sides, since a block packs its rows of A and its columns of B
// itself.
index_t BlockRows(index_t m, index_t n, index_t count) {
  index_t best = 1;
  double best_sides = 0;
  for (index_t rows = 1; rows <= count; ++rows) {
    if (count % rows != 0) continue;
    const double sides = static_cast<double>(m) / rows + static_cast<double>(n) / (count / rows);
    if (best_sides == 0 || sides < best_sides) {
      best = rows;
      best_sides = sides;
    }
  }
  return best;
}

// The numbers of rows and columns of blocks into which C is cut, one block for each thread.
struct BlockGrid {
  index_t rows = 1;
  index_t columns = 1;

  BlockGrid(index_t m, index_t n, index_t k) {
    const double multiply_adds = static_cast<double>(m) * n * k;
    const int width = multiply_adds < kParallelMultiplyAdds ? 1 : ParallelWidth();
    if (width <= 1) return;
    rows = std::clamp<index_t>(BlockRows(m, n, width), 1, std::max<index_t>(1, m / kMinBlock));
    columns = std::clamp<index_t>(width / rows, 1, std::max<index_t>(1, n / kMinBlock));
  }
};

// Cuts one side of C as evenly as it goes.
struct EvenCut {
  index_t extent;
  index_t operator()(index_t i, index_t count) const { return i * extent / count; }
};

// The side of C that is cut into pieces if something follows the product.
enum class PieceSide { kColumns, kRows };

// Runs a block of a product by run_block, piece by piece if `end` follows.
template <typename T, typename Run>
void RunPieces(const GemmArguments<T>& block, index_t y, index_t x, const Run& run_block,
               const ProductEnd& end, PieceSide side) {
  if (end.run == nullptr) {
    run_block(block, y, x);
    return;
  }
  const bool cuts_columns = side == PieceSide::kColumns;
  const index_t extent = cuts_columns ? block.n : block.m;
  const index_t across = std::max<index_t>(1, cuts_columns ? block.m : block.n);
  const index_t least = cuts_columns ? kMinPieceColumns : kMinPieceRows;
  const index_t most = std::max(least, kPieceElements / across);
  const index_t count = std::max<index_t>(1, std::min((extent + most - 1) / most, extent / least));
  const auto begin_of = [&](index_t i) {
    return i == count ? extent : i * extent / count / kPieceUnit * kPieceUnit;
  };
  for (index_t i = 0; i < count; ++i) {
    const index_t begin = begin_of(i), size = begin_of(i + 1) - begin;
    GemmArguments<T> piece = block;
    if (cuts_columns) {
      piece.n = size;
      piece.c += begin;
      run_block(piece, y, x + begin);
      end.run(end.context, y, block.m, x + begin, size);
    } else {
      piece.m = size;
      piece.a += begin * (block.transpose_a ? 1 : block.lda);
      piece.c += begin * block.ldc;
      run_block(piece, y + begin, x);
      end.run(end.context, y + begin, size, x, block.n);
    }
  }
}

// Runs a product in blocks, each by run_block(arguments, y, x), where y is the block's first row
// and x the first column of its B. Of `count` blocks, the rows of block i begin at row_of(i, count)
// and the columns at column_of(i, count). The kernel sums every element over all of k in the same
// order in any block, so the result has the same bits for any number of threads.
template <typename T, typename Run, typename RowOf, typename ColumnOf>
void RunParallel(const GemmArguments<T>& g, const Run& run_block, const RowOf& row_of,
                 const ColumnOf& column_of, const ProductEnd& end, PieceSide side) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0 || g.alpha == T(0)) {
    ScaleByBeta(g);
    if (end.run != nullptr) end.run(end.context, 0, g.m, 0, g.n);
    return;
  }
  const BlockGrid grid(g.m, g.n, g.k);
  const index_t rows = grid.rows;
  const index_t columns = grid.columns;
  if (rows * columns == 1) {
    RunPieces(g, index_t{0}, index_t{0}, run_block, end, side);
    return;
  }
  ParallelFor(rows * columns, 1, [&](index_t first, index_t last) {
    for (index_t i = first; i < last; ++i) {
      const index_t y = row_of(i / columns, rows);
      const index_t x = column_of(i % columns, columns);
      GemmArguments<T> part = g;
      part.m = row_of(i / columns + 1, rows) - y;
      part.n = column_of(i % columns + 1, columns) - x;
      if (part.m == 0 || part.n == 0) continue;
      part.a += y * (g.transpose_a ? 1 : g.lda);
      part.c += y * g.ldc + x;
      RunPieces(part, y, x, run_block, end, side);
    }
  });
}

template <typename T, typename Run>
void RunParallel(const GemmArguments<T>& g, const Run& run_block, const ProductEnd& end = {}) {
  RunParallel(g, run_block, EvenCut{g.m}, EvenCut{g.n}, end, PieceSide::kColumns);
}

// Runs a product with a packed left operand. `set_right` completes a block, whose B begins at
// column x, with B.
template <typename SetRight>
void RunPackedLeft(const GemmArguments<float>& g, const PackedOperand<float>& a,
                   const ProductEnd& end, const SetRight& set_right) {
  const PackedProduct<float> whole = PackedProductOf(g, a.vectors);
  const auto row_of = [&](index_t i, index_t count) {
    return BestPackedKernel().block_row(whole, i, count);
  };
  const auto run_block = [&](const GemmArguments<float>& part, index_t y, index_t x) {
    PackedProduct<float> block = PackedProductOf(part, a.vectors);
    block.a = nullptr;
    block.left = a.data;
    block.left_rows = g.m;
    block.first_row = y;
    set_right(x, &block);
    RunPackedBlock(block);
  };
  RunParallel(g, run_block, row_of, EvenCut{g.n}, end, PieceSide::kColumns);
}

// Runs a product, or a block of one, by a packed B on the calling thread.
template <typename T>
void RunSlabs(const GemmArguments<T>& g, const PackedOperand<T>& b, bool backwards) {
  PackedProduct<T> product = PackedProductOf(g, b.vectors);
  product.b = nullptr;
  product.right = b.data;
  if constexpr (std::is_same_v<T, float>) {
    BestPackedKernel().run_slabs(product, backwards);
  } else {
    BestPackedKernel().run_slabs_double(product, backwards);
  }
}

template <typename T>
void Stream(const GemmArguments<T>& g, const PackedOperand<T>& b, bool backwards) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0 || g.alpha == T(0)) {
    ScaleByBeta(g);
    return;
  }
  RunSlabs(g, b, backwards);
}

float* FloatsFrom(Scratch<cpu>* scratch, index_t count) {
  return static_cast<float*>(scratch->Allocate(count * static_cast<index_t>(sizeof(float))));
}

// Computes to[i] = from[i], in blocks of a constant size, which the compiler vectorizes.
template <typename From, typename To>
void Convert(const From* from, index_t count, To* to) {
  constexpr index_t kBlock = 32;
  index_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (index_t j = 0; j < kBlock; ++j) to[i + j] = base_internal::ConvertInLoop<To>(from[i + j]);
  }
  for (; i < count; ++i) to[i] = base_internal::ConvertInLoop<To>(from[i]);
}

// Returns a copy in float without padding between the rows.
template <typename T>
float* ToFloat(const T* data, index_t rows, index_t columns, index_t stride,
               Scratch<cpu>* scratch) {
  auto* const converted = FloatsFrom(scratch, rows * columns);
  for (index_t y = 0; y < rows; ++y) {
    Convert(data + y * stride, columns, converted + y * columns);
  }
  return converted;
}

// Runs a product of a 16-bit type in float, since these types have no GEMM kernel on the CPU. The
// operands are converted to float, and the sum is converted back once.
template <typename T>
requires kGemmInFloat<T>
void RunInFloat(const GemmArguments<T>& g) {
  const index_t a_rows = g.transpose_a ? g.k : g.m;
  const index_t a_columns = g.transpose_a ? g.m : g.k;
  const index_t b_rows = g.transpose_b ? g.n : g.k;
  const index_t b_columns = g.transpose_b ? g.k : g.n;
  const float beta = static_cast<float>(g.beta);
  Scratch<cpu> scratch;
  float* const c =
      beta == 0 ? FloatsFrom(&scratch, g.m * g.n) : ToFloat(g.c, g.m, g.n, g.ldc, &scratch);
  Gemm(GemmArguments<float>{.transpose_a = g.transpose_a,
                            .transpose_b = g.transpose_b,
                            .m = g.m,
                            .n = g.n,
                            .k = g.k,
                            .alpha = static_cast<float>(g.alpha),
                            .a = ToFloat(g.a, a_rows, a_columns, g.lda, &scratch),
                            .lda = a_columns,
                            .b = ToFloat(g.b, b_rows, b_columns, g.ldb, &scratch),
                            .ldb = b_columns,
                            .beta = beta,
                            .c = c,
                            .ldc = g.n});
  for (index_t y = 0; y < g.m; ++y) Convert(c + y * g.n, g.n, g.c + y * g.ldc);
}

}  // namespace

void Gemm(const GemmArguments<float>& arguments, const ProductEnd& end) {
  RunParallel(arguments, RunBlock<float>, end);
}
void Gemm(const GemmArguments<double>& arguments) { RunParallel(arguments, RunBlock<double>); }
void Gemm(const GemmArguments<half_t>& arguments) { RunInFloat(arguments); }
void Gemm(const GemmArguments<bfloat16_t>& arguments) { RunInFloat(arguments); }

void Gemm(const GemmArguments<float>& arguments, const WrittenOperand<float>& b,
          const ProductEnd& end) {
  RunParallel(
      arguments,
      [&b](const GemmArguments<float>& part, index_t, index_t x) { RunWrittenBlock(part, b, x); },
      end);
}

int LeftPacking(index_t m, index_t n, index_t k) {
  return n < kColumnsInOrder ? 0 : BestPackedKernel().left_vectors({.m = m, .n = n, .k = k});
}

void PackLeft(index_t m, index_t k, const float* a, index_t lda, int vectors, float* to) {
  BestPackedKernel().pack_left({.m = m, .k = k, .a = a, .lda = lda, .vectors = vectors}, to);
}

void GemmPackedLeft(const GemmArguments<float>& arguments, const PackedOperand<float>& a,
                    const ProductEnd& end) {
  RunPackedLeft(arguments, a, end, [](index_t x, PackedProduct<float>* block) { block->b += x; });
}

void GemmPackedLeft(const GemmArguments<float>& arguments, const PackedOperand<float>& a,
                    const WrittenOperand<float>& b, const ProductEnd& end) {
  RunPackedLeft(arguments, a, end, [&b](index_t x, PackedProduct<float>* block) {
    block->b = nullptr;
    block->write = b.write;
    block->context = b.context;
    block->first_column = x;
  });
}

int RightPacking(const GemmArguments<float>& arguments) {
  return BestPackedKernel().right_vectors(PackedProductOf(arguments, 0));
}

void PackRight(const GemmArguments<float>& arguments, int vectors, float* to) {
  BestPackedKernel().pack_right(PackedProductOf(arguments, vectors), to);
}
void PackRight(const GemmArguments<double>& arguments, int vectors, double* to) {
  BestPackedKernel().pack_right_double(PackedProductOf(arguments, vectors), to);
}

void GemmPackedRight(const GemmArguments<float>& arguments, const PackedOperand<float>& b,
                     const ProductEnd& end) {
  const PackedProduct<float> whole = PackedProductOf(arguments, b.vectors);
  const auto column_of = [&](index_t i, index_t count) {
    return BestPackedKernel().block_column(whole, i, count);
  };
  const auto run_block = [&](const GemmArguments<float>& part, index_t, index_t x) {
    const PackedOperand<float> columns = {b.data + x * arguments.k, b.vectors};
    RunSlabs(part, columns, /*backwards=*/false);
  };
  // Columns begin where slabs of B do.
  RunParallel(arguments, run_block, EvenCut{arguments.m}, column_of, end, PieceSide::kRows);
}

int StreamPacking(index_t rows) { return BestPackedKernel().stream_vectors(rows); }

void StreamPackedRight(const GemmArguments<float>& arguments, const PackedOperand<float>& b,
                       bool backwards) {
  Stream(arguments, b, backwards);
}
void StreamPackedRight(const GemmArguments<double>& arguments, const PackedOperand<double>& b,
                       bool backwards) {
  Stream(arguments, b, backwards);
}

int64_t GemmThreads(index_t m, index_t n, index_t k) {
  const BlockGrid grid(m, n, k);
  return ParallelWidth(grid.rows * grid.columns, 1);
}

index_t ProductsPerTask(index_t m, index_t n, index_t k, index_t count) {
  const double multiply_adds = static_cast<double>(m) * n * k;
  if (multiply_adds >= kParallelMultiplyAdds) return count;
  return static_cast<index_t>(kParallelMultiplyAdds / std::max(1.0, multiply_adds));
}

}  // namespace tessera::tensor_internal
