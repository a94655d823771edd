// Products: scaled and accumulated, vectors, batches, lazy products, and inner products.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

template <typename DType>
void Fill(Tensor<cpu, 2, DType> m, double step) {
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) m[i][j] = DType(sin(step * (i * m.size(1) + j + 1)));
  }
}

template <typename DType>
void Show(const char* name, const Tensor<cpu, 2, DType>& m) {
  printf("%s:", name);
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.4f", static_cast<double>(m[i][j]));
  }
  printf("\n");
}

template <typename DType>
void Run() {
  TensorContainer<cpu, 2, DType> a(Shape2(3, 4)), b(Shape2(4, 2)), c(Shape2(3, 2));
  TensorContainer<cpu, 2, DType> at(Shape2(4, 3)), bt(Shape2(2, 4));
  Fill<DType>(a, 0.3);
  Fill<DType>(b, 0.7);
  at = a.T();
  bt = b.T();
  c = dot(a, b);
  Show<DType>("plain", c);
  c += DType(0.5) * dot(at.T(), b);
  Show<DType>("left", c);
  c -= dot(a, bt.T()) * DType(2);
  Show<DType>("right", c);
  c = dot(at.T(), bt.T());
  Show<DType>("both", c);
  c = implicit_dot(a, b) * DType(2) + c;
  Show<DType>("lazy", c);

  TensorContainer<cpu, 1, DType> v(Shape1(3)), w(Shape1(4));
  v = DType(1);
  v[1] = DType(-2);
  w = dot(v, a);
  Show<DType>("vector", w.FlatTo2D());
  v += dot(w, a.T());
  Show<DType>("vector back", v.FlatTo2D());
  a = dot(v.T(), w);
  Show<DType>("outer", a);

  TensorContainer<cpu, 1, DType> inner(Shape1(1));
  TensorContainer<cpu, 1, DType> x(Shape1(5)), y(Shape1(5));
  for (index_t i = 0; i < 5; ++i) {
    x[i] = DType(i + 1);
    y[i] = DType(2 - i);
  }
  VectorDot(inner, x, y);
  printf("inner %.1f\n", static_cast<double>(inner[0]));

  TensorContainer<cpu, 3, DType> left(Shape3(2, 3, 4)), right(Shape3(2, 4, 2)),
      out(Shape3(2, 3, 2));
  TensorContainer<cpu, 3, DType> turned(Shape3(2, 2, 4));
  Fill<DType>(left.FlatTo2D(), 0.2);
  Fill<DType>(right.FlatTo2D(), 0.9);
  TensorContainer<cpu, 1, DType*> workspace(Shape1(6));
  BatchGEMM<false, false>(out, left, right, DType(1), DType(0), workspace);
  Show<DType>("batch", out.FlatTo2D());
  turned = swapaxis<2, 1>(right);
  BatchGEMM<false, true>(out, left, turned, DType(2), DType(-1), workspace);
  Show<DType>("batch again", out.FlatTo2D());
}

int main() {
  InitTensorEngine<cpu>();
  Run<float>();
  Run<double>();
  ShutdownTensorEngine<cpu>();
  return 0;
}
