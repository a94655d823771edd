// Operators called directly, without engine and graph, beside three kinds of peers.
//
// Names with a slash after a family, such as reduction/sum_axis1, are calls beside PyTorch and
// MXNet 1.9.1 (peer_cases.cc). A peer runs in two processes of its own (operator_peer.py): one with
// a single thread, one with as many as the machine has. The faster of the two is timed in turns
// with ours, so that a ratio is that of the peer's best. Without a peer there are no such cases.
//
// The others are FullyConnected and Convolution in the sizes of the digits networks
// (examples/digits, batch 32), each beside the bare matrix products that it consists of, and
// operators that move about as much memory as they compute, beside a copy of as many bytes. Their
// results are checked against the operators' references.
//
// `flops` counts two for a multiply-add, `bytes` what is read and what is written.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/ops/benchmark/layer.h"
#include "tessera/ops/benchmark/peer_cases.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera::ops_benchmark {
namespace {

using benchmarking::AddCase;
using benchmarking::Bound;
using benchmarking::PeerProcess;
using benchmarking::Variant;
using benchmarking::Variants;

// Sums in float32 differ in their last digits, and random numbers' means by a thousandth.
constexpr double kTolerance = 0.005;

/// Another library, in a process for each number of threads.
struct Peer {
  std::string name;
  std::vector<std::shared_ptr<PeerProcess>> processes;
};

/// Starts the peers. One that is missing is named on stderr and left out.
std::vector<Peer> StartPeers() {
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<Peer> peers;
  for (const std::string name : {"torch", "mxnet"}) {
    const auto start = [&name](unsigned count) {
      return PeerProcess::Get("ops/benchmark/operator_peer.py", name + ":" + std::to_string(count));
    };
    Peer peer{.name = name, .processes = {start(1)}};
    if (peer.processes[0] == nullptr) continue;
    if (threads > 1) peer.processes.push_back(start(threads));
    std::erase(peer.processes, nullptr);
    peers.push_back(std::move(peer));
  }
  return peers;
}

/// Returns the seconds of a process's best call of a few, after one that is not timed.
double BestSeconds(PeerProcess* process, const std::string& name) {
  process->Ask("run " + name + " 1");
  double best = process->Ask("run " + name + " 1");
  for (int i = 0; i < 2; ++i) best = std::min(best, process->Ask("run " + name + " 1"));
  return best;
}

/// Prepares a case in the peer's processes and returns the faster one.
std::shared_ptr<PeerProcess> FasterProcess(const Peer& peer, const std::string& name,
                                           const std::string& request) {
  std::shared_ptr<PeerProcess> faster;
  double least = 0;
  for (const auto& process : peer.processes) {
    process->Ask("make " + name + " " + request);
    const double seconds = BestSeconds(process.get(), name);
    if (faster == nullptr || seconds < least) {
      if (faster != nullptr) faster->Ask("drop " + name);
      faster = process;
      least = seconds;
    } else {
      process->Ask("drop " + name);
    }
  }
  return faster;
}

/// Returns ours and the peers that the case has bounds on. Their results agree if their checksums
/// do; a peer that fails disagrees.
Variants MakePeerVariants(const PeerCase& c, const std::vector<Peer>& peers) {
  const auto layer = std::make_shared<Layer>(c.call);
  Variants variants{.all = {{"ours", [layer] { layer->Run(); }}}};
  std::vector<std::shared_ptr<PeerProcess>> checked;
  bool has_failed = false;
  for (const Peer& peer : peers) {
    if (std::none_of(c.bounds.begin(), c.bounds.end(),
                     [&peer](const Bound& bound) { return bound.peer == peer.name; })) {
      continue;
    }
    try {
      checked.push_back(FasterProcess(peer, c.name, layer->PeerRequest()));
      variants.all.push_back(benchmarking::PeerVariant(peer.name, checked.back(), c.name));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      has_failed = true;
    }
  }
  variants.results_agree = [layer, checked, has_failed, name = c.name] {
    const double ours = layer->Checksum();
    bool agree = std::isfinite(ours) && !has_failed;
    for (const auto& process : checked) {
      const double theirs = process->Ask("check " + name);
      if (std::abs(theirs - ours) <= kTolerance * std::abs(ours)) continue;
      std::fprintf(stderr, "results of %s: ours %g, a peer's %g\n", name.c_str(), ours, theirs);
      agree = false;
    }
    return agree;
  };
  return variants;
}

void AddPeerCases() {
  const auto peers = std::make_shared<const std::vector<Peer>>(StartPeers());
  if (peers->empty()) {
    std::fprintf(stderr, "no peer: the cases beside PyTorch and MXNet are left out\n");
    return;
  }
  for (const PeerCase& c : PeerCases()) {
    const bool moves_bytes = c.flops == 0 && c.call.work == Work::kForward;
    AddCase({.name = c.name,
             .bounds = c.bounds,
             .bytes = moves_bytes ? BytesOf(c.call) : 0,
             .flops = c.flops,
             .make = [c, peers] { return MakePeerVariants(c, *peers); }});
  }
  for (const benchmarking::Mean& mean : PeerMeans()) benchmarking::AddMean(mean);
}

/// A layer of the digits networks, seen as `products` products of m x k and k x n.
struct LayerCase {
  std::string label;
  std::string name;
  ParameterMap parameters;
  std::vector<TShape> inputs;
  index_t products, m, n, k;
  double at_least;  // of the bare products' speed

