// Sorting by key, positions of maxima, ranges: the pieces of a top-k.
#include "mshadow/tensor.h"

using namespace mshadow;
using namespace mshadow::expr;

int main() {
  InitTensorEngine<cpu>();
  TensorContainer<cpu, 1> keys(Shape1(8)), values(Shape1(8));
  const float given[] = {3, 1, 4, 1, 5, 9, 2, 6};
  for (index_t i = 0; i < 8; ++i) keys[i] = given[i];
  values = range<float>(0, 8);
  SortByKey(keys, values, true);
  for (index_t i = 0; i < 8; ++i) printf("%.0f:%.0f ", keys[i], values[i]);
  printf("\n");
  for (index_t i = 0; i < 8; ++i) keys[i] = given[i];
  TensorContainer<cpu, 1, int> order(Shape1(8));
  order = range<int>(0, 8);
  SortByKey(keys, order, false);
  for (index_t i = 0; i < 8; ++i) printf("%.0f:%d ", keys[i], order[i]);
  printf("\n");

  TensorContainer<cpu, 1, int> steps(Shape1(6));
  steps = range<int>(1, 7, 2, 2);
  for (index_t i = 0; i < 6; ++i) printf("%d ", steps[i]);
  printf("\n");

  TensorContainer<cpu, 2> scores(Shape2(3, 4));
  for (index_t i = 0; i < 3; ++i) {
    for (index_t j = 0; j < 4; ++j) scores[i][j] = static_cast<float>((i * 7 + j * 5) % 11);
  }
  TensorContainer<cpu, 1> best(Shape1(3)), at(Shape1(3)), lowest(Shape1(4)), sums(Shape1(4));
  best = reduce_with_axis<red::maximum, false>(scores, 1);
  at = reduce_with_axis<red::maximum, true>(scores, 1);
  for (index_t i = 0; i < 3; ++i) printf("best %.0f at %.0f\n", best[i], at[i]);
  lowest = reduce_with_axis<red::minimum, false>(scores, 0);
  sums = reduce_except_dim<1, red::sum>(scores);
  for (index_t j = 0; j < 4; ++j) printf("column %.0f %.0f\n", lowest[j], sums[j]);
  TensorContainer<cpu, 1> largest(Shape1(3));
  largest = reduce_except_dim<0, red::maximum>(scores);
  printf("largest %.0f %.0f %.0f\n", largest[0], largest[1], largest[2]);

  // two segments, each sorted on its own
  TensorContainer<cpu, 1> numbers(Shape1(6)), segment(Shape1(6));
  for (index_t i = 0; i < 6; ++i) {
    numbers[i] = given[i];
    segment[i] = i < 3 ? 0.0f : 1.0f;
  }
  VectorizedSort(numbers, segment);
  for (index_t i = 0; i < 6; ++i) printf("%.0f ", numbers[i]);
  printf("\n");
  ShutdownTensorEngine<cpu>();
  return 0;
}
