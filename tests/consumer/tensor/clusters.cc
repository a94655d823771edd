// Softmax regression on three clusters of points, with nothing but tensors.
#include <cstdio>

#include "tessera/tensor/tensor.h"

using namespace tessera;  // NOLINT

struct IsHigh {  // any struct with a Map is an operation
  TESSERA_HD static float Map(float probability) { return probability > 0.5f ? 1.0f : 0.0f; }
};

int main() {
  const index_t n = 300, classes = 3;
  TensorContainer<cpu, 2> x(Shape2(n, 3)), p(Shape2(n, classes)), label(Shape2(n, classes), 0.0f);
  TensorContainer<cpu, 2> w(Shape2(3, classes), 0.0f), gradient(w.shape_);
  Random<cpu>(/*seed=*/1).SampleGaussian(&x, 0, 0.3);
  for (index_t i = 0; i < n; ++i) {
    label[i][i % classes] = 1.0f;
    if (i % classes < 2) x[i][i % classes] += 2.0f;  // the third cluster lies around the origin
    x[i][2] = 1.0f;
  }
  for (int step = 0; step < 200; ++step) {
    p = dot(x, w);  // the GEMM
    Softmax(p, p);
    p -= label;
    gradient = 1.0f / n * dot(x.T(), p);
    w -= 0.5f * (gradient + 1e-4f * w);  // one fused loop
  }
  p += label;
  const float right = ReduceAll<red::sum>(F<IsHigh>(p) * label);  // no temporary
  std::printf("%.0f of %d points are right\n", right, static_cast<int>(n));
}
