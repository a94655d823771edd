#include "tessera/tensor/internal/gemm.h"

#include <algorithm>
#include <vector>

#include "tessera/tensor/parallel.h"

namespace tessera::tensor_internal {

#define TESSERA_DECLARE_GEMM_KERNEL(isa)                                                 \
  namespace isa {                                                                        \
  void GemmFloat(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,    \
                 const float*, int64_t, float, float*, int64_t);                         \
  void GemmDouble(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t, \
                  const double*, int64_t, double, double*, int64_t);                     \
  }
TESSERA_DECLARE_GEMM_KERNEL(gemm_baseline)
TESSERA_DECLARE_GEMM_KERNEL(gemm_avx2)
#undef TESSERA_DECLARE_GEMM_KERNEL

namespace {

// Multiply-adds below which a product stays on one thread: about 20 us of work for one core, twice
// what waking another costs.
constexpr double kParallelMultiplyAdds = 2e6;

bool HasAvx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
#else
  return false;
#endif
}

void RunBlock(const GemmArguments<float>& g) {
  const auto kernel = HasAvx2() ? gemm_avx2::GemmFloat : gemm_baseline::GemmFloat;
  kernel(g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, g.c,
         g.ldc);
}

void RunBlock(const GemmArguments<double>& g) {
  const auto kernel = HasAvx2() ? gemm_avx2::GemmDouble : gemm_baseline::GemmDouble;
  kernel(g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, g.c,
         g.ldc);
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

// Splits C along its longer side, one block for each thread. Every element is still the sum over
// all of k in one kernel call, and the way a kernel adds it up depends on where the element stands:
// in a whole register tile or in the remainder of rows after the last one. Blocks of whole tiles,
// with the remainder left to the last block, keep every element where it stood, so that the result
// has the same bits for any number of threads.
template <typename T>
void RunParallel(const GemmArguments<T>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    ScaleByBeta(g);
    return;
  }
  const double multiply_adds = static_cast<double>(g.m) * g.n * g.k;
  const int width = multiply_adds < kParallelMultiplyAdds ? 1 : ParallelWidth();
  const bool by_rows = g.m >= g.n;
  const index_t extent = by_rows ? g.m : g.n;
  // A multiple of every kernel's tile: 24, 12, 8 and 4 elements along one side, 4 along the other.
  constexpr index_t kTiles = 24;
  const index_t tiles_per_block = (extent + width * kTiles - 1) / (width * kTiles);
  const index_t block = tiles_per_block * kTiles;
  // A last block of less than a tile would cost more than it saves, and of one row be another
  // kernel's.
  const index_t rest = extent % block;
  const index_t blocks = std::max<index_t>(1, extent / block + (rest >= kTiles ? 1 : 0));
  if (width <= 1 || blocks == 1) {
    RunBlock(g);
    return;
  }
  ParallelFor(blocks, 1, [&](index_t first, index_t last) {
    for (index_t i = first; i < last; ++i) {
      GemmArguments<T> part = g;
      const index_t begin = i * block;
      const index_t size = i + 1 == blocks ? extent - begin : block;
      if (by_rows) {
        part.m = size;
        part.a += begin * (g.transpose_a ? 1 : g.lda);
        part.c += begin * g.ldc;
      } else {
        part.n = size;
        part.b += begin * (g.transpose_b ? g.ldb : 1);
        part.c += begin;
      }
      RunBlock(part);
    }
  });
}

template <typename T>
std::vector<float> ToFloat(const T* data, index_t rows, index_t columns, index_t stride) {
  std::vector<float> converted(static_cast<size_t>(rows * columns));
  for (index_t y = 0; y < rows; ++y) {
    for (index_t x = 0; x < columns; ++x) {
      converted[static_cast<size_t>(y * columns + x)] = static_cast<float>(data[y * stride + x]);
    }
  }
  return converted;
}

// The 16-bit types have no GEMM kernel on the CPU: their operands are converted to float, and so is
// the sum back, once.
template <typename T>
void RunInFloat(const GemmArguments<T>& g) {
  const index_t a_rows = g.transpose_a ? g.k : g.m;
  const index_t a_columns = g.transpose_a ? g.m : g.k;
  const index_t b_rows = g.transpose_b ? g.n : g.k;
  const index_t b_columns = g.transpose_b ? g.k : g.n;
  const std::vector<float> a = ToFloat(g.a, a_rows, a_columns, g.lda);
  const std::vector<float> b = ToFloat(g.b, b_rows, b_columns, g.ldb);
  const float beta = static_cast<float>(g.beta);
  std::vector<float> c = beta == 0 ? std::vector<float>(static_cast<size_t>(g.m * g.n))
                                   : ToFloat(g.c, g.m, g.n, g.ldc);
  Gemm(GemmArguments<float>{.transpose_a = g.transpose_a,
                            .transpose_b = g.transpose_b,
                            .m = g.m,
                            .n = g.n,
                            .k = g.k,
                            .alpha = static_cast<float>(g.alpha),
                            .a = a.data(),
                            .lda = a_columns,
                            .b = b.data(),
                            .ldb = b_columns,
                            .beta = beta,
                            .c = c.data(),
                            .ldc = g.n});
  for (index_t y = 0; y < g.m; ++y) {
    for (index_t x = 0; x < g.n; ++x) {
      g.c[y * g.ldc + x] = static_cast<T>(c[static_cast<size_t>(y * g.n + x)]);
    }
  }
}

}  // namespace

void Gemm(const GemmArguments<float>& arguments) { RunParallel(arguments); }
void Gemm(const GemmArguments<double>& arguments) { RunParallel(arguments); }
void Gemm(const GemmArguments<half_t>& arguments) { RunInFloat(arguments); }
void Gemm(const GemmArguments<bfloat16_t>& arguments) { RunInFloat(arguments); }

std::string_view GemmInstructionSet() { return HasAvx2() ? "avx2" : "baseline"; }

}  // namespace tessera::tensor_internal
