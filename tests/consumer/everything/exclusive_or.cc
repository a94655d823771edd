// A network learns exclusive or, over a key-value store; then mshadow's names read what it was
// taught.
#include <cstdio>
#include <memory>
#include <vector>

#include "mshadow/tensor.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/train/module.h"

using namespace tessera;  // NOLINT

Symbol Network() {
  Symbol net = Symbol::Variable("data");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "8"}});
  net = Symbol::Apply("Activation", {net}, {{"act_type", "tanh"}});
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "2"}});
  return Symbol::Apply("SoftmaxOutput", {net}, {}, "softmax");
}

float MeanByMshadow(std::vector<float> values) {
  const auto n = static_cast<index_t>(values.size());
  mshadow::Tensor<mshadow::cpu, 1> v(values.data(), mshadow::Shape1(n));
  v *= 1.0f / static_cast<float>(n);
  float mean = 0;
  for (index_t i = 0; i < n; ++i) mean += v[i];
  return mean;
}

int main() {
  const NDArray x = NDArray::FromVector(std::vector<float>{0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const NDArray y = NDArray::FromVector(std::vector<float>{0, 1, 1, 0}, {4});
  NDArrayIter data({{"data", x}}, {{"softmax_label", y}}, {.batch_size = 4});
  SgdOptions sgd;
  sgd.learning_rate = 0.5;
  Module module(Network());
  module.Fit(&data, {.num_epoch = 500,
                     .optimizer = std::make_shared<Sgd>(sgd),
                     .initializer = std::make_shared<Uniform>(0.7f)});
  const double accuracy = module.Score(&data, Accuracy())[0].value;
  std::printf("accuracy %g, mean of the labels %g\n", accuracy, MeanByMshadow(y.ToVector()));
}
