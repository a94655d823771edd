// Rows chosen by index: embedding forward and back, one-hot vectors, picking and filling elements.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

template <typename DType>
void Show(const char* name, const Tensor<cpu, 2, DType>& m) {
  printf("%s", name);
  for (index_t i = 0; i < m.size(0); ++i) {
    printf(" |");
    for (index_t j = 0; j < m.size(1); ++j) printf(" %.2f", static_cast<double>(m[i][j]));
  }
  printf("\n");
}

int main() {
  InitTensorEngine<cpu>();
  const index_t vocabulary = 6, width = 3, words = 5;
  TensorContainer<cpu, 2> weight(Shape2(vocabulary, width)), out(Shape2(words, width));
  TensorContainer<cpu, 2> grad(Shape2(words, width)), gweight(weight.shape_);
  TensorContainer<cpu, 1> index(Shape1(words));
  for (index_t i = 0; i < vocabulary; ++i) {
    for (index_t j = 0; j < width; ++j) weight[i][j] = i + 0.1f * j;
  }
  const float chosen[] = {4, 0, 4, 5, 2};
  for (index_t i = 0; i < words; ++i) {
    index[i] = chosen[i];
    for (index_t j = 0; j < width; ++j) grad[i][j] = (i + 1) * (j + 1);
  }
  out = take(index, weight);
  Show("take", out);
  gweight = take_grad(index, grad, vocabulary);
  Show("take_grad", gweight);
  gweight = 1.0f;
  AddTakeGrad(gweight, index, grad);
  Show("AddTakeGrad", gweight);
  weight -= 0.5f * gweight;
  Show("updated", weight);

  TensorContainer<cpu, 2> hot(Shape2(words, vocabulary));
  hot = one_hot_encode(index, vocabulary);
  Show("one hot", hot);
  out = dot(hot, weight);
  Show("by product", out);

  TensorContainer<cpu, 1> column(Shape1(words)), picked(Shape1(words));
  for (index_t i = 0; i < words; ++i) column[i] = static_cast<float>(i % width);
  picked = mat_choose_row_element(grad, column);
  printf("chosen %.1f %.1f %.1f %.1f %.1f\n", picked[0], picked[1], picked[2], picked[3],
         picked[4]);
  grad = mat_fill_row_element(grad, picked * -1.0f, column);
  Show("filled", grad);

  TensorContainer<cpu, 1> gate(Shape1(words), 1.0f);
  gate[1] = 0.0f;
  gate[3] = 0.5f;
  out = mask(gate, grad);
  Show("masked", out);

  TensorContainer<cpu, 2> table(Shape2(4, 2), 0.0f), rows(Shape2(2, 2));
  TensorContainer<cpu, 1, int> at(Shape1(2));
  at[0] = 3;
  at[1] = 1;
  rows[0] = 7.0f;
  rows[1] = 8.0f;
  IndexFill(table, at, rows);
  Show("IndexFill", table);
  ShutdownTensorEngine<cpu>();
  return 0;
}
