#ifndef TESSERA_TRAIN_BENCHMARK_LAYER_CASES_H_
#define TESSERA_TRAIN_BENCHMARK_LAYER_CASES_H_

namespace tessera::benchmarking {

/// Adds training steps of networks of layers, compiled, beside MXNet's Gluon and PyTorch, with
/// gradient descent with momentum, from the same first parameters:
///   language_model: W. Zaremba et al., Recurrent Neural Network Regularization, 2014, in the small
///     size of many benchmarks: 10,000 words, two layers of LSTM of 256 units, 35 steps, batch 32;
///   resnet20: K. He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2:
///     images of 3 x 32 x 32, batch 32.
void AddLayerCases();

}  // namespace tessera::benchmarking

#endif  // TESSERA_TRAIN_BENCHMARK_LAYER_CASES_H_
