// User-defined operations: unary, binary and ternary, for one type or for any.
#include <mshadow/tensor.h>

#include <cmath>

using namespace mshadow;
using namespace mshadow::expr;

struct addone {
  MSHADOW_XINLINE static real_t Map(real_t a) { return a + 1.0f; }
};
struct sigmoid {
  MSHADOW_XINLINE static float Map(float a) { return 1.0f / (1.0f + expf(-a)); }
};
struct sigmoid_grad {
  MSHADOW_XINLINE static float Map(float a) { return a * (1.0f - a); }
};
struct maxoftwo {
  MSHADOW_XINLINE static float Map(float a, float b) {
    if (a > b) return a;
    return b;
  }
};
template <typename DType>
struct clipped_sum {
  MSHADOW_XINLINE static DType Map(DType a, DType b) {
    const DType sum = a + b;
    return sum > DType(1) ? DType(1) : sum;
  }
};
struct square {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a) {
    return a * a;
  }
};
struct blend {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType mask, DType a, DType b) {
    return mask > DType(0) ? a : b;
  }
};

namespace op {
struct power {
  MSHADOW_XINLINE static double Map(double a, double b) { return std::pow(a, b); }
};
}  // namespace op

template <int dim, typename DType>
void Show(const char* name, const Tensor<cpu, dim, DType>& t) {
  Tensor<cpu, 2, DType> m = t.FlatTo2D();
  printf("%s:", name);
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.5f", static_cast<double>(m[i][j]));
  }
  printf("\n");
}

int main(void) {
  InitTensorEngine<cpu>();
  TensorContainer<cpu, 2> mat(Shape2(2, 3)), other(Shape2(2, 3)), mask(Shape2(2, 3));
  for (index_t i = 0; i < 2; ++i) {
    for (index_t j = 0; j < 3; ++j) {
      mat[i][j] = 0.5f * i - 0.25f * j;
      other[i][j] = 0.1f * (i + 1) * j;
      mask[i][j] = (i + j) % 2 == 0 ? 1.0f : -1.0f;
    }
  }
  TensorContainer<cpu, 2> out(Shape2(2, 3), 0.0f);
  out = F<addone>(mat);
  Show("addone", out);
  out = F<maxoftwo>(mat, F<addone>(other)) - 0.5f;
  Show("max", out);
  out = F<maxoftwo>(mat, 0.0f);
  Show("relu", out);
  out = F<maxoftwo>(0.1f, mat) * F<sigmoid>(other);
  Show("scalar left", out);
  out = F<sigmoid_grad>(F<sigmoid>(mat)) + F<square>(mat - other);
  Show("nested", out);
  out = F<clipped_sum<float> >(mat + 1.0f, other);
  Show("clipped", out);
  out = F<blend>(mask, mat, other);
  Show("blend", out);
  out += F<square>(out) / 2.0f;
  Show("accumulated", out);

  TensorContainer<cpu, 1, double> x(Shape1(4)), y(Shape1(4));
  for (index_t i = 0; i < 4; ++i) x[i] = 1.0 + i;
  y = F< ::op::power>(x, 0.5);
  Show("power", y);
  y = F< ::op::power>(2.0, x) / F<square>(x);
  Show("power of two", y);

  TensorContainer<cpu, 2, int> n(Shape2(2, 2), 5), m(Shape2(2, 2), 3);
  n = F<square>(n - m) + n * 2;
  Show("integers", n);
  ShutdownTensorEngine<cpu>();
  return 0;
}
