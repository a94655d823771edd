// The same bits from one, two and eight threads: what a seed promises would otherwise depend on the
// machine's load. A task of a cancelled task group gets them too.
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tbb/global_control.h"
#include "tbb/task_arena.h"
#include "tbb/task_group.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/fuse/fuse.h"
#include "tessera/tensor/linalg/batch_gemm.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/nn/patch.h"
#include "tessera/tensor/nn/softmax.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

// Runs `evaluate` with one, two and eight threads, and with three in a cancelled task group.
// Expects the same bytes of `memory` each time, which `clear` overwrites before.
void ExpectSameBytes(const std::function<std::vector<char>()>& memory,
                     const std::function<void()>& clear, size_t element_bytes,
                     const std::string& what, const std::function<void()>& evaluate) {
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 8);
  std::vector<char> first;
  for (const int width : {1, 2, 8, 3}) {
    const bool is_cancelled = width == 3;
    tbb::task_arena arena(width);
    clear();
    arena.execute([&] {
      tbb::task_group group;
      group.run_and_wait([&] {
        if (is_cancelled) group.cancel();
        evaluate();
      });
    });
    const std::vector<char> result = memory();
    if (first.empty()) first = result;
    ASSERT_EQ(result.size(), first.size());
    size_t differing = 0;
    for (size_t i = 0; i < result.size(); i += element_bytes) {
      differing += std::memcmp(&result[i], &first[i], element_bytes) != 0;
    }
    EXPECT_EQ(differing, 0u) << what << " with " << width << " threads"
                             << (is_cancelled ? " in a cancelled group" : "") << ": of "
                             << result.size() / element_bytes;
  }
}

// Expects the same bytes of the tensor.
template <int N, typename T>
void ExpectSameBits(GuardedTensor<N, T>* out, const std::string& what,
                    const std::function<void()>& evaluate) {
  const auto memory = [out] {
    const std::vector<T> values = out->values();
    std::vector<char> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  };
  const auto clear = [out] { out->Set(std::vector<T>(out->values().size(), T(77))); };
  ExpectSameBytes(memory, clear, sizeof(T), what, evaluate);
}

template <typename T>
class DeterminismTest : public testing::Test {};
using ReducedTypes = testing::Types<float, half_t>;
TYPED_TEST_SUITE(DeterminismTest, ReducedTypes);

// Products of double divide their work by register tiles of another size.
template <typename T>
class ProductDeterminismTest : public testing::Test {};
using RealTypes = testing::Types<float, double, half_t>;
TYPED_TEST_SUITE(ProductDeterminismTest, RealTypes);

TYPED_TEST(DeterminismTest, Reductions) {
  using T = TypeParam;
  const Shape<2> shape = Shape2(517, 1031);
  for (const index_t padding : {0, 1}) {
    GuardedTensor<2, T> a(shape, RandomValues<T>(shape.Size(), -1, 1),
                          GuardedLayout{.row_padding = padding});
    GuardedTensor<1, T> rows(Shape1(shape[0])), columns(Shape1(shape[1])), all(Shape1(1));
    ExpectSameBits(&rows, "row sums", [&] { *rows = sumall_except_dim<0>(*a * *a); });
    ExpectSameBits(&columns, "column sums", [&] { *columns = sum_rows(*a * *a); });
    ExpectSameBits(&all, "sum", [&] { (*all)[0] = ReduceAll<red::sum>(*a * *a); });
  }
}

// Whose results are few, each of one long row or of many short ones, padded or not.
TYPED_TEST(DeterminismTest, ReductionsToFewResults) {
  using T = TypeParam;
  for (const Shape<3>& shape : {Shape3(1, 1, 300007), Shape3(1, 3, 70001), Shape3(7001, 2, 19)}) {
    for (const index_t padding : {0, 1}) {
      GuardedTensor<3, T> a(shape, RandomValues<T>(shape.Size(), 0, 1),
                            GuardedLayout{.row_padding = padding});
      GuardedTensor<1, T> kept(Shape1(shape[1]));
      ExpectSameBits(&kept, "sums", [&] { *kept = sumall_except_dim<1>(*a); });
      for (index_t i = 0; i < shape[1]; ++i) {
        double expected = 0;
        for (index_t z = 0; z < shape[0]; ++z) {
          for (index_t x = 0; x < shape[2]; ++x) expected += static_cast<double>((*a)[z][i][x]);
        }
        if (expected > 6e4 && std::is_same_v<T, half_t>) continue;  // beyond half
        EXPECT_NEAR(static_cast<double>((*kept)[i]), expected,
                    expected * (std::is_same_v<T, half_t> ? 1e-3 : 1e-6));
      }
    }
  }
}

