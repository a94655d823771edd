#include "tessera/symbol/benchmark/networks.h"

#include <array>
#include <string>
#include <vector>

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
                   const std::string& name, int groups = 1) {
  return Symbol::Apply("Convolution", {x},
                       {{"kernel", Pair(kernel)},
                        {"pad", Pair(kernel / 2)},
                        {"stride", Pair(stride)},
                        {"num_filter", Text(channels)},
                        {"num_group", Text(groups)},
                        {"no_bias", no_bias ? "True" : "False"}},
                       name);
}

Symbol Normalized(const Symbol& x, const std::string& name) {
  return Symbol::Apply("BatchNorm", {x}, {{"fix_gamma", "False"}}, name + "_bn");
}

Symbol NormalizedConvolution(const Symbol& x, int channels, int kernel, int stride,
                             const std::string& name, int groups = 1) {
  return Normalized(Convolution(x, channels, kernel, stride, true, name, groups), name);
}

Symbol MaxPooling(const Symbol& x, int kernel, int stride, int pad, const std::string& name) {
  return Symbol::Apply("Pooling", {x},
                       {{"kernel", Pair(kernel)},
                        {"stride", Pair(stride)},
                        {"pad", Pair(pad)},
                        {"pool_type", "max"}},
                       name);
}

/// The classes of what a network has found, averaged over the picture.
Symbol ClassesOfAverage(const Symbol& x, int classes) {
  const Symbol average =
      Symbol::Apply("Pooling", {x},
                    {{"kernel", "(1,1)"}, {"pool_type", "avg"}, {"global_pool", "True"}}, "pool1");
  return Softmax(Dense(Symbol::Apply("Flatten", {average}, {}, "flatten"), classes, "fc"));
}

/// The classes by two wide layers with dropout and one of 1,000.
Symbol ClassesOfLayers(const Symbol& x) {
  Symbol y = Symbol::Apply("Flatten", {x}, {}, "flatten");
  for (int layer = 6; layer <= 7; ++layer) {
    y = Relu(Dense(y, 4096, "fc" + Text(layer)), "fc_relu" + Text(layer));
    y = Symbol::Apply("Dropout", {y}, {{"p", "0.5"}}, "drop" + Text(layer));
  }
  return Softmax(Dense(y, 1000, "fc8"));
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
    x = MaxPooling(x, 3, 2, 1, "pool0");
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
  return ClassesOfAverage(x, shape.classes);
}

Symbol AlexNet() {
  struct Layer {
    int channels, kernel, stride;
    bool pools;
  };
  constexpr std::array<Layer, 5> kLayers = {{{64, 11, 4, true},
                                             {192, 5, 1, true},
                                             {384, 3, 1, false},
                                             {256, 3, 1, false},
                                             {256, 3, 1, true}}};
  Symbol x = Symbol::Variable("data");
  int number = 0;
  for (const Layer& layer : kLayers) {
    const std::string name = Text(++number);
    x = Convolution(x, layer.channels, layer.kernel, layer.stride, false, "conv" + name);
    x = Relu(x, "relu" + name);
    if (layer.pools) x = MaxPooling(x, 3, 2, 0, "pool" + name);
  }
  return ClassesOfLayers(x);
}

Symbol Vgg16() {
  struct Stage {
    int channels, layers;
  };
  constexpr std::array<Stage, 5> kStages = {{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}};
  Symbol x = Symbol::Variable("data");
  int number = 0;
  for (const Stage& stage : kStages) {
    const std::string name = Text(++number);
    for (int layer = 0; layer < stage.layers; ++layer) {
      const std::string end = name + "_" + Text(layer);
      x = Relu(Convolution(x, stage.channels, 3, 1, false, "conv" + end), "relu" + end);
    }
    x = MaxPooling(x, 2, 2, 0, "pool" + name);
  }
  return ClassesOfLayers(x);
}

