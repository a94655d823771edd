// A first program in the manner of 2014: tensors over memory that exists, handles, element-wise
// arithmetic.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

void Print(const char* name, const Tensor<cpu, 2>& m) {
  printf("%s %u x %u\n", name, static_cast<unsigned>(m.size(0)), static_cast<unsigned>(m.size(1)));
  for (index_t i = 0; i < m.size(0); ++i) {
    for (index_t j = 0; j < m.size(1); ++j) {
      printf("%.4f ", m[i][j]);
    }
    printf("\n");
  }
}

int main(void) {
  InitTensorEngine();
  // a tensor of 2 x 5 x 2 over an array of the program's own
  float data[20];
  Tensor<cpu, 3> ts(data, Shape3(2, 5, 2));
  Tensor<cpu, 2> mat = ts[0];
  Tensor<cpu, 2, float> same = mat;  // another handle on the same elements
  ts = 0.0f;
  mat[0][1] = 1.0f;
  mat[1][0] = 2;
  mat += (mat + 10.0f) / 10.0f + 2.0f;
  Print("handle", same);

  ts[1] = 1.0f - 2.0f * mat;
  ts[1] *= 0.5;
  ts[1] /= 4.0f;
  ts[1] -= mat;
  Print("second", ts[1]);
  Print("flat", ts.FlatTo2D());

  Tensor<cpu, 1> row = mat[1];
  row = 7.0f;
  printf("element %.1f %.1f\n", data[2], data[3]);

  Tensor<cpu, 2> middle = mat.Slice(1, 3);
  middle = middle * middle - 1.0f;
  Print("slice", mat);
  printf("sizes %d %d %d %d\n", static_cast<int>(ts.MSize()), static_cast<int>(ts.MemSize<1>()),
         static_cast<int>(ts.shape_.Size()), static_cast<int>(mat.shape_.ProdShape(0, 2)));
  printf("contiguous %d stride %d\n", ts.CheckContiguous() ? 1 : 0, static_cast<int>(mat.stride_));
  std::cout << ts.shape_ << ' ' << row.shape_ << ' ' << ts.shape_.SubShape() << ' '
            << ts.shape_.FlatTo2D() << std::endl;

  Tensor<cpu, 2, float> lhs = NewTensor<cpu, float>(Shape2(2, 3), 1.5f);
  Tensor<cpu, 2, float> rhs = NewTensor<cpu, float>(Shape2(2, 3), 0);
  rhs = -lhs;
  rhs[0][2] = 4.0f;
  Tensor<cpu, 2, float> out(Shape2(2, 3));
  AllocSpace(&out);
  out = 2.0f * lhs - rhs / lhs + (1.0f + rhs) * (rhs - 1);
  Print("out", out);
  FreeSpace(&lhs);
  FreeSpace(&rhs);
  FreeSpace(&out);
  ShutdownTensorEngine();
  return 0;
}
