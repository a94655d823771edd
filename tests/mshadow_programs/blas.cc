// The BLAS by hand, as layers called it where dot would not do: matrices by columns, leading
// dimensions, increments. By columns a row-major tensor is its transpose.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

template <typename DType>
void Fill(Tensor<cpu, 2, DType> t, double start) {
  for (index_t i = 0; i < t.size(0); ++i) {
    for (index_t j = 0; j < t.size(1); ++j) {
      t[i][j] = static_cast<DType>(sin(start + 1.7 * i + 0.6 * j));
    }
  }
}

template <typename DType>
void Show(const char *name, const Tensor<cpu, 2, DType> &t) {
  printf("%s:", name);
  for (index_t i = 0; i < t.size(0); ++i) {
    for (index_t j = 0; j < t.size(1); ++j) printf(" %.5f", static_cast<double>(t[i][j]));
  }
  printf("\n");
}

template <typename xpu, typename DType>
void Run(Stream<xpu> *stream) {
  BLASEngine<xpu, DType>::SetStream(stream);
  const int m = 3, n = 4, k = 2;
  // padded, so that leading dimensions matter
  Tensor<xpu, 2, DType> c = NewTensor<xpu>(Shape2(m, n), DType(0), true, stream);
  for (int form = 0; form < 4; ++form) {
    const bool ta = form & 1, tb = form & 2;
    Tensor<xpu, 2, DType> a =
        NewTensor<xpu>(ta ? Shape2(k, m) : Shape2(m, k), DType(0), true, stream);
    Tensor<xpu, 2, DType> b =
        NewTensor<xpu>(tb ? Shape2(n, k) : Shape2(k, n), DType(0), true, stream);
    Fill(a, 0.2 + form);
    Fill(b, 0.9 - form);
    Fill(c, 0.5);
    // c = alpha op(a) op(b) + beta c by rows is c' = alpha op(b)' op(a)' + beta c' by columns
    BLASEngine<xpu, DType>::gemm(stream, tb, ta, n, m, k, DType(0.5), b.dptr_,
                                 static_cast<int>(b.stride_), a.dptr_, static_cast<int>(a.stride_),
                                 DType(form * 0.5), c.dptr_, static_cast<int>(c.stride_));
    Show("gemm", c);
    FreeSpace(&a);
    FreeSpace(&b);
  }

  // by columns c is n by m
  TensorContainer<xpu, 2, DType> x(Shape2(n, 2)), y(Shape2(m, 3));
  Fill<DType>(x, 0.1);
  Fill<DType>(y, 0.4);
  BLASEngine<xpu, DType>::gemv(stream, true, n, m, DType(2), c.dptr_, static_cast<int>(c.stride_),
                               x.dptr_, 2, DType(-1), y.dptr_, 3);
  Show<DType>("gemv", y);
  BLASEngine<xpu, DType>::gemv(stream, false, n, m, DType(1), c.dptr_, static_cast<int>(c.stride_),
                               y.dptr_ + 1, 3, DType(0), x.dptr_ + 1, 2);
  Show<DType>("gemv", x);
  BLASEngine<xpu, DType>::gemv(stream, false, n, m, DType(1), c.dptr_, static_cast<int>(c.stride_),
                               y.dptr_, -3, DType(0.5), x.dptr_, -2);
  Show<DType>("backwards", x);
  BLASEngine<xpu, DType>::ger(stream, n, m, DType(-0.5), x.dptr_, 2, y.dptr_, 3, c.dptr_,
                              static_cast<int>(c.stride_));
  Show("ger", c);
  DType inner;
  BLASEngine<xpu, DType>::dot(stream, m, c.dptr_, static_cast<int>(c.stride_), y.dptr_ + 2, 3,
                              &inner);
  printf("dot: %.5f\n", static_cast<double>(inner));
  FreeSpace(&c);

  const int batch = 3;
  TensorContainer<xpu, 3, DType> left(Shape3(batch, m, k)), right(Shape3(batch, k, n)),
      product(Shape3(batch, m, n));
  Fill(left.FlatTo2D(), 0.3);
  Fill(right.FlatTo2D(), 0.7);
  Fill(product.FlatTo2D(), 1.1);
  BLASEngine<xpu, DType>::batched_gemm(stream, false, false, n, m, k, DType(1), right.dptr_, n,
                                       left.dptr_, k, DType(1), product.dptr_, n, batch, NULL);
  Show("batched gemm", product.FlatTo2D());
  TensorContainer<xpu, 2, DType> xs(Shape2(batch, n)), ys(Shape2(batch, m));
  Fill<DType>(xs, 0.8);
  Fill<DType>(ys, 0.6);
  BLASEngine<xpu, DType>::batched_gemv(stream, true, n, m, DType(1), product.dptr_, n, xs.dptr_, 1,
                                       DType(0), ys.dptr_, 1, batch);
  Show<DType>("batched gemv", ys);
  BLASEngine<xpu, DType>::batched_ger(stream, n, m, DType(0.1), xs.dptr_, 1, ys.dptr_, 1,
                                      product.dptr_, n, batch);
  Show("batched ger", product.FlatTo2D());
}

int main() {
  InitTensorEngine<cpu>();
  Stream<cpu> *stream = NewStream<cpu>(true, false);
  Run<cpu, float>(stream);
  Run<cpu, double>(stream);
  DeleteStream(stream);
  ShutdownTensorEngine<cpu>();
  return 0;
}
