// Expressions of a program's own, functions for expressions of every kind, and complex numbers.
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"
#include "mshadow/tensor.h"

namespace mine {

// Each row moved to the left by one, around the end.
template <typename SrcExp, typename DType, int dim>
struct RotatedExp : public mshadow::expr::MakeTensorExp<RotatedExp<SrcExp, DType, dim>, SrcExp,  //
                                                        dim, DType> {
  const SrcExp& src_;
  explicit RotatedExp(const SrcExp& src) : src_(src) {
    this->shape_ = mshadow::expr::ShapeCheck<dim, SrcExp>::Check(src_);
  }
};

// The outer sum of two vectors that need not be alike: two operands, one dimension more.
template <typename Rows, typename Columns, typename DType>
struct OuterSumExp
    : public mshadow::expr::MakeTensorExp<OuterSumExp<Rows, Columns, DType>, Rows, 2, DType> {
  const Rows& rows_;
  const Columns& columns_;
  OuterSumExp(const Rows& rows, const Columns& columns) : rows_(rows), columns_(columns) {
    this->shape_ = mshadow::Shape2(mshadow::expr::ShapeCheck<1, Rows>::Check(rows)[0],
                                   mshadow::expr::ShapeCheck<1, Columns>::Check(columns)[0]);
  }
};

// Running sums along each row, which code of the program's computes as a whole, in the kinds of
// destinations that it knows.
template <typename SrcExp, typename DType>
struct RunningSumExp : public mshadow::expr::Exp<RunningSumExp<SrcExp, DType>, DType,
                                                 mshadow::expr::type::kComplex> {
  const SrcExp& exp;
  explicit RunningSumExp(const SrcExp& e) : exp(e) {}
};
// A row of a matrix, to which the destination's handle is set.
template <typename DType>
struct RowExp : public mshadow::expr::Exp<RowExp<DType>, DType, mshadow::expr::type::kComplex> {
  const mshadow::Tensor<mshadow::cpu, 2, DType>& exp;
  mshadow::index_t row;
  RowExp(const mshadow::Tensor<mshadow::cpu, 2, DType>& e, mshadow::index_t r) : exp(e), row(r) {}
};

// A container of a program's own.
template <typename Device, typename DType>
class Vector : public mshadow::Tensor<Device, 1, DType> {
 public:
  using mshadow::Tensor<Device, 1, DType>::Tensor;
  mshadow::Tensor<Device, 1, DType>& operator=(DType s) { return this->__assign(s); }
  template <typename E>
  mshadow::Tensor<Device, 1, DType>& operator=(
      const mshadow::expr::Exp<E, DType, mshadow::expr::type::kMapper>& exp) {
    return this->__assign(exp);
  }
  template <typename E>
  mshadow::Tensor<Device, 1, DType>& operator=(
      const mshadow::expr::Exp<E, DType, mshadow::expr::type::kChainer>& exp) {
    return this->__assign(exp);
  }
  template <typename E>
  mshadow::Tensor<Device, 1, DType>& operator=(
      const mshadow::expr::Exp<E, DType, mshadow::expr::type::kComplex>& exp) {
    return this->__assign(exp);
  }
};

}  // namespace mine

namespace mshadow {
namespace expr {

template <typename E, typename DType>
struct ExpInfo<mine::RunningSumExp<E, DType>> {
  static const int kDim = ExpInfo<E>::kDim;
  static const int kDevMask = ExpInfo<E>::kDevMask;
};
template <typename SV, typename Device, int dim, typename SrcExp, typename DType>
struct ExpComplexEngine<SV, Tensor<Device, dim, DType>, mine::RunningSumExp<SrcExp, DType>, DType> {
  inline static void Eval(Tensor<Device, dim, DType>* dst,
                          const mine::RunningSumExp<SrcExp, DType>& exp) {
    const Plan<SrcExp, DType> plan = MakePlan(exp.exp);
    const Tensor<Device, 2, DType> rows = dst->FlatTo2D();
    for (index_t y = 0; y < rows.size(0); ++y) {
      DType sum(0);
      for (index_t x = 0; x < rows.size(1); ++x) SV::Save(rows[y][x], sum += plan.Eval(y, x));
    }
  }
};
template <typename DType>
struct ExpComplexEngine<sv::saveto, Tensor<cpu, 1, DType>, mine::RowExp<DType>, DType> {
  inline static void Eval(Tensor<cpu, 1, DType>* dst, const mine::RowExp<DType>& exp) {
    *dst = exp.exp[exp.row];
  }
};

template <typename SrcExp, typename DType, int dim>
struct Plan<mine::RotatedExp<SrcExp, DType, dim>, DType> {
 public:
  explicit Plan(const mine::RotatedExp<SrcExp, DType, dim>& e)
      : src_(MakePlan(e.src_)), width_(e.shape_[dim - 1]) {}
  MSHADOW_XINLINE DType Eval(index_t y, index_t x) const { return src_.Eval(y, (x + 1) % width_); }

