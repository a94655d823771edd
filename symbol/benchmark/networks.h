#ifndef TESSERA_SYMBOL_BENCHMARK_NETWORKS_H_
#define TESSERA_SYMBOL_BENCHMARK_NETWORKS_H_

#include <array>

#include "tessera/symbol/symbol.h"

namespace tessera::benchmarking {

/// The number of operators of Chain.
inline constexpr int kChainLayers = 100;

/// Return the two networks of //examples/digits, on "data" of shape (batch, 64) and
/// (batch, 1, 8, 8), with a SoftmaxOutput named "softmax".
Symbol Perceptron();
Symbol ConvolutionalNetwork();

/// Returns kChainLayers operators on small arrays, one after the other: a number added, a factor,
/// relu and the addition of "b", on "a".
Symbol Chain();

/// The parts of a residual network (He et al. 2015, version 1).
struct ResNetShape {
  std::array<int, 4> units;  ///< blocks in each stage
  bool bottleneck = false;   ///< three convolutions in a block in place of two
  bool large_images = true;  ///< 224 pixels: begins with a 7x7 convolution and pooling
  int classes = 1000;
};
inline constexpr ResNetShape kResNet18OfSmallImages = {
    .units = {2, 2, 2, 2}, .large_images = false, .classes = 10};
inline constexpr ResNetShape kResNet50 = {.units = {3, 4, 6, 3}, .bottleneck = true};
inline constexpr ResNetShape kResNet152 = {.units = {3, 8, 36, 3}, .bottleneck = true};
/// The blocks of He et al. 2016 with 200 layers, in the order of version 1.
inline constexpr ResNetShape kResNet200 = {.units = {3, 24, 36, 3}, .bottleneck = true};

/// Returns a residual network on "data", with a SoftmaxOutput named "softmax".
Symbol ResNet(const ResNetShape& shape);

/// Return networks for pictures of 224 pixels and 1,000 classes, on "data" of shape (batch, 3, 224,
/// 224), with a SoftmaxOutput named "softmax": Krizhevsky et al. 2012 (with the widths of
/// Krizhevsky 2014, without normalization), Simonyan and Zisserman 2014 (16 layers), Ioffe and
/// Szegedy 2015 (figure 5), Huang et al. 2016 (121 layers), Sandler et al. 2018.
Symbol AlexNet();
Symbol Vgg16();
Symbol InceptionBn();
Symbol DenseNet121();
Symbol MobileNetV2();

/// The parts of an unrolled LSTM (Hochreiter and Schmidhuber 1997, with forget gates).
struct LstmShape {
  int steps = 100;
  int hidden = 256;
  int classes = 1000;
};

/// Returns an LSTM out of single operators on "data" of shape (batch, steps, inputs), from "init_h"
/// and "init_c" of shape (batch, hidden), that classifies every step: a SoftmaxOutput named
/// "softmax", on all steps one after another.
Symbol Lstm(const LstmShape& shape);

}  // namespace tessera::benchmarking

#endif  // TESSERA_SYMBOL_BENCHMARK_NETWORKS_H_
