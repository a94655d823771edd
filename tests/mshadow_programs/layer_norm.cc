// Layer normalization over one axis or another, with its gradient, trained towards a pattern. What
// is reduced keeps its axis, with extent 1, and is stretched along it again.
#include "mshadow/extension/broadcast_with_axis.h"
#include "mshadow/extension/reduce_with_axis.h"
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct square {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a * a; }
};
struct deviation {
  MSHADOW_XINLINE static real_t Map(real_t variance, real_t eps) { return sqrtf(variance + eps); }
};

template <typename xpu>
class LayerNorm {
 public:
  LayerNorm(const Shape<3>& shape, int axis)
      : shape_(shape),
        axis_(axis),
        extent_(shape[axis]),
        scale_(1.0f / extent_),
        a_((axis + 1) % 3),
        b_((axis + 2) % 3) {
    Shape<3> kept = shape, along = Shape3(1, 1, 1);
    kept[axis] = 1;
    along[axis] = extent_;
    normal.Resize(shape);
    mean.Resize(kept);
    dev.Resize(kept);
    gain.Resize(along, 1.0f);
    bias.Resize(along, 0.0f);
    ggain.Resize(along);
    gbias.Resize(along);
  }
  void Forward(const Tensor<xpu, 3>& x, Tensor<xpu, 3> y) {
    mean = scale_ * reduce_keepdim<red::sum, false>(x, axis_);
    normal = x - broadcast_keepdim(mean, axis_, extent_);
    dev = F<deviation>(scale_ * reduce_keepdim<red::sum, false>(F<square>(normal), axis_), 0.1f);
    normal /= broadcast_keepdim(dev, axis_, extent_);
    // gain and bias lack the two other axes
    y = normal * broadcast_keepdim(broadcast_keepdim(gain, a_, shape_[a_]), b_, shape_[b_]) +
        broadcast_keepdim(broadcast_keepdim(bias, a_, shape_[a_]), b_, shape_[b_]);
  }
  // turns the gradient of y into that of x
  void Backprop(Tensor<xpu, 3> grad) {
    ggain = reduce_keepdim<red::sum, false>(reduce_keepdim<red::sum, false>(grad * normal, a_), b_);
    gbias = reduce_keepdim<red::sum, false>(reduce_keepdim<red::sum, false>(grad, a_), b_);
    grad *= broadcast_keepdim(broadcast_keepdim(gain, a_, shape_[a_]), b_, shape_[b_]);
    TensorContainer<xpu, 3> slope(mean.shape_);
    mean = scale_ * reduce_keepdim<red::sum, false>(grad, axis_);
    slope = scale_ * reduce_keepdim<red::sum, false>(grad * normal, axis_);
    grad -=
        broadcast_keepdim(mean, axis_, extent_) + normal * broadcast_keepdim(slope, axis_, extent_);
    grad /= broadcast_keepdim(dev, axis_, extent_);
  }
  void Update(real_t eta) {
    gain -= eta * ggain;
    bias -= eta * gbias;
  }
  TensorContainer<xpu, 3> normal, mean, dev, gain, bias, ggain, gbias;

 private:
  Shape<3> shape_;
  int axis_;
  index_t extent_;
  real_t scale_;
  int a_, b_;
};

template <int dim>
void Show(const char* name, const Tensor<cpu, dim>& t) {
  Tensor<cpu, 2> m = t.FlatTo2D();
  std::cout << name << ' ' << t.shape_;
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.5f", m[i][j]);
  }
  printf("\n");
}

int main() {
  InitTensorEngine<cpu>();
  TensorContainer<cpu, 3> data(Shape3(2, 3, 4)), target(data.shape_), y(data.shape_);
  for (index_t n = 0; n < 2; ++n) {
    for (index_t i = 0; i < 3; ++i) {
      for (index_t j = 0; j < 4; ++j) {
        data[n][i][j] = sinf(1.0f + 12 * n + 4 * i + j) + 0.5f * i;
        target[n][i][j] = 0.4f * n - 0.3f * i + 0.2f * j;
      }
    }
  }
  for (int axis = 0; axis < 3; ++axis) {
    printf("axis %d\n", axis);
    LayerNorm<cpu> layer(data.shape_, axis);
    TensorContainer<cpu, 3> x(data.shape_), grad(data.shape_);
    Copy(x, data);
    for (int step = 0; step < 5; ++step) {
      layer.Forward(x, y);
      grad = y - target;
      real_t loss = 0.0f;
      for (index_t i = 0; i < grad.MSize(); ++i) loss += 0.5f * grad.dptr_[i] * grad.dptr_[i];
      printf("step %d loss %.5f\n", step, loss);
      layer.Backprop(grad);
      if (step == 0) {
        Show("deviations", layer.dev);
        Show("gradient", grad);
      }
      layer.Update(0.03f);
      x -= 0.03f * grad;
    }
    Show("gain", layer.gain);
    Show("bias", layer.bias);
  }
  ShutdownTensorEngine<cpu>();
  return 0;
}
