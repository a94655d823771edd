// The same as clusters.cc in the words of mshadow.
#include <mshadow/tensor.h>

using namespace mshadow;
using namespace mshadow::expr;

struct is_high {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a > 0.5f ? 1.0f : 0.0f; }
};

int main(void) {
  InitTensorEngine<cpu>();
  const index_t n = 300, classes = 3;
  TensorContainer<cpu, 2> x(Shape2(n, 3)), p(Shape2(n, classes)), label(Shape2(n, classes), 0.0f);
  TensorContainer<cpu, 2> w(Shape2(3, classes), 0.0f), gradient(w.shape_);
  TensorContainer<cpu, 1> right(Shape1(classes));
  Random<cpu, real_t> rnd(1);
  rnd.SampleGaussian(&x, 0, 0.3f);
  for (index_t i = 0; i < n; ++i) {
    label[i][i % classes] = 1.0f;
    if (i % classes < 2) x[i][i % classes] += 2.0f;
    x[i][2] = 1.0f;
  }
  for (int step = 0; step < 200; ++step) {
    p = dot(x, w);
    Softmax(p, p);
    p -= label;
    gradient = dot(x.T(), p);
    w -= 0.5f * (gradient * (1.0f / n) + 0.0001f * w);
  }
  p += label;
  right = sum_rows(F<is_high>(p) * label);
  printf("%.0f of %d points are right\n", right[0] + right[1] + right[2], static_cast<int>(n));
  ShutdownTensorEngine<cpu>();
  return 0;
}
