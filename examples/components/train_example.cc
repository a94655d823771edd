// A network, its data and an optimizer: Fit does the rest.
#include <cstdio>

#include "tessera/io/ndarray_iter.h"
#include "tessera/train/module.h"

using namespace tessera;  // NOLINT

int main() {
  const NDArray x = NDArray::FromVector(std::vector<float>{0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const NDArray y = NDArray::FromVector(std::vector<float>{0, 1, 1, 0}, {4});  // exclusive or
  NDArrayIter data({{"data", x}}, {{"softmax_label", y}}, {.batch_size = 4});
  Symbol net = Symbol::Variable("data");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "8"}});
  net = Symbol::Apply("Activation", {net}, {{"act_type", "tanh"}});
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "2"}});
  net = Symbol::Apply("SoftmaxOutput", {net}, {}, "softmax");
  SgdOptions sgd;
  sgd.learning_rate = 0.5;
  Module module(net);
  module.Fit(&data, {.num_epoch = 500,
                     .optimizer = std::make_shared<Sgd>(sgd),
                     .initializer = std::make_shared<Uniform>(0.7f)});
  for (const NamedValue& value : module.Score(&data, Accuracy())) {
    std::printf("%s %g\n", value.name.c_str(), value.value);
  }
}