Symbol InceptionBn() {
  // The channels of a block's branches: one convolution of single pixels (or none, and then the
  // block halves the picture); two convolutions; three; pooling, and the convolution behind it (or
  // none).
  struct Block {
    int single;
    std::array<int, 2> two, three;
    bool max_pool;
    int behind_pool;
  };
  constexpr std::array<Block, 10> kBlocks = {{{64, {64, 64}, {64, 96}, false, 32},
                                              {64, {64, 96}, {64, 96}, false, 64},
                                              {0, {128, 160}, {64, 96}, true, 0},
                                              {224, {64, 96}, {96, 128}, false, 128},
                                              {192, {96, 128}, {96, 128}, false, 128},
                                              {160, {128, 160}, {128, 160}, false, 128},
                                              {96, {128, 192}, {160, 192}, false, 128},
                                              {0, {128, 192}, {192, 256}, true, 0},
                                              {352, {192, 320}, {160, 224}, false, 128},
                                              {352, {192, 320}, {192, 224}, true, 128}}};
  const auto layer = [](const Symbol& x, int channels, int kernel, int stride,
                        const std::string& name) {
    return Relu(NormalizedConvolution(x, channels, kernel, stride, name), name + "_relu");
  };
  Symbol x = layer(Symbol::Variable("data"), 64, 7, 2, "conv1");
  x = layer(MaxPooling(x, 3, 2, 1, "max_pool1"), 64, 1, 1, "conv2");
  x = MaxPooling(layer(x, 192, 3, 1, "conv3"), 3, 2, 1, "max_pool2");
  int number = 0;
  for (const Block& block : kBlocks) {
    const std::string name = "block" + Text(number++) + "_";
    const int stride = block.single == 0 ? 2 : 1;
    std::vector<Symbol> branches;
    if (block.single != 0) branches.push_back(layer(x, block.single, 1, 1, name + "single"));
    Symbol y = layer(x, block.two[0], 1, 1, name + "two0");
    branches.push_back(layer(y, block.two[1], 3, stride, name + "two1"));
    y = layer(x, block.three[0], 1, 1, name + "three0");
    y = layer(y, block.three[1], 3, 1, name + "three1");
    branches.push_back(layer(y, block.three[1], 3, stride, name + "three2"));
    y = Symbol::Apply("Pooling", {x},
                      {{"kernel", "(3,3)"},
                       {"stride", Pair(stride)},
                       {"pad", "(1,1)"},
                       {"pool_type", block.max_pool ? "max" : "avg"}},
                      name + "pool");
    if (block.behind_pool != 0) y = layer(y, block.behind_pool, 1, 1, name + "behind_pool");
    branches.push_back(y);
    x = Symbol::Apply("Concat", branches, {{"dim", "1"}}, name + "concat");
  }
  return ClassesOfAverage(x, 1000);
}

Symbol DenseNet121() {
  constexpr std::array<int, 4> kLayers = {6, 12, 24, 16};
  constexpr int kGrowth = 32;
  const auto layer = [](const Symbol& x, int channels, int kernel, const std::string& name) {
    const Symbol y = Relu(Normalized(x, name), name + "_relu");
    return Convolution(y, channels, kernel, 1, true, name);
  };
  int channels = 2 * kGrowth;
  Symbol x = NormalizedConvolution(Symbol::Variable("data"), channels, 7, 2, "conv0");
  x = MaxPooling(Relu(x, "relu0"), 3, 2, 1, "pool0");
  for (size_t block = 0; block < kLayers.size(); ++block) {
    const std::string name = "block" + Text(static_cast<int>(block)) + "_";
    if (block > 0) {
      channels /= 2;
      x = Symbol::Apply("Pooling", {layer(x, channels, 1, name + "half")},
                        {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "avg"}},
                        name + "pool");
    }
    for (int i = 0; i < kLayers[block]; ++i, channels += kGrowth) {
      Symbol y = layer(x, 4 * kGrowth, 1, name + Text(i) + "_conv1");
      y = layer(y, kGrowth, 3, name + Text(i) + "_conv2");
      x = Symbol::Apply("Concat", {x, y}, {{"dim", "1"}}, name + Text(i) + "_concat");
    }
  }
  return ClassesOfAverage(Relu(Normalized(x, "last"), "last_relu"), 1000);
}