 private:
  Plan<SrcExp, DType> src_;
  const index_t width_;
};

template <typename Rows, typename Columns, typename DType>
struct Plan<mine::OuterSumExp<Rows, Columns, DType>, DType> {
 public:
  explicit Plan(const mine::OuterSumExp<Rows, Columns, DType>& e)
      : rows_(MakePlan(e.rows_)), columns_(MakePlan(e.columns_)) {}
  // The row is no row of a vector, which is its only one.
  MSHADOW_XINLINE DType Eval(index_t y, index_t x) const {
    return rows_.Eval(0, y) + columns_.Eval(y, x);
  }

 private:
  Plan<Rows, DType> rows_;
  Plan<Columns, DType> columns_;
};

}  // namespace expr
}  // namespace mshadow

using namespace mshadow;        // NOLINT: what such programs do
using namespace mshadow::expr;  // NOLINT

template <typename SrcExp, typename DType, int etype>
inline mine::RotatedExp<SrcExp, DType, ExpInfo<SrcExp>::kDim> rotated(
    const Exp<SrcExp, DType, etype>& src) {
  TypeCheckPass<ExpInfo<SrcExp>::kDim >= 1>::Error_Expression_Does_Not_Meet_Dimension_Req();
  return mine::RotatedExp<SrcExp, DType, ExpInfo<SrcExp>::kDim>(src.self());
}
template <typename Rows, typename Columns, typename DType, int rtype, int ctype>
inline mine::OuterSumExp<Rows, Columns, DType> outer_sum(
    const Exp<Rows, DType, rtype>& rows, const Exp<Columns, DType, ctype>& columns) {
  return mine::OuterSumExp<Rows, Columns, DType>(rows.self(), columns.self());
}

template <typename SrcExp, typename DType, int etype>
inline mine::RunningSumExp<SrcExp, DType> running_sum(const Exp<SrcExp, DType, etype>& src) {
  return mine::RunningSumExp<SrcExp, DType>(src.self());
}

struct increment {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a) {
    return a + DType(1);
  }
};

