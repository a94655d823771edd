// A tensor that has elements but no memory is an error that says which one it is, before anything
// is written; an empty tensor needs no memory.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/copy.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/fuse/fuse.h"
#include "tessera/tensor/linalg/batch_gemm.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using Matrix = Tensor<cpu, 2, float>;

class MissingMemoryTest : public testing::Test {
 protected:
  template <typename Call>
  void ExpectMissing(const Call& call, const std::string& which) {
    ExpectError(call, Error::kInvalidArgument, {which + ", of shape (", "no memory", "null"});
    for (index_t y = 0; y < 3; ++y) {
      for (index_t x = 0; x < 3; ++x) EXPECT_EQ(r[y][x], 7.0f);
    }
  }

  TensorContainer<cpu, 2, float> r{Shape2(3, 3), 7.0f};
  TensorContainer<cpu, 2, float> a{Shape2(3, 3), 1.0f};
  TensorContainer<cpu, 1, float> v{Shape1(3), 1.0f};
  Matrix null{Shape2(3, 3)};
  Tensor<cpu, 1, float> null_vector{Shape1(3)};
};

TEST_F(MissingMemoryTest, OperandsOfLoopsAreNumberedFromTheLeft) {
  Matrix dst = r;
  ExpectMissing([&] { dst = null + 1.0f; }, "tensor 1 of the expression");
  ExpectMissing([&] { dst = a * 2.0f + null; }, "tensor 2 of the expression");
  ExpectMissing([&] { dst += F<op::clamp>(a, a, null); }, "tensor 3 of the expression");
  ExpectMissing([&] { dst = a + null.T(); }, "tensor 2 of the expression");
  ExpectMissing([&] { dst = a + View(null, kAll, kAll); }, "tensor 2 of the expression");
  ExpectMissing([&] { NoAlias(dst) = a * 2.0f + null; }, "tensor 2 of the expression");
  ExpectMissing([&] { r = null * 2.0f; }, "tensor 1 of the expression");
  ExpectMissing([&] { Copy(dst, null); }, "tensor 1 of the expression");
  // Also behind one that shares memory with the destination.
  ExpectMissing([&] { dst = dst.T() + null; }, "tensor 2 of the expression");
  ExpectMissing([&] { dst = F<op::clamp>(dst.T(), null, 1.0f); }, "tensor 2 of the expression");
}

TEST_F(MissingMemoryTest, DestinationsAreNamed) {
  ExpectMissing([&] { null = a + 1.0f; }, "the destination");
  ExpectMissing([&] { null = 0.0f; }, "the destination");
  ExpectMissing([&] { null += a; }, "the destination");
  ExpectMissing([&] { null = dot(a, a); }, "the destination");
  ExpectMissing([&] { null_vector = sumall_except_dim<0>(a); }, "the destination");
  ExpectMissing([&] { View(null, kAll, 0) = v; }, "the destination");
  ExpectMissing([&] { NoAlias(null) = a; }, "the destination");
  ExpectMissing([&] { slice<0>(null, 0, 2) = 1.0f; }, "the destination");
  ExpectMissing([&] { Copy(null, a); }, "the destination");
}

TEST_F(MissingMemoryTest, MaterializedOrWholeOperands) {
  Matrix dst = r;
  ExpectMissing([&] { dst = a * sum(a + null); }, "tensor 2 of the expression");
  ExpectMissing([&] { static_cast<void>(float{sum(null)}); }, "tensor 1 of the expression");
  ExpectMissing([&] { dst = dot(a, null); }, "tensor 2 of the expression");
  ExpectMissing([&] { dst = dot(null.T(), a) + a; }, "tensor 1 of the expression");
  ExpectMissing([&] { v = sumall_except_dim<0>(null); }, "tensor 1 of the expression");
  const Tensor<cpu, 3, float> batch(r.dptr_, Shape3(1, 3, 3)), nulls(Shape3(1, 3, 3));
  const Tensor<cpu, 3, float> operand(a.dptr_, Shape3(1, 3, 3));
  ExpectMissing([&] { BatchGEMM<false, false>(batch, operand, nulls, 1.0f, 0.0f); },
                "tensor 2 of the expression");
  ExpectMissing([&] { Fuse(Lazy(dst) = a + 1.0f, Lazy(dst) += null); },
                "tensor 1 of the expression");
  ExpectMissing([&] { Fuse(Lazy(null) = a + 1.0f, Lazy(dst) = a); }, "the destination");
}

TEST_F(MissingMemoryTest, EmptyTensorsNeedNone) {
  Matrix empty(Shape2(0, 3)), also_empty(Shape2(0, 3));
  empty = also_empty + 1.0f;
  empty = 1.0f;
  NoAlias(empty) = also_empty * 2.0f;
  EXPECT_EQ(float{sum(empty)}, 0.0f);
  Matrix dst = r;
  dst = dot(Matrix(Shape2(3, 0)), empty);
  EXPECT_EQ(dst[2][2], 0.0f);
  TensorContainer<cpu, 2, float> none, target;
  target = none;
  EXPECT_EQ(target.shape_, Shape2(0, 0));
}

}  // namespace
}  // namespace tessera
