// Dropout and initialization: what random numbers are used for.
#include "mshadow/random.h"
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct threshold {
  MSHADOW_XINLINE static real_t Map(real_t a, real_t b) { return a < b ? 1.0f : 0.0f; }
};

template <typename xpu>
void Dropout(Random<xpu>& rnd) {
  const real_t pkeep = 0.75f;
  TensorContainer<xpu, 2> data(Shape2(200, 300), 2.0f), mask(data.shape_), out(data.shape_);
  TensorContainer<xpu, 2> grad(data.shape_, 1.0f);
  mask = F<threshold>(rnd.uniform(mask.shape_), pkeep) * (1.0f / pkeep);
  out = data * mask;
  grad *= mask;
  index_t kept = 0, dropped = 0, other = 0;
  bool consistent = true;
  for (index_t i = 0; i < out.size(0); ++i) {
    for (index_t j = 0; j < out.size(1); ++j) {
      if (mask[i][j] == 0.0f) {
        ++dropped;
      } else if (mask[i][j] == 1.0f / pkeep) {
        ++kept;
      } else {
        ++other;
      }
      consistent = consistent && out[i][j] == 2.0f * mask[i][j] && grad[i][j] == mask[i][j];
    }
  }
  const double share = static_cast<double>(kept) / (kept + dropped);
  printf("other values %d\n", static_cast<int>(other));
  printf("share of kept near 0.75: %d\n", share > 0.74 && share < 0.76 ? 1 : 0);
  printf("forward and backward agree: %d\n", consistent ? 1 : 0);
}

template <typename DType>
void Moments(const char* name) {
  Random<cpu, DType> rnd(17);
  Tensor<cpu, 2, DType> t = NewTensor<cpu>(Shape2(100, 501), DType(0));
  double sum = 0, squares = 0, low = 1e9, high = -1e9;
  const auto measure = [&] {
    sum = squares = 0;
    low = 1e9;
    high = -1e9;
    for (index_t i = 0; i < t.size(0); ++i) {
      for (index_t j = 0; j < t.size(1); ++j) {
        const double v = t[i][j];
        sum += v;
        squares += v * v;
        low = std::min(low, v);
        high = std::max(high, v);
      }
    }
    sum /= t.shape_.Size();
    squares = squares / t.shape_.Size() - sum * sum;
  };
  rnd.SampleGaussian(&t, 1, 0.5f);
  measure();
  printf("%s gaussian mean %d deviation %d\n", name, fabs(sum - 1) < 0.01 ? 1 : 0,
         fabs(sqrt(squares) - 0.5) < 0.01 ? 1 : 0);
  rnd.SampleUniform(&t, -2, 3);
  measure();
  printf("%s uniform mean %d variance %d range %d\n", name, fabs(sum - 0.5) < 0.03 ? 1 : 0,
         fabs(squares - 25.0 / 12) < 0.05 ? 1 : 0, low >= -2 && high < 3 ? 1 : 0);
  t = rnd.gaussian(t.shape_) * DType(2) + rnd.uniform(t.shape_);
  measure();
  printf("%s expression mean %d variance %d\n", name, fabs(sum - 0.5) < 0.03 ? 1 : 0,
         fabs(squares - 4 - 1.0 / 12) < 0.1 ? 1 : 0);
  rnd.SampleGaussian(&t, 3, 0);
  measure();
  printf("%s no deviation %.1f %.1f\n", name, low, high);
  FreeSpace(&t);
}

int main() {
  InitTensorEngine<cpu>();
  {
    Random<cpu> rnd(0);
    Dropout(rnd);
    TensorContainer<cpu, 1> a(Shape1(10)), b(Shape1(10));
    rnd.Seed(5);
    rnd.SampleUniform(a);
    rnd.Seed(5);
    rnd.SampleUniform(&b);
    bool same = true, differs = false;
    for (index_t i = 0; i < 10; ++i) same = same && a[i] == b[i];
    rnd.SampleUniform(&b);
    for (index_t i = 0; i < 10; ++i) differs = differs || a[i] != b[i];
    printf("seeds repeat %d, then go on %d, seed %u\n", same ? 1 : 0, differs ? 1 : 0,
           rnd.GetSeed());
  }
  Moments<float>("float");
  Moments<double>("double");
  ShutdownTensorEngine<cpu>();
  return 0;
}
