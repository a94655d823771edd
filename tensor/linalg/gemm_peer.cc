#include "tessera/tensor/linalg/gemm_peer.h"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>

#include "tessera/tensor/device/instruction_set.h"

namespace tessera {

namespace gemm_peer_baseline {
void Run(bool, bool, int64_t, int64_t, int64_t, const float*, const float*, float*);
}
namespace gemm_peer_avx2 {
void Run(bool, bool, int64_t, int64_t, int64_t, const float*, const float*, float*);
}
namespace gemm_peer_avx512 {
void Run(bool, bool, int64_t, int64_t, int64_t, const float*, const float*, float*);
}

namespace {

template <auto kRun>
void RunEigen(const PeerProduct& g) {
  kRun(g.transpose_a, g.transpose_b, g.m, g.n, g.k, g.a, g.b, g.c);
}

int Stride(bool transposed, index_t rows, index_t columns) {
  return static_cast<int>(transposed ? rows : columns);
}

template <typename Function>
Function* Find(std::initializer_list<const char*> libraries, const char* name) {
  for (const char* library : libraries) {
    if (void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
      if (void* const symbol = dlsym(handle, name)) return reinterpret_cast<Function*>(symbol);
    }
  }
  return nullptr;
}

using CblasSgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                        float, float*, int);
CblasSgemm* cblas_sgemm = nullptr;

void RunOpenBlas(const PeerProduct& g) {
  constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;
  cblas_sgemm(kRowMajor, g.transpose_a ? kTranspose : kNoTranspose,
              g.transpose_b ? kTranspose : kNoTranspose, static_cast<int>(g.m),
              static_cast<int>(g.n), static_cast<int>(g.k), 1, g.a, Stride(g.transpose_a, g.m, g.k),
              g.b, Stride(g.transpose_b, g.k, g.n), 0, g.c, static_cast<int>(g.n));
}

using DnnlSgemm = int(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                      const float*, int64_t, float, float*, int64_t);
DnnlSgemm* dnnl_sgemm = nullptr;

void RunDnnl(const PeerProduct& g) {
  dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1, g.a,
             Stride(g.transpose_a, g.m, g.k), g.b, Stride(g.transpose_b, g.k, g.n), 0, g.c, g.n);
}

}  // namespace

std::vector<GemmPeer> GemmPeers() {
  using tensor_internal::InstructionSet;
  using tensor_internal::UsedInstructionSet;
  std::vector<GemmPeer> peers;
  switch (UsedInstructionSet()) {
    case InstructionSet::kAvx512:
      peers.push_back({"eigen_avx512", RunEigen<gemm_peer_avx512::Run>});
      [[fallthrough]];
    case InstructionSet::kAvx2:
      peers.push_back({"eigen_avx2", RunEigen<gemm_peer_avx2::Run>});
      break;
    case InstructionSet::kBaseline:
      peers.push_back({"eigen_baseline", RunEigen<gemm_peer_baseline::Run>});
  }
  // The libraries read these variables when they are loaded. They then use no better instruction
  // set than Tessera does.
  if (UsedInstructionSet() != InstructionSet::kAvx512) {
    const bool avx2 = UsedInstructionSet() == InstructionSet::kAvx2;
    setenv("OPENBLAS_CORETYPE", avx2 ? "Haswell" : "Nehalem", 0);
    setenv("DNNL_MAX_CPU_ISA", avx2 ? "AVX2" : "SSE41", 0);
  }
  // oneDNN takes its number of threads from OpenMP, which reads it when the library is loaded.
  setenv("OMP_NUM_THREADS", "1", 1);
  cblas_sgemm = Find<CblasSgemm>({"libopenblas.so.0"}, "cblas_sgemm");
  if (cblas_sgemm != nullptr) {
    if (auto* const set_threads =
            Find<void(int)>({"libopenblas.so.0"}, "openblas_set_num_threads")) {
      set_threads(1);
    }
    peers.push_back({"openblas", RunOpenBlas});
  }
  dnnl_sgemm = Find<DnnlSgemm>({"libdnnl.so.3", "libdnnl.so.2"}, "dnnl_sgemm");
  if (dnnl_sgemm != nullptr) peers.push_back({"onednn", RunDnnl});
  return peers;
}

}  // namespace tessera
