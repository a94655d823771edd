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

/// Returns a residual network on "data", with a SoftmaxOutput named "softmax".
Symbol ResNet(const ResNetShape& shape);

}  // namespace tessera::benchmarking

#endif  // TESSERA_SYMBOL_BENCHMARK_NETWORKS_H_
