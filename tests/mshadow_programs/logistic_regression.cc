// Logistic regression in the style of the first release: macros for checks, plain functions, the
// error of each step by hand.
#include "mshadow/tensor.h"
#include "mshadow/utils.h"

using namespace mshadow;
using namespace mshadow::expr;
using namespace mshadow::utils;

namespace mshadow {
namespace op {
// operators that a program adds beside mshadow's own
struct sigmoid {
  MSHADOW_XINLINE static real_t Map(real_t a) { return 1.0f / (1.0f + expf(-a)); }
};
}  // namespace op
}  // namespace mshadow

static float sum(const Tensor<cpu, 1, real_t>& v) {
  float total = 0.0f;
  for (index_t i = 0; i < v.size(0); ++i) total += v[i];
  return total;
}

int main() {
  InitTensorEngine();
  const index_t n = 8, dim = 3;
  TensorContainer<cpu, 2> x(Shape2(n, dim));
  TensorContainer<cpu, 1> y(Shape1(n)), p(Shape1(n)), w(Shape1(dim)), g(Shape1(dim));
  for (index_t i = 0; i < n; ++i) {
    x[i][0] = 1.0f;
    x[i][1] = sinf(static_cast<float>(i));
    x[i][2] = cosf(2.0f * i);
    y[i] = x[i][1] + 0.5f * x[i][2] > 0.2f ? 1.0f : 0.0f;
  }
  w = 0.0f;
  for (int step = 0; step < 50; ++step) {
    p = dot(w, x.T());
    p = F<op::sigmoid>(p);
    p -= y;
    g = dot(p, x);
    w -= 0.5f * g / static_cast<float>(n);
    if (step % 10 == 9) {
      p = p * p;
      printf("step %d error %.5f\n", step, sum(p));
    }
  }
  printf("weights %.4f %.4f %.4f\n", w[0], w[1], w[2]);
  Check(w.size(0) == dim, "weights have %d elements", static_cast<int>(w.size(0)));
  Assert(w[1] > 0.0f, "the first feature counts");
  try {
    Check(w.size(0) == 4, "%d elements, expected %d", static_cast<int>(w.size(0)), 4);
  } catch (const std::exception& e) {
    printf("%s\n", e.what());
  }
  CHECK_EQ(w.size(0), dim) << "no message";
  CHECK(w[1] > 0.0f);
  try {
    CHECK_LT(w.size(0), 2) << "as it must";
    printf("not reached\n");
  } catch (const dmlc::Error&) {
    printf("check failed\n");
  }
  ShutdownTensorEngine();
  return 0;
}
