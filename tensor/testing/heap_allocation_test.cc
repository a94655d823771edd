// An evaluation whose operands do not overlap its destination takes nothing from the heap.
#include <cstdint>

#include "gtest/gtest.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

template <typename Body>
int64_t AllocationsOf(const Body& body) {
  // What a thread keeps from its first evaluation on, and gathers in one block at its second.
  for (int i = 0; i < 2; ++i) body();
  const int64_t before = NewCallsOfThisThread();
  body();
  return NewCallsOfThisThread() - before;
}

class HeapAllocationTest : public testing::Test {
 protected:
  // Small enough for one thread: waking TBB's workers is not the evaluation's own doing.
  static constexpr index_t kRows = 24, kColumns = 40;

  HeapAllocationTest() {
    for (Tensor<cpu, 2, float>* matrix : {&a_, &b_, &c_}) {
      *matrix = NewTensor<cpu>(Shape2(kRows, kColumns), 1.5f);
    }
    square_ = NewTensor<cpu>(Shape2(kRows, kRows), 0.0f);
    row_ = NewTensor<cpu>(Shape1(kColumns), 0.5f);
    column_ = NewTensor<cpu>(Shape1(kRows), 0.5f);
  }
  ~HeapAllocationTest() override {
    for (Tensor<cpu, 2, float>* matrix : {&a_, &b_, &c_, &square_}) FreeSpace(matrix);
    FreeSpace(&row_);
    FreeSpace(&column_);
  }

  Tensor<cpu, 2, float> a_, b_, c_, square_;
  Tensor<cpu, 1, float> row_, column_;
};

TEST_F(HeapAllocationTest, TheCountSeesAllocations) {
  EXPECT_EQ(AllocationsOf([] {
              int* volatile made = new int(1);  // volatile, or a compiler may do without both
              delete made;
            }),
            1);
}

TEST_F(HeapAllocationTest, ElementwiseExpressions) {
  EXPECT_EQ(AllocationsOf([&] { c_ = a_ * b_ + 2.0f; }), 0);
  EXPECT_EQ(AllocationsOf([&] { c_ -= 0.1f * (a_ + 0.01f * c_); }), 0);
  EXPECT_EQ(AllocationsOf([&] { c_ = exp(a_) + log(b_) * tanh(a_); }), 0);
  EXPECT_EQ(AllocationsOf([&] { c_ = pow(exp(a_), b_ + a_) + pow(b_, 2.5f); }), 0);
  EXPECT_EQ(AllocationsOf([&] { NoAlias(c_) = a_; }), 0);
}

TEST_F(HeapAllocationTest, ExpressionsThatMoveElements) {
  EXPECT_EQ(AllocationsOf([&] { square_ = slice<1>(a_, 0, kRows).T(); }), 0);
  EXPECT_EQ(AllocationsOf([&] { c_ = broadcast<1>(row_, c_.shape_) + a_; }), 0);
  EXPECT_EQ(AllocationsOf([&] { View(c_, kAll, 3) = View(a_, kAll, 4); }), 0);
}

TEST_F(HeapAllocationTest, Reductions) {
  EXPECT_EQ(AllocationsOf([&] { row_ = sum_rows(a_ * b_); }), 0);
  EXPECT_EQ(AllocationsOf([&] { column_ = sumall_except_dim<0>(a_); }), 0);
  float total = 0;
  EXPECT_EQ(AllocationsOf([&] { total = sum(a_ * b_); }), 0);
  EXPECT_EQ(AllocationsOf([&] { c_ = (a_ - mean(a_)) * b_; }), 0);
  EXPECT_GT(total, 0);
}

TEST_F(HeapAllocationTest, ReductionsAlongAnAxisInsideAnExpression) {
  EXPECT_EQ(AllocationsOf([&] { c_ = a_ - maximum<1>(a_).spread(); }), 0);
  EXPECT_EQ(AllocationsOf([&] { c_ = exp(a_ - maximum(a_)) / sum(exp(a_ - maximum(a_))); }), 0);
}

TEST_F(HeapAllocationTest, Products) {
  EXPECT_EQ(AllocationsOf([&] { square_ = dot(a_, b_.T()); }), 0);
  EXPECT_EQ(AllocationsOf([&] { square_ += 0.5f * dot(a_, b_.T()); }), 0);
}

// In an arena of one thread, as waking others is not the evaluation's own doing.
template <typename T>
class HeapAllocationOfTypeTest : public testing::Test {};
using ProductTypes = testing::Types<float, half_t>;
TYPED_TEST_SUITE(HeapAllocationOfTypeTest, ProductTypes);

TYPED_TEST(HeapAllocationOfTypeTest, NoneAtAnySize) {
  using T = TypeParam;
  tbb::task_arena arena(1);
  arena.execute([] {
    for (const index_t n : {1, 24, 60, 300}) {
      const TensorContainer<cpu, 2, T> a(Shape2(n, n), T(0.5f)), b(Shape2(n, n), T(0.25f));
      TensorContainer<cpu, 2, T> c(Shape2(n, n), T(1.0f));
      TensorContainer<cpu, 1, T> row{Shape1(n)};
      EXPECT_EQ(AllocationsOf([&] { c = a * b + T(2.0f); }), 0) << n;
      EXPECT_EQ(AllocationsOf([&] { row = sum<0>(a * b); }), 0) << n;
      EXPECT_EQ(AllocationsOf([&] { row = sumall_except_dim<0>(a); }), 0) << n;
      EXPECT_EQ(AllocationsOf([&] { c = dot(a, b); }), 0) << n;
      EXPECT_EQ(AllocationsOf([&] { c += T(0.5f) * dot(a.T(), b); }), 0) << n;
      EXPECT_EQ(AllocationsOf([&] { c = dot(a + b, b); }), 0) << n;
    }
  });
}

TEST_F(HeapAllocationTest, SeveralStatementsInOnePass) {
  float total = 0;
  EXPECT_EQ(
      AllocationsOf([&] { Fuse(Lazy(c_) = a_ + b_, Lazy(b_) -= c_, Lazy(total) += sum(c_)); }), 0);
}

}  // namespace
}  // namespace tessera