  double Flops() const { return 2.0 * static_cast<double>(products * m * n * k); }
};

std::vector<LayerCase> LayerCases() {
  return {
      // 1024 inputs are the second convolution's 64 channels after both poolings.
      {.label = "fc_1024_to_128",
       .name = "FullyConnected",
       .parameters = {{"num_hidden", "128"}},
       .inputs = {{32, 1024}, {}, {}},
       .products = 1,
       .m = 32,
       .n = 128,
       .k = 1024,
       .at_least = 0.6},
      {.label = "fc_64_to_128",
       .name = "FullyConnected",
       .parameters = {{"num_hidden", "128"}},
       .inputs = {{32, 64}, {}, {}},
       .products = 1,
       .m = 32,
       .n = 128,
       .k = 64,
       .at_least = 0.6},
      // A convolution also unpacks its images, nine times their size for 3x3.
      {.label = "conv_3x3_32_to_64",
       .name = "Convolution",
       .parameters = {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "64"}},
       .inputs = {{32, 32, 8, 8}, {}, {}},
       .products = 32,
       .m = 64,
       .n = 64,
       .k = 32 * 9,
       .at_least = 0.5},
      {.label = "conv_3x3_1_to_32",
       .name = "Convolution",
       .parameters = {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", "32"}},
       .inputs = {{32, 1, 8, 8}, {}, {}},
       .products = 32,
       .m = 32,
       .n = 64,
       .k = 9,
       .at_least = 0.35},
  };
}

/// The products that a layer consists of, on operands that stay in cache.
struct Products {
  explicit Products(const LayerCase& c)
      : count(c.products),
        a(Shape2(c.m, c.k), 0.5f),
        b(Shape2(c.k, c.n), 0.25f),
        a_grad(Shape2(c.m, c.k), 0.0f),
        b_grad(Shape2(c.k, c.n), 0.0f),
        out(Shape2(c.m, c.n), 0.0f) {}

  void Forward() {
    for (index_t i = 0; i < count; ++i) out = dot(a, b);
  }
  void Backward() {
    for (index_t i = 0; i < count; ++i) {
      a_grad = dot(out, b.T());
      b_grad = dot(a.T(), out);
    }
  }

