#ifndef TESSERA_TENSOR_LINALG_GEMM_PEER_H_
#define TESSERA_TENSOR_LINALG_GEMM_PEER_H_

#include <string>
#include <vector>

#include "tessera/base/shape.h"

namespace tessera {

/// One product of row-major matrices without padding, c = op(a) op(b), on the calling thread.
struct PeerProduct {
  bool transpose_a, transpose_b;
  index_t m, n, k;
  const float* a;
  const float* b;
  float* c;
};

/// The GEMM of another library.
struct GemmPeer {
  std::string name;
  void (*run)(const PeerProduct& product);
};

/// Returns the GEMMs of other libraries, set to one thread and to the instruction set in use.
/// Eigen's are those for AVX2 and for AVX-512 if this machine has them, else that for the baseline.
/// OpenBLAS and oneDNN are present if the system has their shared libraries (libopenblas.so.0;
/// libdnnl.so.2 or libdnnl.so.3).
std::vector<GemmPeer> GemmPeers();

}  // namespace tessera

#endif  // TESSERA_TENSOR_LINALG_GEMM_PEER_H_
