#ifndef TESSERA_TRAIN_BENCHMARK_OPTIMIZER_CASES_H_
#define TESSERA_TRAIN_BENCHMARK_OPTIMIZER_CASES_H_

namespace tessera::benchmarking {

/// Adds each optimizer's step in float32: on one array of 16 Mi weights, which no cache holds,
/// beside a copy that moves as many bytes; and on 100 arrays of 1,000, where an operation's fixed
/// cost counts, beside the optimizers of MXNet and PyTorch.
void AddOptimizerCases();

}  // namespace tessera::benchmarking

#endif  // TESSERA_TRAIN_BENCHMARK_OPTIMIZER_CASES_H_
