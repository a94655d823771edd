// Programs in MXNet's Python on our library (//:mxnet_c_api), beside the same programs on MXNet's
// own. Each library is in a process of its own (mxnet_python_peer.py), and they work in turns on
// the same cores; TESSERA_PEER_PYTHON names an interpreter that has mxnet. Sizes: the networks of
// //examples/digits in batches of 32, sixteen steps a run; small arrays, where a call's fixed cost
// is everything; recurrent and residual networks, where arithmetic is.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "benchmark/benchmark.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::PeerProcess;
using benchmarking::Variants;

constexpr char kScript[] = "benchmarks/peers/mxnet_python_peer.py";
constexpr char kLibrary[] = "compat/mxnet/libtessera_mxnet.so";
// Several steps of training pass on how sums were rounded.
constexpr double kTolerance = 0.01;

struct Sides {
  std::shared_ptr<PeerProcess> ours, peer;
};

Variants MakeVariants(const std::string& name, const Sides& sides) {
  Variants variants;
  for (const auto& [variant, process] : {std::pair("ours", sides.ours), {"mxnet", sides.peer}}) {
    process->Ask("make " + name);
    variants.all.push_back(benchmarking::PeerVariant(variant, process, name));
  }
  variants.results_agree = [name, sides] {
    const double ours = sides.ours->Ask("check " + name);
    const double theirs = sides.peer->Ask("check " + name);
    const bool agree = std::abs(ours - theirs) <= kTolerance * std::abs(theirs);
    if (!agree)
      std::fprintf(stderr, "results of %s: ours %g, MXNet's %g\n", name.c_str(), ours, theirs);
    return agree;
  };
  return variants;
}

/// Registers a case of the script's. Without a bound it is a figure beside MXNet's.
void AddProgram(const Sides& sides, const std::string& name, double at_least, double items) {
  AddCase({.name = name,
           .bounds = {{.peer = "mxnet", .at_least = at_least}},
           .items = items,
           .make = [name, sides] { return MakeVariants(name, sides); }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using tessera::benchmarking::DataPath;
  const tessera::Sides sides{
      .ours = tessera::PeerProcess::Get(tessera::kScript, DataPath(tessera::kLibrary)),
      .peer = tessera::PeerProcess::Get(tessera::kScript, "mxnet")};
  if (sides.ours == nullptr || sides.peer == nullptr) {
    benchmark::AddCustomContext("missing mxnet's Python",
                                "no interpreter has it, or it loads no library");
  } else {
    constexpr double kImages = 32 * 16;
    tessera::AddProgram(sides, "nd_dispatch", 1, 1000);
    tessera::AddProgram(sides, "perceptron_module_fit", 1, kImages);
    tessera::AddProgram(sides, "perceptron_gluon", 1, kImages);
    tessera::AddProgram(sides, "convolutional_gluon", 1, kImages);
    tessera::AddProgram(sides, "lstm", 1, 2 * 32);
    tessera::AddProgram(sides, "resnet18", 0, 32);
  }
  return tessera::benchmarking::RunAll(argc, argv);
}