// Of few long rows and of many short ones, whose axes are cut into pieces, too.
TEST(FloatDeterminismTest, ReductionsInsideExpressionsAndInFuse) {
  using T = float;
  for (const Shape<2>& shape : {Shape2(517, 1031), Shape2(3, 70001), Shape2(70001, 3)}) {
    const std::string of = " of " + std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
    for (const index_t padding : {0, 1}) {
      GuardedTensor<2, T> a(shape, RandomValues<T>(shape.Size(), -1, 1),
                            GuardedLayout{.row_padding = padding});
      GuardedTensor<1, T> rows(Shape1(shape[0])), columns(Shape1(shape[1])), all(Shape1(2));
      ExpectSameBits(&rows, "norms of rows" + of, [&] { *rows = norm<1>(*a - mean(*a)); });
      ExpectSameBits(&columns, "sums of columns" + of, [&] { *columns = sum<0>(exp(*a)); });
      ExpectSameBits(&all, "sum of a reduction" + of, [&] {
        (*all)[0] = sum((*a - mean(*a)) * *a);
        (*all)[1] = norm(*a);
      });
      ExpectSameBits(&all, "sums in Fuse" + of, [&] {
        *all = T(0);
        Fuse(Lazy((*all)[0]) += sum(*a * *a), Lazy((*all)[1]) = mean(exp(*a)),
             Lazy(*columns) = sum<0>(*a));
      });
    }
  }
}

// Tasks are as many as their cost says.
TEST(FloatDeterminismTest, DearElements) {
  using T = float;
  const Shape<2> shape = Shape2(20, 1531);
  for (const index_t padding : {0, 1}) {
    GuardedTensor<2, T> a(shape, RandomValues<T>(shape.Size(), 0, 1),
                          GuardedLayout{.row_padding = padding});
    GuardedTensor<2, T> out(shape);
    GuardedTensor<1, T> rows(Shape1(shape[0])), columns(Shape1(shape[1]));
    const auto dear = pow(erf(*a), *a) + tanh(*a);
    ExpectSameBits(&out, "elements", [&] { *out = dear; });
    ExpectSameBits(&rows, "sums of rows", [&] { *rows = sum<1>(dear); });
    ExpectSameBits(&columns, "sums of columns", [&] { *columns = sum<0>(dear); });
    ExpectSameBits(&rows, "sum", [&] { *rows = sum(dear); });
    ExpectSameBits(&rows, "row sums", [&] { *rows = sumall_except_dim<0>(dear); });
    ExpectSameBits(&out, "elements in Fuse",
                   [&] { Fuse(Lazy(*out) = dear, Lazy(*columns) = sum<0>(*out)); });
  }
}

TYPED_TEST(ProductDeterminismTest, Products) {
  using T = TypeParam;
  struct Extents {
    index_t m, n, k;
  };
  // Rows and columns whose shares do not fill register tiles, remainders of one row included.
  for (const Extents& e : {Extents{129, 130, 257}, Extents{97, 333, 100}, Extents{1000, 49, 48},
                           Extents{4000, 1, 700}, Extents{1, 4000, 700}, Extents{25, 24, 5000}}) {
    const std::string what =
        std::to_string(e.m) + "x" + std::to_string(e.n) + "x" + std::to_string(e.k);
    GuardedTensor<2, T> a(Shape2(e.m, e.k), RandomValues<T>(e.m * e.k, -1, 1, 1));
    GuardedTensor<2, T> b(Shape2(e.k, e.n), RandomValues<T>(e.k * e.n, -1, 1, 2));
    GuardedTensor<2, T> at(Shape2(e.k, e.m)), bt(Shape2(e.n, e.k));
    *at = a->T();
    *bt = b->T();
    GuardedTensor<2, T> c(Shape2(e.m, e.n));
    ExpectSameBits(&c, "A B " + what, [&] { *c = dot(*a, *b); });
    ExpectSameBits(&c, "A' B " + what, [&] { *c = dot(at->T(), *b); });
    ExpectSameBits(&c, "A B' " + what, [&] { *c = dot(*a, bt->T()); });
    ExpectSameBits(&c, "A' B' " + what, [&] { *c = dot(at->T(), bt->T()); });
  }
}

TYPED_TEST(ProductDeterminismTest, BatchesOfProducts) {
  using T = TypeParam;
  for (const index_t extent : {17, 64, 130}) {
    const Shape<3> shape = Shape3(20, extent, extent);
    GuardedTensor<3, T> a(shape, RandomValues<T>(shape.Size(), -1, 1, 1));
    GuardedTensor<3, T> b(shape, RandomValues<T>(shape.Size(), -1, 1, 2));
    GuardedTensor<3, T> c(shape);
    ExpectSameBits(&c, "batch of " + std::to_string(extent), [&] {
      *c = T(1);
      *c += T(0.5f) * batch_dot<false, true>(*a, *b);
    });
  }
}

TEST(FloatDeterminismTest, SoftmaxAndPatches) {
  using T = float;
  const Shape<2> shape = Shape2(3000, 37);
  GuardedTensor<2, T> a(shape, RandomValues<T>(shape.Size(), -4, 4)), out(shape);
  ExpectSameBits(&out, "softmax", [&] { Softmax(*out, *a); });
  const PatchGeometry g{.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1};
  GuardedTensor<2, T> column(Shape2(9 * 8, 60 * 60), RandomValues<T>(72 * 3600, -1, 1));
  GuardedTensor<3, T> image(Shape3(8, 60, 60));
  ExpectSameBits(&image, "pack_col2patch",
                 [&] { *image = pack_col2patch(*column, image->shape_, g); });
}

}  // namespace
}  // namespace tessera
