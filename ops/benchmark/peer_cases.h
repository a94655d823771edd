#ifndef TESSERA_OPS_BENCHMARK_PEER_CASES_H_
#define TESSERA_OPS_BENCHMARK_PEER_CASES_H_

#include <string>
#include <vector>

#include "tessera/ops/benchmark/layer.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

/// The calls of operators that are timed beside other libraries. This is the only list of them: the
/// peers' process is sent what stands here.
namespace tessera::ops_benchmark {

/// A call of an operator, and how fast it is to be beside each peer.
struct PeerCase {
  std::string name;  ///< "family/case"
  OperatorCall call;
  std::vector<benchmarking::Bound> bounds;  ///< the peers that are timed
  double flops = 0;                         ///< two for a multiply-add; 0 where bytes matter
};

/// Returns the cases by family: convolution, depthwise, elementwise, broadcast, reduction, pooling,
/// normalization, movement, order, random, product, recurrent.
std::vector<PeerCase> PeerCases();

/// Returns the bounds on the geometric means of families.
std::vector<benchmarking::Mean> PeerMeans();

}  // namespace tessera::ops_benchmark

#endif  // TESSERA_OPS_BENCHMARK_PEER_CASES_H_
