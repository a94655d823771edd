#include "tessera/examples/digits/network.h"

#include <string>

namespace tessera::digits {
namespace {

Symbol Dense(const Symbol& input, int neurons, const std::string& name) {
  return Symbol::Apply("FullyConnected", {input}, {{"num_hidden", std::to_string(neurons)}}, name);
}

Symbol Relu(const Symbol& input, const std::string& name) {
  return Symbol::Apply("Activation", {input}, {{"act_type", "relu"}}, name);
}

Symbol Convolution3x3(const Symbol& input, int channels, const std::string& name) {
  return Symbol::Apply(
      "Convolution", {input},
      {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", std::to_string(channels)}}, name);
}

}  // namespace

Symbol MakeNetwork(std::string_view model) {
  Symbol x = Symbol::Variable("data");
  if (model == "mlp") {
    x = Relu(Dense(x, 128, "fc1"), "relu1");
    x = Relu(Dense(x, 64, "fc2"), "relu2");
    x = Dense(x, kClasses, "fc3");
  } else {
    x = Relu(Convolution3x3(x, 32, "conv1"), "relu1");
    x = Relu(Convolution3x3(x, 64, "conv2"), "relu2");
    x = Symbol::Apply("Pooling", {x},
                      {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "max"}}, "pool");
    x = Symbol::Apply("Flatten", {x}, {}, "flatten");
    x = Relu(Dense(x, 128, "fc1"), "relu3");
    x = Dense(x, kClasses, "fc2");
  }
  // A tenth of each label goes to the other classes: with so few writers in the training data a
  // network that is never quite sure reads new ones better (by 1 to 2 % of the test digits).
  return Symbol::Apply("SoftmaxOutput", {x}, {{"smooth_alpha", "0.1"}}, "softmax");
}

}  // namespace tessera::digits
