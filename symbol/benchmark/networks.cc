#include "tessera/symbol/benchmark/networks.h"

#include <string>

namespace tessera::benchmarking {
namespace {

std::string Text(int number) { return std::to_string(number); }
std::string Pair(int extent) { return "(" + Text(extent) + "," + Text(extent) + ")"; }

Symbol Dense(const Symbol& x, int neurons, const std::string& name) {
  return Symbol::Apply("FullyConnected", {x}, {{"num_hidden", Text(neurons)}}, name);
}

Symbol Relu(const Symbol& x, const std::string& name) {
  return Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, name);
}

Symbol Softmax(const Symbol& x) { return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax"); }

/// A convolution of that kernel that keeps sizes, but for its stride.
Symbol Convolution(const Symbol& x, int channels, int kernel, int stride, bool no_bias,
                   const std::string& name) {
  return Symbol::Apply("Convolution", {x},
                       {{"kernel", Pair(kernel)},
                        {"pad", Pair(kernel / 2)},
                        {"stride", Pair(stride)},
                        {"num_filter", Text(channels)},
                        {"no_bias", no_bias ? "True" : "False"}},
                       name);
}

Symbol NormalizedConvolution(const Symbol& x, int channels, int kernel, int stride,
                             const std::string& name) {
  return Symbol::Apply("BatchNorm", {Convolution(x, channels, kernel, stride, true, name)},
                       {{"fix_gamma", "False"}}, name + "_bn");
}

Symbol ResidualBlock(const Symbol& x, int channels, int stride, bool changes_shape, bool bottleneck,
                     const std::string& name) {
  Symbol y;
  if (bottleneck) {
    y = Relu(NormalizedConvolution(x, channels / 4, 1, 1, name + "_conv1"), name + "_relu1");
    y = Relu(NormalizedConvolution(y, channels / 4, 3, stride, name + "_conv2"), name + "_relu2");
    y = NormalizedConvolution(y, channels, 1, 1, name + "_conv3");
  } else {
    y = Relu(NormalizedConvolution(x, channels, 3, stride, name + "_conv1"), name + "_relu1");
    y = NormalizedConvolution(y, channels, 3, 1, name + "_conv2");
  }
  const Symbol beside =
      changes_shape ? NormalizedConvolution(x, channels, 1, stride, name + "_beside") : x;
  return Relu(y + beside, name + "_relu");
}

}  // namespace

Symbol Perceptron() {
  Symbol x = Relu(Dense(Symbol::Variable("data"), 128, "fc1"), "relu1");
  x = Relu(Dense(x, 64, "fc2"), "relu2");
  return Softmax(Dense(x, 10, "fc3"));
}

Symbol ConvolutionalNetwork() {
  Symbol x = Relu(Convolution(Symbol::Variable("data"), 32, 3, 1, false, "conv1"), "relu1");
  x = Relu(Convolution(x, 64, 3, 1, false, "conv2"), "relu2");
  x = Symbol::Apply("Pooling", {x},
                    {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "max"}}, "pool");
  x = Relu(Dense(Symbol::Apply("Flatten", {x}, {}, "flatten"), 128, "fc1"), "relu3");
  return Softmax(Dense(x, 10, "fc2"));
}

Symbol Chain() {
  Symbol x = Symbol::Variable("a");
  const Symbol b = Symbol::Variable("b");
  for (int i = 0; i < kChainLayers; i += 4) {
    x = Relu((x + 0.01) * 0.99, "relu" + Text(i)) + b;
  }
  return x;
}

Symbol ResNet(const ResNetShape& shape) {
  Symbol x = Symbol::Variable("data");
  x = Relu(
      NormalizedConvolution(x, 64, shape.large_images ? 7 : 3, shape.large_images ? 2 : 1, "conv0"),
      "relu0");
  if (shape.large_images) {
    x = Symbol::Apply(
        "Pooling", {x},
        {{"kernel", "(3,3)"}, {"stride", "(2,2)"}, {"pad", "(1,1)"}, {"pool_type", "max"}},
        "pool0");
  }
  int channels = shape.bottleneck ? 256 : 64;
  for (int stage = 0; stage < 4; ++stage, channels *= 2) {
    for (int unit = 0; unit < shape.units[static_cast<size_t>(stage)]; ++unit) {
      const bool is_first = unit == 0;
      x = ResidualBlock(x, channels, is_first && stage > 0 ? 2 : 1,
                        is_first && (stage > 0 || shape.bottleneck), shape.bottleneck,
                        "stage" + Text(stage) + "_unit" + Text(unit));
    }
  }
  x = Symbol::Apply("Pooling", {x},
                    {{"kernel", "(1,1)"}, {"pool_type", "avg"}, {"global_pool", "True"}}, "pool1");
  return Softmax(Dense(Symbol::Apply("Flatten", {x}, {}, "flatten"), shape.classes, "fc"));
}

}  // namespace tessera::benchmarking
