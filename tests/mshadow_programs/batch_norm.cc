// Batch normalization of images and its gradient, with per-channel sums and broadcasts.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct square {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a * a; }
};
struct square_root {
  MSHADOW_XINLINE static real_t Map(real_t a, real_t eps) { return sqrtf(a + eps); }
};
struct power {
  MSHADOW_XINLINE static real_t Map(real_t a, real_t b) { return powf(a, b); }
};

template <typename xpu>
void BatchNorm(Stream<xpu>* s) {
  const real_t eps = 1e-3f;
  Tensor<xpu, 4> data = NewTensor<xpu>(Shape4(2, 3, 4, 5), 0.0f, true, s);
  Tensor<xpu, 4> grad = NewTensor<xpu>(data.shape_, 0.0f, true, s);
  Tensor<xpu, 4> out = NewTensor<xpu>(data.shape_, 0.0f, true, s);
  Tensor<xpu, 4> gdata = NewTensor<xpu>(data.shape_, 0.0f, true, s);
  for (index_t n = 0; n < 2; ++n) {
    for (index_t c = 0; c < 3; ++c) {
      for (index_t y = 0; y < 4; ++y) {
        for (index_t x = 0; x < 5; ++x) {
          data[n][c][y][x] = sinf(1.0f + n * 60 + c * 20 + y * 5 + x) * (c + 1) + 0.5f * c;
          grad[n][c][y][x] = cosf(0.5f * (n * 60 + c * 20 + y * 5 + x));
        }
      }
    }
  }
  TensorContainer<xpu, 1> mean(Shape1(3)), var(Shape1(3)), slope(Shape1(3), 1.5f);
  TensorContainer<xpu, 1> bias(Shape1(3), 0.25f), gslope(Shape1(3)), gbias(Shape1(3));
  TensorContainer<xpu, 1> gmean(Shape1(3)), gvar(Shape1(3)), tmp(Shape1(3));
  const real_t scale = 1.0f / (data.size(0) * data.size(2) * data.size(3));
  mean = scale * sumall_except_dim<1>(data);
  var = scale * sumall_except_dim<1>(F<square>(data - broadcast<1>(mean, data.shape_)));
  out = (data - broadcast<1>(mean, data.shape_)) /
            F<square_root>(broadcast<1>(var, data.shape_), eps) * broadcast<1>(slope, data.shape_) +
        broadcast<1>(bias, data.shape_);
  printf("mean %.5f %.5f %.5f\n", mean[0], mean[1], mean[2]);
  printf("var %.5f %.5f %.5f\n", var[0], var[1], var[2]);
  printf("out %.5f %.5f %.5f\n", out[0][0][0][0], out[1][1][3][4], out[1][2][2][1]);

  gvar = sumall_except_dim<1>((grad * broadcast<1>(slope, data.shape_)) *
                              (data - broadcast<1>(mean, data.shape_)) * -0.5f *
                              F<power>(broadcast<1>(var + eps, data.shape_), -1.5f));
  gmean = sumall_except_dim<1>(grad * broadcast<1>(slope, data.shape_));
  gmean *= -1.0f / F<square_root>(var, eps);
  tmp = scale * sumall_except_dim<1>(-2.0f * (data - broadcast<1>(mean, data.shape_)));
  tmp *= gvar;
  gmean += tmp;
  gslope = sumall_except_dim<1>(grad * (data - broadcast<1>(mean, data.shape_)) /
                                F<square_root>(broadcast<1>(var, data.shape_), eps));
  gbias = sumall_except_dim<1>(grad);
  gdata =
      (grad * broadcast<1>(slope, data.shape_)) *
          broadcast<1>(1.0f / F<square_root>(var, eps), data.shape_) +
      broadcast<1>(gvar, data.shape_) * scale * 2.0f * (data - broadcast<1>(mean, data.shape_)) +
      broadcast<1>(gmean, data.shape_) * scale;
  printf("gslope %.4f %.4f %.4f\n", gslope[0], gslope[1], gslope[2]);
  printf("gbias %.4f %.4f %.4f\n", gbias[0], gbias[1], gbias[2]);
  printf("gdata %.5f %.5f %.5f\n", gdata[0][0][0][0], gdata[1][1][3][4], gdata[1][2][2][1]);
  TensorContainer<xpu, 1> zero(Shape1(3));
  zero = sumall_except_dim<1>(gdata);
  printf("sums to zero %d\n", fabsf(zero[0]) + fabsf(zero[1]) + fabsf(zero[2]) < 1e-3f ? 1 : 0);
  FreeSpace(&data);
  FreeSpace(&grad);
  FreeSpace(&out);
  FreeSpace(&gdata);
}

int main() {
  InitTensorEngine<cpu>();
  Stream<cpu>* s = NewStream<cpu>(false, false);
  BatchNorm<cpu>(s);
  DeleteStream(s);
  ShutdownTensorEngine<cpu>();
  return 0;
}
