// A program of mshadow's, as it was written for mshadow.
#include <cstdio>

#include "mshadow/tensor.h"

using namespace mshadow;        // NOLINT
using namespace mshadow::expr;  // NOLINT

struct square {
  MSHADOW_XINLINE static float Map(float a) { return a * a; }
};

int main() {
  InitTensorEngine<cpu>();
  Tensor<cpu, 2> weight = NewTensor<cpu>(Shape2(2, 3), 0.5f);
  Tensor<cpu, 2> data = NewTensor<cpu>(Shape2(4, 3), 2.0f);
  Tensor<cpu, 2> out = NewTensor<cpu>(Shape2(4, 2), 1.0f);
  out += 0.5f * dot(data, weight.T());
  out = F<square>(out) - 1.0f;
  printf("%g, stride %d\n", out[3][1], static_cast<int>(out.stride_));
  FreeSpace(&weight);
  FreeSpace(&data);
  FreeSpace(&out);
  ShutdownTensorEngine<cpu>();
}