Symbol MobileNetV2() {
  struct Stage {
    int expansion, channels, units, stride;
  };
  constexpr std::array<Stage, 7> kStages = {{{1, 16, 1, 1},
                                             {6, 24, 2, 2},
                                             {6, 32, 3, 2},
                                             {6, 64, 4, 2},
                                             {6, 96, 3, 1},
                                             {6, 160, 3, 2},
                                             {6, 320, 1, 1}}};
  const auto layer = [](const Symbol& x, int channels, int kernel, int stride,
                        const std::string& name, int groups = 1) {
    return Symbol::Apply("clip", {NormalizedConvolution(x, channels, kernel, stride, name, groups)},
                         {{"a_min", "0"}, {"a_max", "6"}}, name + "_relu6");
  };
  int channels = 32, number = 0;
  Symbol x = layer(Symbol::Variable("data"), channels, 3, 2, "conv0");
  for (const Stage& stage : kStages) {
    for (int unit = 0; unit < stage.units; ++unit) {
      const std::string name = "unit" + Text(number++) + "_";
      const int stride = unit == 0 ? stage.stride : 1, wide = stage.expansion * channels;
      Symbol y = stage.expansion == 1 ? x : layer(x, wide, 1, 1, name + "conv1");
      y = layer(y, wide, 3, stride, name + "conv2", wide);
      y = NormalizedConvolution(y, stage.channels, 1, 1, name + "conv3");
      x = stride == 1 && channels == stage.channels ? x + y : y;
      channels = stage.channels;
    }
  }
  return ClassesOfAverage(layer(x, 1280, 1, 1, "conv1"), 1000);
}

Symbol Lstm(const LstmShape& shape) {
  const Symbol inputs = Symbol::Apply(
      "SliceChannel", {Symbol::Variable("data")},
      {{"num_outputs", Text(shape.steps)}, {"axis", "1"}, {"squeeze_axis", "True"}}, "inputs");
  // All steps share the weights.
  const auto gates = [&shape](const std::string& name) {
    return [&shape, name, weight = Symbol::Variable(name + "_weight"),
            bias = Symbol::Variable(name + "_bias")](const Symbol& x, int step) {
      return Symbol::Apply("FullyConnected", {x, weight, bias},
                           {{"num_hidden", Text(4 * shape.hidden)}}, name + Text(step));
    };
  };
  const auto of_input = gates("i2h"), of_state = gates("h2h");
  const auto activation = [](const Symbol& x, const std::string& type, const std::string& name) {
    return Symbol::Apply("Activation", {x}, {{"act_type", type}}, name);
  };
  Symbol h = Symbol::Variable("init_h"), c = Symbol::Variable("init_c");
  std::vector<Symbol> results;
  for (int step = 0; step < shape.steps; ++step) {
    const std::string name = "step" + Text(step) + "_";
    const Symbol parts =
        Symbol::Apply("SliceChannel", {of_input(inputs[step], step) + of_state(h, step)},
                      {{"num_outputs", "4"}}, name + "gates");
    c = activation(parts[1], "sigmoid", name + "forget") * c +
        activation(parts[0], "sigmoid", name + "in") * activation(parts[2], "tanh", name + "new");
    h = activation(parts[3], "sigmoid", name + "out") * activation(c, "tanh", name + "tanh");
    results.push_back(h);
  }
  const Symbol all = Symbol::Apply("Concat", results, {{"dim", "0"}}, "all");
  return Softmax(Dense(all, shape.classes, "fc"));
}

}  // namespace tessera::benchmarking
