#include "tessera/benchmarks/peers/peer_libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace tessera::peers {
namespace {

void* Open(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

template <typename Function>
Function* Find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

PeerLibrary OpenBlas() {
  using Sgemm = void(int, int, int, int, int, int, float, const float*, int, const float*, int,
                     float, float*, int);
  using Saxpby = void(int, float, const float*, int, float, float*, int);
  PeerLibrary peer{.name = "openblas", .product = nullptr, .scaled_sum = nullptr};
  void* const library = Open({"libopenblas.so.0"});
  if (auto* const set_threads = Find<void(int)>(library, "openblas_set_num_threads")) {
    set_threads(1);
  }
  if (auto* const sgemm = Find<Sgemm>(library, "cblas_sgemm")) {
    peer.product = [sgemm](int64_t n, const float* a, const float* b, float* c) {
      constexpr int kRowMajor = 101, kNoTranspose = 111;
      const int size = static_cast<int>(n);
      sgemm(kRowMajor, kNoTranspose, kNoTranspose, size, size, size, 1, a, size, b, size, 0, c,
            size);
    };
  }
  if (auto* const saxpby = Find<Saxpby>(library, "cblas_saxpby")) {
    peer.scaled_sum = [saxpby](int64_t n, float alpha, const float* g, float beta, float* w) {
      saxpby(static_cast<int>(n), alpha, g, 1, beta, w, 1);
    };
  }
  if (!peer.product) peer.missing_because = "libopenblas.so.0 is not installed";
  return peer;
}

PeerLibrary OneDnn() {
  using Sgemm = int(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                    const float*, int64_t, float, float*, int64_t);
  PeerLibrary peer{.name = "onednn", .product = nullptr, .scaled_sum = nullptr};
  // It takes its number of threads from OpenMP, which reads this when it is loaded.
  setenv("OMP_NUM_THREADS", "1", 1);
  if (auto* const sgemm = Find<Sgemm>(Open({"libdnnl.so.3", "libdnnl.so.2"}), "dnnl_sgemm")) {
    peer.product = [sgemm](int64_t n, const float* a, const float* b, float* c) {
      sgemm('N', 'N', n, n, n, 1, a, n, b, n, 0, c, n);
    };
  } else {
    peer.missing_because = "neither libdnnl.so.3 nor libdnnl.so.2 is installed";
  }
  return peer;
}

}  // namespace

std::vector<PeerLibrary> FindPeerLibraries() { return {OpenBlas(), OneDnn()}; }

}  // namespace tessera::peers
