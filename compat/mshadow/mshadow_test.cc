// Programs in the manner of mshadow's guide, which know nothing of Tessera.
#include <gtest/gtest.h>

#include "mshadow/tensor.h"

namespace {

using namespace mshadow;        // NOLINT: what such programs do
using namespace mshadow::expr;  // NOLINT

struct addone {
  MSHADOW_XINLINE static float Map(float a) { return a + 1.0f; }
};
struct maxoftwo {
  MSHADOW_XINLINE static float Map(float a, float b) { return a > b ? a : b; }
};

TEST(MshadowTest, BasicProgramPrintsWhatTheArithmeticSays) {
  InitTensorEngine<cpu>();
  Tensor<cpu, 2, float> mat = NewTensor<cpu, float>(Shape2(2, 3), 0.0f);
  TensorContainer<cpu, 2, float> lhs(Shape2(2, 3), 1.0f);
  TensorContainer<cpu, 2, float> rhs(Shape2(2, 3));
  rhs = 4.0f;
  mat = (lhs + 2.0f * rhs) / 2.0f + lhs;
  mat = F<addone>(mat);
  mat = F<maxoftwo>(mat, rhs * 2.0f);
  for (index_t i = 0; i < mat.size(0); ++i) {
    for (index_t j = 0; j < mat.size(1); ++j) EXPECT_EQ(mat[i][j], 8.0f);
  }
  mat += lhs;
  EXPECT_EQ(mat[1][2], 9.0f);
  FreeSpace(&mat);
  ShutdownTensorEngine<cpu>();
}

TEST(MshadowTest, ALinearLayerTrains) {
  // out = in * W + b, one step of gradient descent on the squared error.
  TensorContainer<cpu, 2, real_t> in(Shape2(4, 3)), weight(Shape2(3, 2), 0.5f), out(Shape2(4, 2));
  TensorContainer<cpu, 2, real_t> grad(Shape2(4, 2)), weight_grad(Shape2(3, 2));
  TensorContainer<cpu, 1, real_t> bias(Shape1(2), 0.0f), bias_grad(Shape1(2));
  for (index_t i = 0; i < 4; ++i) {
    for (index_t j = 0; j < 3; ++j) in[i][j] = static_cast<real_t>(i - j);
  }
  const auto loss = [&] {
    out = dot(in, weight);
    out += repmat(bias, 4);
    grad = out - 1.0f;
    real_t sum = 0;
    for (index_t i = 0; i < 4; ++i) sum += grad[i][0] * grad[i][0] + grad[i][1] * grad[i][1];
    return sum;
  };
  const real_t before = loss();
  weight_grad = dot(in.T(), grad);
  bias_grad = sum_rows(grad);
  weight -= 0.01f * weight_grad;
  bias -= 0.01f * bias_grad;
  EXPECT_LT(loss(), before);
}

}  // namespace