namespace {

template <typename E, typename DType, int etype>
constexpr int KindOf(const Exp<E, DType, etype>&) {
  return etype;
}
template <typename E, typename DType, int etype>
E SelfOf(const Exp<E, DType, etype>& e) {
  return e.self();
}
// Without self(), as operands and on the right of assignments.
template <typename E, int etype>
void AssignTwice(Tensor<cpu, 2> dst, const Exp<E, float, etype>& e) {
  dst = e;
  dst += 2.0f * e;
}
template <typename E, int etype>
void AssignWholeOf(Tensor<cpu, 2> dst, const Exp<E, float, etype>& e) {
  dst = e;
}
template <typename E>
bool IsMemory(const RValueExp<E, float>&) {
  return true;
}

/// A matrix with element (y, x) equal to start + 10 y + x.
class Matrix : public TensorContainer<cpu, 2> {
 public:
  Matrix(index_t rows, index_t columns, float start = 0.0f)
      : TensorContainer<cpu, 2>(Shape2(rows, columns)) {
    for (index_t y = 0; y < rows; ++y) {
      for (index_t x = 0; x < columns; ++x) {
        (*this)[y][x] = start + static_cast<float>(10 * y + x);
      }
    }
  }
  using TensorContainer<cpu, 2>::operator=;
};

void ExpectRotated(const Tensor<cpu, 2>& t, const Tensor<cpu, 2>& source, float scale = 1.0f,
                   float offset = 0.0f) {
  ASSERT_EQ(t.shape_, source.shape_);
  for (index_t y = 0; y < t.size(0); ++y) {
    for (index_t x = 0; x < t.size(1); ++x) {
      EXPECT_EQ(t[y][x], scale * source[y][(x + 1) % t.size(1)] + offset) << y << " " << x;
    }
  }
}

TEST(MshadowExpTest, EveryExpressionFitsTheParameter) {
  Matrix a(3, 4), b(3, 4);
  Tensor<cpu, 2> handle = a;
  TensorContainer<cpu, 3> t(Shape3(2, 3, 4), 1.0f);
  EXPECT_EQ(KindOf(handle), static_cast<int>(type::kRValue));
  EXPECT_EQ(KindOf(a), static_cast<int>(type::kRValue));
  EXPECT_EQ(KindOf(a + 2.0f * b), static_cast<int>(type::kMapper));
  EXPECT_EQ(KindOf(F<increment>(a)), static_cast<int>(type::kMapper));
  EXPECT_EQ(KindOf(tcast<int>(a)), static_cast<int>(type::kMapper));
  EXPECT_EQ(KindOf(a.T()), static_cast<int>(type::kChainer));
  EXPECT_EQ(KindOf(1.0f + repmat(a[0], 3)), static_cast<int>(type::kChainer));
  EXPECT_EQ(KindOf(slice<1>(a, 0, 2)), static_cast<int>(type::kChainer));
  EXPECT_EQ(KindOf(reduce_with_axis<red::sum, false>(t, 1)), static_cast<int>(type::kChainer));
  EXPECT_EQ(KindOf(rotated(a)), static_cast<int>(type::kChainer));
  EXPECT_EQ(KindOf(dot(a, b.T())), static_cast<int>(type::kComplex));
  EXPECT_EQ(KindOf(2.0f * sumall_except_dim<1>(a)), static_cast<int>(type::kComplex));
  static_assert(std::is_same_v<decltype(SelfOf(a)), Tensor<cpu, 2>>);
  static_assert(std::is_same_v<decltype(SelfOf(a + b)), decltype(a + b)>);
  static_assert(std::is_same_v<decltype(SelfOf(dot(a, b))), decltype(dot(a, b))>);
  EXPECT_EQ(SelfOf(a).dptr_, a.dptr_);
  EXPECT_TRUE(IsMemory(a) && IsMemory(handle));
}

TEST(MshadowExpTest, TheParameterIsAnExpressionItself) {
  Matrix a(3, 4), b(3, 4, 5.0f), out(3, 4), square(3, 3), product(3, 3);
  AssignTwice(out, a);
  EXPECT_EQ(out[2][1], 3 * a[2][1]);
  AssignTwice(out, a * b);
  EXPECT_EQ(out[1][3], 3 * a[1][3] * b[1][3]);
  AssignTwice(out, rotated(a));
  ExpectRotated(out, a, 3.0f);
  product = dot(a, b.T());
  AssignTwice(square, dot(a, b.T()));
  EXPECT_EQ(square[1][2], 3 * product[1][2]);
}

TEST(MshadowExpTest, ChecksAgreeWithTheExpression) {
  Matrix a(3, 4);
  TensorContainer<cpu, 1> v(Shape1(3), 1.0f);
  using Sum = decltype(a + 1.0f);
  using Own = decltype(rotated(a + 1.0f));
  static_assert(ExpInfo<Own>::kDim == 2 && ExpInfo<Own>::kDevMask == cpu::kDevMask);
  static_assert(ExpInfo<ScalarExp<float>>::kDim == 0);
  static_assert(TypeCheck<cpu, 2, float, Own>::kMapPass);
  static_assert(!TypeCheck<cpu, 1, float, Own>::kMapPass &&
                TypeCheck<cpu, 1, float, Own>::kRedPass);
  static_assert(!TypeCheck<gpu, 2, float, Own>::kMapPass);
  static_assert(TypeCheck<gpu, 2, float, ScalarExp<float>>::kMapPass);
  TypeCheckPass<true>::Error_All_Tensor_in_Exp_Must_Have_Same_Type();
  EXPECT_EQ((ShapeCheck<2, Sum>::Check(a + 1.0f)), Shape2(3, 4));
  EXPECT_EQ((ShapeCheck<2, ScalarExp<float>>::Check(scalar(1.0f))), Shape2(0, 0));

  Stream<cpu>* const stream = NewStream<cpu>();
  EXPECT_EQ((StreamInfo<cpu, Sum>::Get(a + 1.0f)), nullptr);
  a.set_stream(stream);
  EXPECT_EQ((StreamInfo<cpu, Sum>::Get(a + 1.0f)), stream);
  EXPECT_EQ((StreamInfo<cpu, Own>::Get(rotated(a + 1.0f))), stream);
  EXPECT_EQ((StreamInfo<cpu, decltype(dot(v, a))>::Get(dot(v, a))), stream);
  a.set_stream(nullptr);
  DeleteStream(stream);
}

TEST(MshadowPlanTest, APlanGivesTheElementsOfAnyExpression) {
  Matrix a(3, 4), b(3, 4, 100.0f);
  auto plan = MakePlan(a + 2.0f * b);
  EXPECT_EQ(plan.Eval(2, 3), a[2][3] + 2 * b[2][3]);
  Plan<Tensor<cpu, 2>, float> place = MakePlan(a);
  place.REval(1, 2) = -1.0f;
  EXPECT_EQ(a[1][2], -1.0f);
  Plan<Tensor<cpu, 1>> row = MakePlan(a[1]);
  EXPECT_EQ(row.Eval(7, 2), -1.0f);
  EXPECT_EQ(row.REval(7, 3), 13.0f);
}

TEST(MshadowPlanTest, OwnExpressionsStandOnTheRightOfEveryAssignment) {
  const Matrix a(3, 4, 1.0f);
  Matrix out(3, 4, 1.0f);
  out = rotated(a);
  ExpectRotated(out, a);
  out += rotated(a);
  ExpectRotated(out, a, 2.0f);
  out -= rotated(a);
  ExpectRotated(out, a);
  out *= rotated(a) / rotated(a);
  ExpectRotated(out, a);
  out /= rotated(a) * rotated(a) / rotated(a);
  ExpectRotated(out, a, 0.0f, 1.0f);
  MapExp<sv::saveto>(&out, rotated(a));
  ExpectRotated(out, a);
  TensorContainer<cpu, 2> other;
  other = rotated(a);
  ExpectRotated(other, a);
  Matrix wide(3, 6);
  slice<1>(wide, 1, 5) = rotated(a);
  EXPECT_EQ(wide[2][1], a[2][1]);
  EXPECT_EQ(wide[2][5], 25.0f);
  Matrix left(3, 1), right(3, 3);
  concat<1>(left, right) = rotated(a);
  EXPECT_EQ(right[1][2], a[1][0]);
}

TEST(MshadowPlanTest, OwnExpressionsArePartsOfLargerOnes) {
  const Matrix a(3, 4, 1.0f), b(3, 4, 2.0f), w(4, 2);
  Matrix out(3, 4), product(3, 2), expected(3, 2);
  out = 2.0f * rotated(a) + b - 1.0f;
  EXPECT_EQ(out[1][3], 2 * a[1][0] + b[1][3] - 1);
  out = F<increment>(rotated(F<increment>(a)));
  ExpectRotated(out, a, 1.0f, 2.0f);
  out = rotated(rotated(rotated(a * 2.0f)));
  Matrix turned(3, 4);
  turned = rotated(rotated(a));
  ExpectRotated(out, turned, 2.0f);
  turned = rotated(a);
  product = dot(rotated(a), w);
  expected = dot(turned, w);
  for (index_t i = 0; i < 6; ++i) EXPECT_EQ(product.dptr_[i], expected.dptr_[i]);
  TensorContainer<cpu, 2> transposed(Shape2(4, 3));
  transposed = rotated(a).T();
  EXPECT_EQ(transposed[3][1], a[1][0]);
  TensorContainer<cpu, 1> rows(Shape1(3)), columns(Shape1(4));
  rows = sumall_except_dim<0>(rotated(a));
  EXPECT_EQ(rows[2], 4 * 21.0f + 6.0f);
  columns = 0.5f * sumall_except_dim<1>(rotated(a));
  EXPECT_EQ(columns[3], 0.5f * (1 + 11 + 21));
  columns = reduce_with_axis<red::maximum, false>(rotated(a), 0);
  EXPECT_EQ(columns[0], 22.0f);
  out = broadcast<0>(rotated(rows), out.shape_) + repmat(rotated(columns), 3);
  EXPECT_EQ(out[0][1], rows[1] + columns[2]);
  TensorContainer<cpu, 1> flat(Shape1(12));
  flat = reshape(rotated(a), flat.shape_);
  EXPECT_EQ(flat[7], a[1][0]);
  EXPECT_EQ(static_cast<float>(tessera::sum(rotated(a))),
            static_cast<float>(tessera::sum(a.self())));
}

TEST(MshadowPlanTest, SeveralOperandsAndOtherTypes) {
  TensorContainer<cpu, 1, double> u(Shape1(2), 10.0), v(Shape1(3));
  for (index_t i = 0; i < 3; ++i) v[i] = static_cast<double>(i);
  TensorContainer<cpu, 2, double> sums(Shape2(2, 3));
  sums = outer_sum(rotated(u) + 1.0, v);
  EXPECT_EQ(sums[1][2], 13.0);
  TensorContainer<cpu, 3, half::half_t> h(Shape3(2, 2, 3), half::half_t(2.0f)), out(h.shape_);
  out = rotated(h) * h;
  EXPECT_EQ(static_cast<float>(out[1][1][2]), 4.0f);
  TensorContainer<cpu, 2, int> n(Shape2(1, 3), 7), m(n.shape_);
  m = rotated(n + 1);
  EXPECT_EQ(m[0][2], 8);
}

TEST(MshadowPlanTest, ADestinationAmongTheOperandsIsReadBeforeItIsWritten) {
  const Matrix a(3, 4, 1.0f);
  Matrix out(3, 4, 1.0f);
  out = rotated(out);
  ExpectRotated(out, a);
  out = a;
  Copy(out, a);
  out += rotated(out * 2.0f);
  EXPECT_EQ(out[2][0], a[2][0] + 2 * a[2][1]);
  EXPECT_EQ(out[2][3], a[2][3] + 2 * a[2][0]);
  Copy(out, a);
  out = a + rotated(rotated(out));
  EXPECT_EQ(out[0][3], a[0][3] + a[0][1]);
  // Of many operands too.
  Copy(out, a);
  out = rotated(a + a + a + a + a + out);
  ExpectRotated(out, a, 6.0f);
  // A row of the destination is a vector that one of two operands reads.
  Matrix square(3, 3);
  const Matrix before(3, 3);
  square = outer_sum(before[0], square[1]);
  EXPECT_EQ(square[2][0], before[0][2] + before[1][0]);
  EXPECT_EQ(square[2][2], before[0][2] + before[1][2]);
}

TEST(MshadowPlanTest, AnExpressionThatIsKeptNeedsNothingButTheMemory) {
  const Matrix a(3, 4, 1.0f);
  Matrix out(3, 4);
  const auto made = [&] {
    const Tensor<cpu, 2> handle = a;
    return rotated(handle + 1.0f) * 2.0f;
  };
  const auto kept = made();
  static_assert(std::is_trivially_copyable_v<decltype(kept)>);
  out = kept;
  ExpectRotated(out, a, 2.0f, 2.0f);
}

TEST(MshadowPlanTest, FusedStatementsTakeThem) {
  const Matrix a(3, 4, 1.0f);
  Matrix out(3, 4), twice(3, 4);
  tessera::Fuse(tessera::Lazy(out) = rotated(a), tessera::Lazy(twice) = 2.0f * rotated(a));
  ExpectRotated(out, a);
  ExpectRotated(twice, a, 2.0f);
  // The second reads what the first writes at other places.
  tessera::Fuse(tessera::Lazy(out) = a * 1.0f, tessera::Lazy(twice) = rotated(out) * 1.0f);
  ExpectRotated(twice, a);
}

TEST(MshadowPlanTest, WhatOneStoresIsNoOldReduction) {
  Matrix a(1, 4), b(1, 4, 100.0f), out(1, 4);
  const float before = sum(b);
  const auto stores = tessera::Store(b, a * 2.0f);
  out = a * 0.0f + (sum(b) + sum(rotated(stores))) + 10.0f * sum(b);
  const float after = 2.0f * sum(a);
  EXPECT_EQ(out[0][0], before + after + 10.0f * after);
}

template <typename SV, typename E, typename DType, int etype>
void Combined(Tensor<cpu, 2, DType> dst, const Exp<E, DType, etype>& e) {
  ExpEngine<SV, Tensor<cpu, 2, DType>, DType>::Eval(&dst, e);
}
template <typename Dst, typename E>
concept CanAssign = requires(Dst dst, const E& e) {
  dst = e;
};
template <typename A, typename B>
concept CanAdd = requires(const A& a, const B& b) {
  a + b;
};

TEST(MshadowComplexEngineTest, AProgramsOwnEngineComputesItsExpression) {
  const Matrix a(2, 3);  // 0 1 2, 10 11 12
  Matrix out(2, 3);
  out = running_sum(a);
  EXPECT_EQ(out[0][2], 3.0f);
  EXPECT_EQ(out[1][2], 33.0f);
  out += running_sum(a + 1.0f);
  EXPECT_EQ(out[1][2], 69.0f);
  out -= running_sum(a);
  EXPECT_EQ(out[1][2], 36.0f);
  out *= running_sum(a);
  EXPECT_EQ(out[0][1], 3.0f);
  out /= running_sum(a + 1.0f);
  EXPECT_EQ(out[0][1], 1.0f);
  Tensor<cpu, 2> handle = out;
  handle = running_sum(a);
  EXPECT_EQ(out[1][1], 21.0f);
  handle.__assign(running_sum(a * 2.0f));
  EXPECT_EQ(out[1][1], 42.0f);
  AssignWholeOf(handle, running_sum(a));
  EXPECT_EQ(out[1][1], 21.0f);
  // Parts of a tensor, and other types and ranks.
  Matrix wide(2, 5, 100.0f);
  slice<1>(wide, 1, 4) = running_sum(a);
  EXPECT_EQ(wide[1][3], 33.0f);
  EXPECT_EQ(wide[1][4], 114.0f);
  TensorContainer<cpu, 3, double> cube(Shape3(2, 2, 2), 0.5), sums(cube.shape_);
  sums = running_sum(cube);
  EXPECT_EQ(sums[1][1][1], 1.0);
  // Its engine has none for other destinations, and it is no operand.
  static_assert(CanAssign<Tensor<cpu, 2>, mine::RunningSumExp<Tensor<cpu, 2>, float>>);
  static_assert(!CanAssign<Tensor<cpu, 2, double>, mine::RunningSumExp<Tensor<cpu, 2>, float>>);
  static_assert(!CanAssign<Tensor<cpu, 2>, mine::RowExp<float>>);
  static_assert(!CanAdd<Matrix, mine::RunningSumExp<Tensor<cpu, 2>, float>>);
  static_assert(TypeCheck<cpu, 2, float, mine::RunningSumExp<Tensor<cpu, 2>, float>>::kMapPass);
}

TEST(MshadowComplexEngineTest, AnEngineMaySetTheDestinationsHandle) {
  const Matrix a(2, 3);
  Tensor<cpu, 1> row;
  row = mine::RowExp<float>(a, 1);
  EXPECT_EQ(row.dptr_, a[1].dptr_);
  EXPECT_EQ(row.size(0), 3);
}

TEST(MshadowComplexEngineTest, TheEnginesTakeTesserasExpressions) {
  const Matrix a(2, 3), b(3, 2, 1.0f);
  Matrix out(2, 2), expected(2, 2);
  expected = dot(a, b);
  using Product = decltype(dot(a, b));
  ExpComplexEngine<sv::saveto, Tensor<cpu, 2>, Product, float>::Eval(&out, dot(a, b));
  EXPECT_EQ(out[1][1], expected[1][1]);
  Combined<sv::plusto>(out, dot(a, b));
  Combined<sv::minusto>(out, expected * 0.5f);
  Combined<sv::multo>(out, scalar(2.0f));
  Combined<sv::divto>(out, expected.T().T());
  EXPECT_EQ(out[1][1], 3.0f);
  Combined<sv::saveto>(out, running_sum(expected));
  EXPECT_EQ(out[1][1], expected[1][0] + expected[1][1]);
}

TEST(MshadowComplexEngineTest, ClassesDerivedFromTensorAssignThroughIt) {
  const Matrix a(2, 3);
  float elements[3];
  mine::Vector<cpu, float> v(elements, Shape1(3));
  v = 2.0f;
  EXPECT_EQ(v[2], 2.0f);
  v = v * 3.0f;
  EXPECT_EQ(v[2], 6.0f);
  v = rotated(a[1] * 1.0f);
  EXPECT_EQ(v[2], 10.0f);
  v = sum_rows(a);
  EXPECT_EQ(v[2], 14.0f);
  v = running_sum(a[1]);
  EXPECT_EQ(v[2], 33.0f);
  // A tensor is copied by element.
  v.__assign(a[1]);
  EXPECT_NE(v.dptr_, a[1].dptr_);
  EXPECT_EQ(v[2], 12.0f);
}

TEST(MshadowPlanTest, ShapesThatDifferThrow) {
  Matrix a(3, 4), b(4, 3);
  Tensor<cpu, 2>& dst = b;
  EXPECT_THROW(dst = rotated(a), dmlc::Error);
  EXPECT_THROW(dst += b * rotated(a), dmlc::Error);
}

TEST(MshadowPlanTest, MapPlanSavesEveryElement) {
  const Matrix a(3, 5, 1.0f);
  TensorContainer<cpu, 2> padded(/*pad=*/true);
  padded.Resize(a.shape_, 0.5f);
  MapPlan<sv::plusto>(&padded, MakePlan(rotated(a) * 2.0f));
  ExpectRotated(padded, a, 2.0f, 0.5f);
  TensorContainer<cpu, 1, int> v(Shape1(4), 3);
  MapPlan<sv::multo>(&v, MakePlan(v + 1));
  EXPECT_EQ(v[3], 12);
  Tensor<cpu, 2> empty(nullptr, Shape2(0, 5));
  MapPlan<sv::saveto>(&empty, MakePlan(empty * 2.0f));
}

TEST(MshadowTensorTest, AStrideMayStandWithoutAStream) {
  float data[12] = {};
  const Tensor<cpu, 2> apart(data, Shape2(3, 2), 4);
  EXPECT_EQ(apart.stride_, 4);
  EXPECT_EQ(&apart[2][1], data + 9);
  EXPECT_EQ(apart.stream_, nullptr);
  EXPECT_EQ((Tensor<cpu, 2>(data, Shape2(3, 2), size_t{4}).stride_), 4);
  // No stream, in every form.
  EXPECT_EQ((Tensor<cpu, 2>(data, Shape2(3, 4), NULL).stride_), 4);
  EXPECT_EQ((Tensor<cpu, 2>(data, Shape2(3, 4), 0).stride_), 4);
  EXPECT_EQ((Tensor<cpu, 2>(data, Shape2(3, 4), nullptr).stride_), 4);
  EXPECT_EQ((Tensor<cpu, 2>(data, Shape2(3, 3), 4, NULL).stride_), 4);
}

// Functions that take their destination as mshadow's own did.
template <typename Saver, typename R, int dim, typename DType, typename E, int etype>
void MapByPlans(TRValue<R, cpu, dim, DType>* dst, const Exp<E, DType, etype>& e) {
  TypeCheckPass<
      TypeCheck<cpu, dim, DType, E>::kMapPass>::Error_All_Tensor_in_Exp_Must_Have_Same_Type();
  const Shape<dim> expected = ShapeCheck<dim, R>::Check(dst->self());
  EXPECT_EQ((ShapeCheck<dim, E>::Check(e.self())), expected);
  MapPlan<Saver>(dst, MakePlan(e.self()));
}
template <typename Saver, typename R, int dim, typename DType, typename E, int etype>
void Mapped(TRValue<R, cpu, dim, DType>* dst, const Exp<E, DType, etype>& e) {
  MapExp<Saver>(dst, e);
}
template <typename Saver, typename R, typename DType, typename E, int etype>
void Reduced(TRValue<R, cpu, 1, DType>* dst, const Exp<E, DType, etype>& e, DType scale) {
  MapReduceKeepLowest<Saver, red::sum>(dst, e, scale);
  MapReduceKeepHighDim<Saver, red::maximum, 1>(dst, e);
}
template <typename R, typename xpu, int dim, typename DType>
void SetToZero(TRValue<R, xpu, dim, DType>& dst) {  // NOLINT: as such programs do
  *dst.ptrself() = DType(0);
}

TEST(MshadowTensorTest, FunctionsTakeTheirDestinationByItsBase) {
  const Matrix a(2, 3);
  Matrix out(2, 3);
  Tensor<cpu, 2> handle = out;
  MapByPlans<sv::saveto>(&handle, rotated(a));
  ExpectRotated(out, a);
  MapByPlans<sv::plusto>(&out, a + 1.0f);
  EXPECT_EQ(out[1][0], a[1][1] + a[1][0] + 1);
  Mapped<sv::saveto>(&out, rotated(a));
  ExpectRotated(out, a);
  TensorContainer<cpu, 1> sums(Shape1(3), 1.0f);
  Reduced<sv::plusto>(&sums, a * 1.0f, 0.5f);
  EXPECT_EQ(sums[2], 1 + 0.5f * (a[0][2] + a[1][2]) + a[1][2]);
  SetToZero(out);
  EXPECT_EQ(handle[1][2], 0.0f);
  static_assert(sizeof(TRValue<Tensor<cpu, 2>, cpu, 2, float>) == 1);
}

template <typename DType>
void ExpectLimits(bool has_infinity) {
  const DType low = red::limits::NegInfValue<DType>(), high = red::limits::PosInfValue<DType>();
  volatile DType changing;
  changing = high;
  EXPECT_EQ(isinf_typed::IsInf(low), has_infinity);
  EXPECT_EQ(isinf_typed::IsInf(changing), has_infinity);
  EXPECT_FALSE(isinf_typed::IsInf(red::limits::MaxValue<DType>()));
  EXPECT_EQ(low == red::limits::MinValue<DType>(), !has_infinity);
  EXPECT_FALSE(isnan_typed::IsNan(low) || isnan_typed::IsNan(changing));
  if (!has_infinity) return;
  changing = high - high;
  EXPECT_TRUE(isnan_typed::IsNan(changing) && isnan_typed::IsNan(DType(high - high)));
  EXPECT_FALSE(isinf_typed::IsInf(changing));
}

TEST(MshadowLimitsTest, InfinitiesAndNansOfEveryType) {
  ExpectLimits<float>(true);
  ExpectLimits<double>(true);
  ExpectLimits<half::half_t>(true);
  ExpectLimits<bfloat::bf16_t>(true);
  ExpectLimits<int>(false);
  ExpectLimits<uint8_t>(false);
  EXPECT_EQ(half::half_t(1.5f).half_, 0x3e00);
}

TEST(MshadowRandomTest, SeedsFillVectorsOfAnyInteger) {
  Random<cpu> random(1), same(1);
  TensorContainer<cpu, 1, unsigned> seeds(Shape1(9));
  TensorContainer<cpu, 1, uint64_t> wide(Shape1(9));
  random.GetRandInt(seeds);
  for (index_t i = 0; i < 9; ++i) EXPECT_EQ(seeds[i], same.GetRandInt());
  random.GetRandInt(wide);
  const uint64_t high = same.GetRandInt(), low = same.GetRandInt();
  EXPECT_EQ(wide[0], high << 32 | low);
}

template <typename DType>
std::complex<double> NumberAt(const Tensor<cpu, 2, DType>& t, index_t y, index_t k) {
  return {static_cast<double>(t[y][2 * k]), static_cast<double>(t[y][2 * k + 1])};
}

// Against the numbers of the standard library, for `count` numbers in each of two rows.
template <typename DType>
void ExpectComplexNumbers(index_t count, bool pad, double bound) {
  const auto made = [&](index_t columns, double start) {
    TensorContainer<cpu, 2, DType> t(pad);
    t.Resize(Shape2(2, columns));
    for (index_t y = 0; y < 2; ++y) {
      for (index_t x = 0; x < columns; ++x) {
        t[y][x] = DType(start + 0.25 * static_cast<double>((3 * x + 5 * y) % 7));
      }
    }
    return t;
  };
  const TensorContainer<cpu, 2, DType> a = made(2 * count, -0.5), b = made(2 * count, 0.5);
  const TensorContainer<cpu, 2, DType> r = made(count, 0.25);
  TensorContainer<cpu, 2, DType> z(pad), real(pad);
  const auto expect = [&](const char* what, const auto& oracle) {
    ASSERT_EQ(z.shape_, a.shape_) << what;
    for (index_t y = 0; y < 2; ++y) {
      for (index_t k = 0; k < count; ++k) {
        const std::complex<double> exact = oracle(
            NumberAt<DType>(a, y, k), NumberAt<DType>(b, y, k), static_cast<double>(r[y][k]));
        EXPECT_LE(std::abs(NumberAt<DType>(z, y, k) - exact), bound) << what << y << " " << k;
      }
    }
  };
  using C = std::complex<double>;
  z = complex_mul_cc(a, b);
  expect("cc", [](C p, C q, double) { return p * q; });
  z = complex_mul_cr(a, r);
  expect("cr", [](C p, C, double s) { return p * s; });
  z = complex_mul_rc(r, a * DType(1));
  expect("rc", [](C p, C, double s) { return s * p; });
  z = complex_div_cc(a, b);
  expect("cc", [](C p, C q, double) { return p / q; });
  z = complex_div_cr(a, r);
  expect("cr", [](C p, C, double s) { return p / s; });
  z = complex_div_rc(r, b);
  expect("rc", [](C, C q, double s) { return s / q; });
  z = conj(a);
  expect("conj", [](C p, C, double) { return std::conj(p); });
  z = complex_exchange(a);
  expect("exchange", [](C p, C, double) { return C(p.imag(), p.real()); });
  z = complex_pad_imag(r);
  expect("pad_imag", [](C, C, double s) { return C(s); });
  z = complex_mul_cc(b, a);
  z += complex_mul_cc(z, b);  // reads what it writes at other places
  expect("+=", [](C p, C q, double) { return q * p + q * p * q; });
  const auto expect_real = [&](const char* what, const auto& oracle) {
    ASSERT_EQ(real.shape_, r.shape_) << what;
    for (index_t y = 0; y < 2; ++y) {
      for (index_t k = 0; k < count; ++k) {
        EXPECT_NEAR(static_cast<double>(real[y][k]), oracle(NumberAt<DType>(a, y, k)), bound)
            << what << y << " " << k;
      }
    }
  };
  real = complex_toreal(a);
  expect_real("real", [](C p) { return p.real(); });
  real = complex_abs_square(a);
  expect_real("norm", [](C p) { return std::norm(p); });
  real = complex_sum_real_imag(a) + complex_toreal(a);
  expect_real("sum", [](C p) { return 2 * p.real() + p.imag(); });
}

TEST(MshadowComplexTest, NumbersAreThoseOfTheArithmetic) {
  for (const bool pad : {false, true}) {
    for (const index_t count : {0, 1, 2, 7, 33}) ExpectComplexNumbers<float>(count, pad, 1e-5);
  }
  ExpectComplexNumbers<double>(5, false, 1e-14);
  ExpectComplexNumbers<half::half_t>(5, true, 8e-2);
}

TEST(MshadowComplexTest, ShapesThatDoNotFitThrow) {
  Matrix a(2, 6), wider(2, 8), odd(2, 5), real(2, 3);
  EXPECT_THROW(complex_mul_cc(a, wider), dmlc::Error);
  EXPECT_THROW(complex_mul_cc(odd, odd), dmlc::Error);
  EXPECT_THROW(complex_mul_cr(a, wider), dmlc::Error);
  EXPECT_THROW(complex_div_rc(a, real), dmlc::Error);
  EXPECT_THROW(conj(odd), dmlc::Error);
  EXPECT_THROW(complex_abs_square(real), dmlc::Error);
  EXPECT_EQ(complex_div_rc(real, a).shape(), a.shape_);
  EXPECT_EQ(complex_pad_imag(real).shape(), a.shape_);
}

}  // namespace
