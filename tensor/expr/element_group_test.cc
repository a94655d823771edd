// Groups of elements, which a GPU's kernels move, are ordinary code: here they run on the CPU.
#include "tessera/tensor/expr/element_group.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/expr/elementwise.h"

namespace tessera {
namespace {

using tensor_internal::ElementGroup;

template <typename T>
class ElementGroupTest : public testing::Test {
 protected:
  static constexpr index_t kRows = 3;
  static constexpr index_t kColumns = 4 * ElementGroup<T>::kSize;

  ElementGroupTest() {
    a_ = NewTensor<cpu>(Shape2(kRows, kColumns), T(0), false);
    b_ = NewTensor<cpu>(Shape2(kRows, kColumns), T(0), false);
    for (index_t i = 0; i < a_.shape_.Size(); ++i) {
      a_.dptr_[i] = static_cast<T>(i % 7);
      b_.dptr_[i] = static_cast<T>(i % 5 + 1);
    }
  }
  ~ElementGroupTest() override {
    FreeSpace(&a_);
    FreeSpace(&b_);
  }

  /// Every group of the expression has the elements that it has one by one.
  template <typename E>
  void ExpectGroupsOf(const E& e) {
    using Group = ElementGroup<typename E::value_type>;
    static_assert(expr::HasGroups<E>());
    ASSERT_TRUE(e.GroupsAreAligned(kRows));
    for (index_t y = 0; y < kRows; ++y) {
      for (index_t x = 0; x < kColumns; x += Group::kSize) {
        const Group group = e.template EvalPacket<Group>(y, x);
        for (index_t k = 0; k < Group::kSize; ++k) {
          EXPECT_EQ(static_cast<double>(group[k]), static_cast<double>(e.Eval(y, x + k)));
        }
      }
    }
  }

  Tensor<cpu, 2, T> a_, b_;
};
using Types = testing::Types<float, double, half_t, bfloat16_t, int32_t, uint8_t, int64_t>;
TYPED_TEST_SUITE(ElementGroupTest, Types);

struct UserSum {
  template <typename T>
  TESSERA_HD static T Map(T a, T b, T c) {
    return static_cast<T>(a + b + c);
  }
};

TYPED_TEST(ElementGroupTest, HoldSixteenBytes) {
  EXPECT_EQ(sizeof(ElementGroup<TypeParam>), 16u);
  EXPECT_EQ(alignof(ElementGroup<TypeParam>), 16u);
}

TYPED_TEST(ElementGroupTest, HaveTheElementsOfTheExpression) {
  this->ExpectGroupsOf(this->a_ + this->b_ * TypeParam(2));
  this->ExpectGroupsOf(F<op::maximum>(this->a_, this->b_));
  this->ExpectGroupsOf(F<UserSum>(this->a_, this->b_, this->a_));
}

TYPED_TEST(ElementGroupTest, StoreWritesTheGroup) {
  auto store = Store(this->b_, this->a_ + TypeParam(1));
  store.template EvalPacket<ElementGroup<TypeParam>>(1, 0);
  for (index_t x = 0; x < ElementGroup<TypeParam>::kSize; ++x) {
    EXPECT_EQ(static_cast<double>(this->b_[1][x]), static_cast<double>(this->a_[1][x]) + 1);
  }
}

TYPED_TEST(ElementGroupTest, MisalignedRowsHaveNone) {
  using T = TypeParam;
  const Tensor<cpu, 2, T> shifted(this->a_.dptr_ + 1, this->a_.shape_, this->a_.stride_, nullptr);
  EXPECT_FALSE(shifted.GroupsAreAligned(1));
  const Tensor<cpu, 2, T> odd(this->a_.dptr_, Shape2(2, 3), 3, nullptr);
  EXPECT_TRUE(odd.GroupsAreAligned(1));
  EXPECT_FALSE(odd.GroupsAreAligned(2));
  EXPECT_FALSE((this->a_ + shifted).GroupsAreAligned(1));
}

static_assert(!expr::HasGroups<decltype(Tensor<cpu, 2, float>().T() + 1.0f)>(),
              "what moves elements has no groups");

}  // namespace
}  // namespace tessera
