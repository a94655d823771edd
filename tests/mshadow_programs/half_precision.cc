// Weights in half precision with a master copy in float, and bfloat16 beside it.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

struct relu {
  template <typename DType>
  MSHADOW_XINLINE static DType Map(DType a) {
    return DType(a > DType(0.0f) ? a : DType(0.0f));
  }
};

template <typename DType>
void Run(const char* name) {
  TensorContainer<cpu, 2> master(Shape2(4, 3)), grad(Shape2(4, 3));
  for (index_t i = 0; i < 4; ++i) {
    for (index_t j = 0; j < 3; ++j) {
      master[i][j] = 0.25f * i - 0.5f * j;
      grad[i][j] = 0.125f * (i + j);
    }
  }
  TensorContainer<cpu, 2, DType> weight(master.shape_), input(Shape2(2, 4)), out(Shape2(2, 3));
  weight = tcast<DType>(master);
  for (index_t i = 0; i < 2; ++i) {
    for (index_t j = 0; j < 4; ++j) input[i][j] = DType(0.5f * j - i);
  }
  out = dot(input, weight);
  out = F<relu>(out) * DType(2.0f) + 0.5f;
  printf("%s out", name);
  for (index_t i = 0; i < 2; ++i) {
    for (index_t j = 0; j < 3; ++j) printf(" %.3f", static_cast<float>(out[i][j]));
  }
  printf("\n");
  master -= 0.1f * grad;
  weight = tcast<DType>(master);
  TensorContainer<cpu, 2> difference(master.shape_);
  difference = master - tcast<float>(weight);
  float worst = 0;
  for (index_t i = 0; i < 4; ++i) {
    for (index_t j = 0; j < 3; ++j) worst = std::max(worst, fabsf(difference[i][j]));
  }
  printf("%s rounding below %d/1000\n", name, sizeof(DType) == 2 && worst < 0.001f ? 1 : 4);
  TensorContainer<cpu, 1, DType> sums(Shape1(3));
  sums = sum_rows(weight);
  printf("%s sums %.2f %.2f %.2f\n", name, static_cast<float>(sums[0]), static_cast<float>(sums[1]),
         static_cast<float>(sums[2]));
}

int main() {
  InitTensorEngine<cpu>();
  half::half_t a(1.5f), b = half::half_t(2);
  half::half_t c = a * b + half::half_t(0.25f);
  c += a;
  const float f = c;
  printf("half %.3f %d %d flag %d size %d\n", f, a < b ? 1 : 0, a == half::half_t(1.5f) ? 1 : 0,
         DataType<half::half_t>::kFlag, static_cast<int>(sizeof(half::half_t)));
  printf("limits %.0f %.0f\n", static_cast<float>(red::limits::MinValue<half::half_t>()),
         static_cast<float>(red::limits::MaxValue<half::half_t>()));
  Run<half::half_t>("half");
  Run<bfloat::bf16_t>("bf16");
  TensorContainer<cpu, 1, int> whole(Shape1(3));
  TensorContainer<cpu, 1, uint8_t> bytes(Shape1(3));
  TensorContainer<cpu, 1> real(Shape1(3));
  real[0] = 1.75f;
  real[1] = -2.5f;
  real[2] = 200.0f;
  whole = tcast<int>(real);
  bytes = tcast<uint8_t>(real + 3.0f);
  printf("converted %d %d %d %d %d %d\n", whole[0], whole[1], whole[2], bytes[0], bytes[1],
         bytes[2]);
  ShutdownTensorEngine<cpu>();
  return 0;
}