  const index_t count;
  TensorContainer<cpu, 2, float> a, b, a_grad, b_grad;
  TensorContainer<cpu, 2, float> out;
};

void AddCases(const LayerCase& c) {
  for (const bool forward : {true, false}) {
    AddCase({.name = c.label + (forward ? "/forward" : "/backward"),
             .bounds = {{.peer = "products", .at_least = c.at_least}},
             .flops = forward ? c.Flops() : 2 * c.Flops(),
             .items = static_cast<double>(c.inputs[0][0]),
             .make = [c, forward] {
               const auto layer =
                   std::make_shared<Layer>(OperatorCall{.op = c.name,
                                                        .parameters = c.parameters,
                                                        .inputs = c.inputs,
                                                        .work = Work::kForwardAndBackward});
               const auto products = std::make_shared<Products>(c);
               Variants variants;
               variants.all = {
                   {"ours", [=] { forward ? layer->Forward() : layer->Backward(); }},
                   {"products", [=] { forward ? products->Forward() : products->Backward(); }}};
               variants.results_agree = [=] { return layer->MatchesReference(); };
               return variants;
             }});
  }
}

/// An operator whose first output is like its first input, both larger than the second-level cache.
struct RowsCase {
  std::string label;
  std::string name;
  ParameterMap parameters;
  std::vector<TShape> inputs;
  // Of a copy's bandwidth. With AVX2, exponentials and short rows take longer than memory does.
  double at_least = 0.7;
  double at_least_on_avx2 = 0.12;
};

std::vector<RowsCase> RowsCases() {
  const ParameterMap none, moving = {{"use_global_stats", "True"}, {"fix_gamma", "False"}};
  return {
      // The classes of digits and of ImageNet, and the words of a language model.
      {"softmax_10", "softmax", none, {{1 << 18, 10}}},
      {"softmax_100", "softmax", none, {{30000, 100}}},
      {"softmax_1000", "softmax", none, {{3000, 1000}}},
      {"softmax_30000", "softmax", none, {{100, 30000}}},
      // The classes of each pixel.
      {"softmax_channels", "softmax", {{"axis", "1"}}, {{8, 21, 128, 128}}},
      {"log_softmax_10", "log_softmax", none, {{1 << 18, 10}}},
      {"log_softmax_1000", "log_softmax", none, {{3000, 1000}}},
      {"log_softmax_channels", "log_softmax", {{"axis", "1"}}, {{8, 21, 128, 128}}},
      // The first and the last stage of ResNet.
      {"batch_norm_56x56", "BatchNorm", moving, {{16, 64, 56, 56}, {}, {}, {}, {}}, 0.7, 0.7},
      {"batch_norm_7x7", "BatchNorm", moving, {{32, 2048, 7, 7}, {}, {}, {}, {}}, 0.7, 0.7},
      // The rows of BERT, and of a small model.
      {"layer_norm_768", "LayerNorm", none, {{4096, 768}, {}, {}}},
      {"layer_norm_64", "LayerNorm", none, {{50000, 64}, {}, {}}},
  };
}

void AddRowsCase(const RowsCase& c) {
  const index_t size = c.inputs[0].Size();
  AddCase(
      {.name = c.label,
       .bounds = {{.peer = "copy", .at_least = c.at_least, .at_least_on_avx2 = c.at_least_on_avx2}},
       .bytes = 2.0 * sizeof(float) * static_cast<double>(size),
       .make = [c, size] {
         const auto layer = std::make_shared<Layer>(OperatorCall{.op = c.name,
                                                                 .parameters = c.parameters,
                                                                 .inputs = c.inputs,
                                                                 .low = 0.5,
                                                                 .high = 2.5});
         const auto from = std::make_shared<TensorContainer<cpu, 1, float>>(Shape1(size), 1.f);
         const auto to = std::make_shared<TensorContainer<cpu, 1, float>>(Shape1(size), 0.f);
         Variants variants;
         variants.all = {{"ours", [=] { layer->Forward(); }},
                         {"copy", [=] { *to = F<op::identity>(*from); }}};
         variants.results_agree = [=] { return layer->MatchesReference(); };
         return variants;
       }});
}

}  // namespace
}  // namespace tessera::ops_benchmark

int main(int argc, char** argv) {
  namespace cases = tessera::ops_benchmark;
  for (const auto& c : cases::LayerCases()) cases::AddCases(c);
  for (const auto& c : cases::RowsCases()) cases::AddRowsCase(c);
  cases::AddPeerCases();
  return tessera::benchmarking::RunAll(argc, argv);
}
