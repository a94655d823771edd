// Programs in MXNet's Python on our library (//:mxnet_c_api), beside the same programs on MXNet's
// own. Each library is in a process of its own (mxnet_python_peer.py), and they work in turns on
// the same cores; TESSERA_PEER_PYTHON names an interpreter that has mxnet. Sizes: the networks of
// //examples/digits in batches of 32, sixteen steps a run; small arrays, where a call's fixed cost
// is everything; recurrent networks, where arithmetic is.
//
// Names with a slash are networks (mxnet_networks.py), which MXNet saves and PyTorch runs too
// (torch_network_peer.py). There both peers have as many threads as the machine; MXNet by itself
// may take half as many.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Bound;
using benchmarking::PeerProcess;
using benchmarking::Variants;

constexpr char kScript[] = "benchmarks/peers/mxnet_python_peer.py";
constexpr char kTorchScript[] = "benchmarks/peers/torch_network_peer.py";
constexpr char kLibrary[] = "compat/mxnet/libtessera_mxnet.so";
// Several steps of training pass on how sums were rounded.
constexpr double kTolerance = 0.01;

/// A variant's name and its process, ours first.
using Side = std::pair<std::string, std::shared_ptr<PeerProcess>>;

/// Returns the variants of a case that all sides have prepared.
Variants PreparedVariants(const std::string& name, const std::vector<Side>& sides) {
  Variants variants;
  for (const auto& [variant, process] : sides) {
    variants.all.push_back(benchmarking::PeerVariant(variant, process, name));
  }
  variants.results_agree = [name, sides] {
    const double ours = sides[0].second->Ask("check " + name);
    bool agree = std::isfinite(ours);
    for (size_t i = 1; i < sides.size(); ++i) {
      const double theirs = sides[i].second->Ask("check " + name);
      if (std::abs(ours - theirs) <= kTolerance * std::abs(theirs)) continue;
      std::fprintf(stderr, "results of %s: ours %g, those of %s %g\n", name.c_str(), ours,
                   sides[i].first.c_str(), theirs);
      agree = false;
    }
    return agree;
  };
  return variants;
}

/// Registers a case of the script's. Without a bound it is a figure beside MXNet's.
void AddProgram(const Side& ours, const Side& mxnet, const std::string& name, double at_least,
                double items) {
  AddCase({.name = name,
           .bounds = {{.peer = "mxnet", .at_least = at_least}},
           .items = items,
           .make = [=] {
             for (const Side& side : {ours, mxnet}) side.second->Ask("make " + name);
             return PreparedVariants(name, {ours, mxnet});
           }});
}

/// The libraries that run a network. PyTorch may be missing.
struct NetworkSides {
  Side ours, mxnet, torch;
};

/// Prepares a network on both of MXNet's libraries, and in PyTorch what MXNet has saved of it.
Variants MakeNetwork(const NetworkSides& sides, const std::string& name) {
  std::vector<Side> present = {sides.ours, sides.mxnet};
  for (const Side& side : present) side.second->Ask("make " + name);
  if (sides.torch.second != nullptr) {
    namespace fs = std::filesystem;
    std::string folder = fs::temp_directory_path() / "tessera_network_XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder " + folder);
    const std::shared_ptr<void> remove(nullptr, [folder](void*) { fs::remove_all(folder); });
    sides.mxnet.second->Ask("save " + name + " " + folder + "/network");
    sides.torch.second->Ask("make " + name + " " + folder + "/network");
    present.push_back(sides.torch);
  }
  return PreparedVariants(name, present);
}

/// Registers a network, bounded by the faster of both peers.
void AddNetwork(const NetworkSides& sides, const std::string& name, double at_least, double items) {
  AddCase({.name = name,
           .bounds = {{.peer = Bound::kBest, .at_least = at_least}},
           .items = items,
           .make = [sides, name] { return MakeNetwork(sides, name); }});
}

void AddNetworks(const NetworkSides& sides) {
  // A bound of 0 only prints the figures.
  constexpr double kNoBound = 0;
  for (const char* const model : {"resnet18_v1", "resnet50_v1", "mobilenetv2_1.0", "densenet121",
                                  "squeezenet1.0", "vgg11", "inceptionv3", "alexnet"}) {
    AddNetwork(sides, std::string("net_f1/") + model, 1.0, 1);
  }
  AddNetwork(sides, "net_f8/resnet50_v1", kNoBound, 8);
  AddNetwork(sides, "net_f8/mobilenetv2_1.0", kNoBound, 8);
  AddNetwork(sides, "net_train8_224/resnet18_v1", 0.95, 8);
  AddNetwork(sides, "net_train8_224/mobilenetv2_1.0", 0.95, 8);
  AddNetwork(sides, "net_train32_32/resnet18_v1", 0.95, 32);
  AddNetwork(sides, "transformer_f/8x128x256x4", kNoBound, 8 * 128);
  AddNetwork(sides, "transformer_train/8x128x256x4", kNoBound, 8 * 128);
  AddNetwork(sides, "graph/8_elementwise_16Mi", kNoBound, 1 << 24);
  AddNetwork(sides, "graph/gelu_tanh_4Mi", kNoBound, 1 << 22);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::Side;
  using tessera::benchmarking::DataPath;
  using tessera::benchmarking::PeerProcess;
  const std::string threads = std::to_string(std::max(1u, std::thread::hardware_concurrency()));
  const Side ours("ours", PeerProcess::Get(tessera::kScript, DataPath(tessera::kLibrary)));
  const Side mxnet("mxnet", PeerProcess::Get(tessera::kScript, "mxnet"));
  if (ours.second == nullptr || mxnet.second == nullptr) {
    benchmark::AddCustomContext("missing mxnet's Python",
                                "no interpreter has it, or it loads no library");
  } else {
    constexpr double kImages = 32 * 16, kLoopSteps = 1000;
    tessera::AddProgram(ours, mxnet, "nd_dispatch", 1, 1000);
    tessera::AddProgram(ours, mxnet, "perceptron_module_fit", 1, kImages);
    tessera::AddProgram(ours, mxnet, "perceptron_gluon", 1, kImages);
    tessera::AddProgram(ours, mxnet, "convolutional_gluon", 1, kImages);
    tessera::AddProgram(ours, mxnet, "lstm", 1, 2 * 32);
    tessera::AddProgram(ours, mxnet, "foreach_16", 3, kLoopSteps);
    tessera::AddProgram(ours, mxnet, "foreach_lstm", 1, 8 * kLoopSteps);
    tessera::AddProgram(ours, mxnet, "image_record_iter", 1, 4 * 32);
    tessera::AddNetworks(
        {.ours = ours,
         .mxnet = {"mxnet", PeerProcess::Get(tessera::kScript, "mxnet:" + threads)},
         .torch = {"torch", PeerProcess::Get(tessera::kTorchScript, "torch:" + threads)}});
  }
  return tessera::benchmarking::RunAll(argc, argv);
}
