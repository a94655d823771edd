// Measures dst = dot(a, b) in float32 on one thread beside the best of the other libraries that the
// machine has, and on two threads beside one thread.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tbb/task_arena.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/device/instruction_set.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/linalg/gemm_peer.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Bound;
using benchmarking::Variants;

struct Size {
  index_t m, n, k;
  bool transpose_a = false, transpose_b = false;

  std::string name() const {
    std::string text = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    if (transpose_a || transpose_b) {
      text += std::string("/") + (transpose_a ? "T" : "N") + (transpose_b ? "T" : "N");
    }
    return text;
  }
  double flops() const { return 2.0 * static_cast<double>(m) * n * k; }
};

struct Data {
  Size size;
  TensorContainer<cpu, 2, float> a, b, c, expected;

  explicit Data(const Size& s)
      : size(s),
        a(s.transpose_a ? Shape2(s.k, s.m) : Shape2(s.m, s.k)),
        b(s.transpose_b ? Shape2(s.n, s.k) : Shape2(s.k, s.n)),
        c(Shape2(s.m, s.n)),
        expected(Shape2(s.m, s.n)) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (auto* t : {&a, &b}) {
      for (index_t i = 0; i < t->shape_.Size(); ++i) t->dptr_[i] = uniform(random);
    }
  }
  void Multiply() {
    const Tensor<cpu, 2, float> left = a, right = b;
    Tensor<cpu, 2, float> result = c;
    if (size.transpose_a && size.transpose_b) {
      result = dot(left.T(), right.T());
    } else if (size.transpose_a) {
      result = dot(left.T(), right);
    } else if (size.transpose_b) {
      result = dot(left, right.T());
    } else {
      result = dot(left, right);
    }
  }
  bool Agrees() const {
    double error = 0;
    for (index_t i = 0; i < c.shape_.Size(); ++i) {
      error = std::max(error, std::abs(static_cast<double>(c.dptr_[i]) - expected.dptr_[i]));
    }
    return error <= 1e-5 * std::sqrt(static_cast<double>(size.k)) + 1e-5;
  }
};

void AddPeerCase(const Size& size, double on_avx2 = 0.85) {
  AddCase(
      {.name = "gemm/" + size.name(),
       .bounds = {{.peer = Bound::kBest, .at_least = 0.95, .at_least_on_avx2 = on_avx2}},
       .flops = size.flops(),
       .make = [size] {
         auto data = std::make_shared<Data>(size);
         Variants variants;
         variants.all.push_back({"ours", [data] { data->Multiply(); }});
         for (const GemmPeer& peer : GemmPeers()) {
           const PeerProduct product{
               size.transpose_a, size.transpose_b, size.m,        size.n,
               size.k,           data->a.dptr_,    data->b.dptr_, data->expected.dptr_};
           variants.all.push_back({peer.name, [run = peer.run, product, data] { run(product); }});
         }
         variants.results_agree = [data] { return data->Agrees(); };
         return variants;
       }});
}

void AddThreadsCase(const Size& size, double bound = 1.85) {
  AddCase({.name = "two_threads/" + size.name(),
           .bounds = {{.peer = "one_thread", .at_least = bound}},
           .flops = size.flops(),
           .make = [size] {
             auto data = std::make_shared<Data>(size);
             auto arena = std::make_shared<tbb::task_arena>(2);
             return Variants{
                 .all = {{"ours", [data, arena] { arena->execute([&] { data->Multiply(); }); }},
                         {"one_thread", [data] { data->Multiply(); }}}};
           }});
}

void AddCases() {
  for (const index_t n : {64, 128, 256, 512, 1024, 2048}) AddPeerCase({n, n, n});
  for (const index_t n : {128, 512, 1024}) {
    AddPeerCase({n, n, n, true, false}, n == 1024 ? 0.8 : 0.85);
    AddPeerCase({n, n, n, false, true});
  }
  // Tall, wide and deep products, and layers of the digits networks at a batch of 32.
  AddPeerCase({4096, 64, 64});
  AddPeerCase({64, 4096, 64});
  AddPeerCase({64, 64, 4096});
  AddPeerCase({32, 128, 1024, false, true});
  AddPeerCase({128, 1024, 32, true, false});
  AddPeerCase({64, 64, 288});
  AddPeerCase({33, 47, 61});
  // A large layer at a batch of 1 and 8, forwards and backwards, and a layer of ten classes.
  for (const index_t batch : {1, 8}) {
    AddPeerCase({batch, 4096, 4096, false, true});
    AddPeerCase({batch, 4096, 4096});
  }
  AddPeerCase({200, 10, 2048});
  // Products just above kParallelMultiplyAdds of tensor/linalg/gemm.cc, not far above it, and far
  // above it.
  AddThreadsCase({128, 128, 128}, 1);
  AddThreadsCase({32, 512, 128}, 1);
  AddThreadsCase({144, 144, 144}, 1);
  AddThreadsCase({160, 160, 160}, 1);
  AddThreadsCase({512, 512, 512});
  AddThreadsCase({1024, 1024, 1024});
  AddThreadsCase({2048, 2048, 2048});
  AddCase({.name = "fixed_cost/4x4x4", .flops = 2 * 4 * 4 * 4, .limit_seconds = 60e-9, .make = [] {
             auto data = std::make_shared<Data>(Size{4, 4, 4});
             return Variants{.all = {{"ours", [data] { data->Multiply(); }}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::vector<tessera::GemmPeer> peers = tessera::GemmPeers();
  for (const char* const name : {"openblas", "onednn"}) {
    const auto has_name = [name](const tessera::GemmPeer& peer) { return peer.name == name; };
    if (std::none_of(peers.begin(), peers.end(), has_name)) {
      benchmark::AddCustomContext(std::string("missing ") + name,
                                  "its shared library is not installed");
    }
  }
  tessera::AddCases();
  // Cases run on one thread, unless they make an arena of their own.
  tbb::task_arena one(1);
  using tessera::benchmarking::BoundsFor;
  const auto bounds = tessera::tensor_internal::UsedInstructionSet() ==
                              tessera::tensor_internal::InstructionSet::kAvx512
                          ? BoundsFor::kAvx512
                          : BoundsFor::kAvx2;
  return one.execute([&] { return tessera::benchmarking::RunAll(argc, argv, bounds); });
}
