#ifndef TESSERA_SYMBOL_BENCHMARK_FUSED_CASES_H_
#define TESSERA_SYMBOL_BENCHMARK_FUSED_CASES_H_

namespace tessera::benchmarking {

/// Adds formulas of element-wise operators, which a graph joins to one step, beside the same
/// formulas as tensor expressions, which the compiler joins; and the weights of attention, which a
/// graph joins too, beside single steps. Both sides take as many threads as there are: `taskset -c
/// 0` in front of the command shows one thread.
void AddFusedCases();

}  // namespace tessera::benchmarking

#endif  // TESSERA_SYMBOL_BENCHMARK_FUSED_CASES_H_
