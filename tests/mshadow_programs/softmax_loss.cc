// Softmax and its gradients in matrices and in images, with labels to ignore and smoothed labels.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

template <int dim>
void Show(const char* name, const Tensor<cpu, dim>& t) {
  Tensor<cpu, 2> m = t.FlatTo2D();
  printf("%s:", name);
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.5f", m[i][j]);
  }
  printf("\n");
}

int main() {
  InitTensorEngine<cpu>();
  TensorContainer<cpu, 2> energy(Shape2(3, 4)), prob(Shape2(3, 4)), grad(Shape2(3, 4));
  TensorContainer<cpu, 1> label(Shape1(3));
  for (index_t i = 0; i < 3; ++i) {
    label[i] = static_cast<float>((i * 2 + 1) % 4);
    for (index_t j = 0; j < 4; ++j) energy[i][j] = sinf(1.0f + i * 4 + j) * 3.0f;
  }
  energy[1][2] = 90.0f;  // would overflow without the maximum taken out
  Softmax(prob, energy);
  Show("softmax", prob);
  SoftmaxGrad(grad, prob, label);
  Show("gradient", grad);
  SoftmaxGrad(grad, prob, label, 3.0f);
  Show("ignoring 3", grad);
  SmoothSoftmaxGrad(grad, prob, label, 0.1f);
  Show("smoothed", grad);

  TensorContainer<cpu, 1> one_energy(Shape1(4)), one(Shape1(4));
  for (index_t j = 0; j < 4; ++j) one_energy[j] = 0.5f * j;
  Softmax(one, one_energy);
  Show("vector", one);

  TensorContainer<cpu, 3> scores(Shape3(2, 3, 2)), image(Shape3(2, 3, 2)), gimage(Shape3(2, 3, 2));
  TensorContainer<cpu, 2> labels(Shape2(2, 2));
  for (index_t n = 0; n < 2; ++n) {
    for (index_t p = 0; p < 2; ++p) {
      labels[n][p] = static_cast<float>((n + p) % 3);
      for (index_t c = 0; c < 3; ++c) scores[n][c][p] = cosf(n * 6 + c * 2 + p);
    }
  }
  Softmax(image, scores);
  Show("image", image);
  SoftmaxGrad(gimage, image, labels);
  Show("image gradient", gimage);
  SoftmaxGrad(gimage, image, labels, 1.0f);
  Show("image ignoring 1", gimage);
  ShutdownTensorEngine<cpu>();
  return 0;
}
