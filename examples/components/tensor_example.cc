// Fused tensor expressions: one pass over memory, packets and threads, no temporaries.
#include <cmath>
#include <cstdio>

#include "tessera/tensor/tensor.h"

using namespace tessera;  // NOLINT

struct Swish {  // any struct with a Map is an operation
  TESSERA_HD static float Map(float x) { return x / (1.0f + std::exp(-x)); }
};

int main() {
  TensorContainer<cpu, 2> x(Shape2(4, 3), 1.0f), w(Shape2(2, 3), 0.5f), y(Shape2(4, 2));
  TensorContainer<cpu, 1> bias(Shape1(2), 0.25f);
  y = dot(x, w.T());                                 // the GEMM
  y = F<Swish>(y + repmat(bias, y.size(0))) * 2.0f;  // one fused loop
  const float total = ReduceAll<red::sum>(y * y);    // no temporary of y's size
  std::printf("%.4f\n", total);
  try {
    y = x * 2.0f - w;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
}
