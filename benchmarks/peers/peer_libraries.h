#ifndef TESSERA_BENCHMARKS_PEERS_PEER_LIBRARIES_H_
#define TESSERA_BENCHMARKS_PEERS_PEER_LIBRARIES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// Libraries that are looked for when the program runs, so that no build needs them.
namespace tessera::peers {

/// Row-major c (n, n) = a b, on one thread.
using SquareProduct = std::function<void(int64_t n, const float* a, const float* b, float* c)>;
/// w = alpha * g + beta * w, on one thread.
using ScaledSum = std::function<void(int64_t n, float alpha, const float* g, float beta, float* w)>;

struct PeerLibrary {
  std::string name;
  SquareProduct product;             // empty where the library offers none
  ScaledSum scaled_sum;              // empty where the library offers none
  std::string missing_because = {};  // empty where the library was found
};

/// OpenBLAS and oneDNN, each found or with the reason why not.
std::vector<PeerLibrary> FindPeerLibraries();

}  // namespace tessera::peers

#endif  // TESSERA_BENCHMARKS_PEERS_PEER_LIBRARIES_H_
