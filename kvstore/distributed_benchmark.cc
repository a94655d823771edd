// Many workers on one machine: sums beside MPI_Allreduce, training beside as many independent
// processes, and how much of a step's communication hides behind its computation.
//
// The sums' sizes: a bucket of small keys, one piece, several pieces, and more than the caches
// hold. Two ranks suit the two cores of the machine for which the bounds are stated; four show
// more.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/kvstore/testing/simulated_communicator.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::DataPath;
using benchmarking::PeerProcess;
using benchmarking::PeerVariant;
using benchmarking::Sizes;
using benchmarking::Variant;
using benchmarking::Variants;
using std::chrono::microseconds;

/// Has mpirun start processes as tests do: as root, more than there are cores, and not bound to a
/// core each. What the environment says already stays.
void SetUpMpi() {
  for (const auto& [name, value] : {
           std::pair("OMPI_ALLOW_RUN_AS_ROOT", "1"),
           std::pair("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
           std::pair("OMPI_MCA_rmaps_base_oversubscribe", "1"),
           std::pair("OMPI_MCA_hwloc_base_binding_policy", "none"),
           std::pair("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
       }) {
    setenv(name, value, /*overwrite=*/0);
  }
  const auto library = std::filesystem::absolute(DataPath("kvstore/mpi/libtessera_mpi.so"));
  setenv("TESSERA_MPI_LIBRARY", library.c_str(), /*overwrite=*/0);
}

void AddSum(const std::string& name, int64_t size_bytes, int ranks, double bound) {
  AddCase({.name = "sum/" + name + "/" + std::to_string(ranks) + "_ranks",
           .bounds = {{.peer = "mpi_allreduce", .at_least = bound}},
           .bytes = static_cast<double>(size_bytes),
           .make = [size_bytes, ranks] {
             // The job ends with the case, so that its polling disturbs no other.
             const auto job = PeerProcess::Run(
                 {"mpirun", "-n", std::to_string(ranks), DataPath("kvstore/mpi/benchmark_worker")});
             const std::string size = std::to_string(size_bytes);
             return Variants{.all = {PeerVariant("ours", job, "ours/" + size),
                                     PeerVariant("mpi_allreduce", job, "mpi/" + size)}};
           }});
}

/// Trains the digits' convolutional network in two processes of one thread each. Returns the
/// seconds that a process takes for 1000 images in its best epoch.
double SecondsOfDigits(const std::string& kvstore) {
  const std::string command = "TESSERA_NUM_THREADS=1 mpirun -n 2 '" +
                              DataPath("examples/digits/digits") + "' --kvstore=" + kvstore +
                              " --epochs=4";
  FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("no process can be started");
  double sum = 0;
  int processes = 0;
  char line[256];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    double images_per_second = 0;
    if (std::sscanf(line, "images_per_second=%lf", &images_per_second) != 1) continue;
    sum += images_per_second;
    ++processes;
  }
  if (pclose(output) != 0 || processes == 0) throw std::runtime_error("failed: " + command);
  return 1000 * processes / sum;
}

void AddDigits() {
  const auto variant = [](const std::string& name, const std::string& kvstore) {
    return Variant::Timed(name, [kvstore](int64_t count) {
      double seconds = 0;
      for (int64_t i = 0; i < count; ++i) seconds += SecondsOfDigits(kvstore);
      return seconds;
    });
  };
  AddCase({.name = "training/digits_cnn/2_ranks",
           .bounds = {{.peer = "independent", .at_least = 0.9}},
           .items = 1000,
           .make = [variant] {
             return Variants{.all = {variant("ours", "dist_sync"), variant("independent", "none")}};
           }});
}

/// Training steps of two ranks in this process. A layer's computations are operations that keep a
/// thread of the engine for a fixed time, so that what the exchange of gradients does beside them
/// does not slow them down.
class Steps {
 public:
  explicit Steps(bool exchanges) : group_(kRanks, kNetwork), stores_(kRanks), ranks_(kRanks) {
    for (Rank& rank : ranks_) {
      rank.chain = Filled(1, 0);
      for (int i = 0; i < kLayers; ++i) {
        rank.layers.push_back({Filled(kSize, 1), Filled(kSize, 1)});
      }
    }
    if (!exchanges) return;
    group_.RunRanks([this](const std::shared_ptr<Communicator>& communicator) {
      const auto r = static_cast<size_t>(communicator->rank());
      stores_[r] = KVStore::Create("dist_sync", communicator);
      stores_[r]->set_updater([](const KVKey&, const NDArray& received, const NDArray& stored) {
        NDArray weight = stored;  // a handle
        weight -= received * kRate;
      });
      for (int i = 0; i < kLayers; ++i) {
        stores_[r]->Init(i, ranks_[r].layers[static_cast<size_t>(i)].weight);
      }
    });
  }
  ~Steps() {
    group_.RunRanks([this](const std::shared_ptr<Communicator>& communicator) {
      stores_[static_cast<size_t>(communicator->rank())].reset();
    });
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  /// Runs steps, and waits for the last one.
  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (size_t r = 0; r < ranks_.size(); ++r) Step(ranks_[r], stores_[r].get());
    }
    NDArray::WaitAll();
  }

  bool RanksAgree() const {
    for (size_t i = 0; i < kLayers; ++i) {
      if (ranks_[0].layers[i].weight.ToVector() != ranks_[1].layers[i].weight.ToVector()) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Layer {
    NDArray weight;
    NDArray gradient;
  };
  struct Rank {
    std::vector<Layer> layers;
    NDArray chain;  // what a layer hands to the next
  };

  static constexpr int kRanks = 2, kLayers = 16;
  static constexpr index_t kSize = 65536;
  static constexpr float kRate = 1e-3f;
  static constexpr microseconds kForward{1000}, kBackward{2000};
  /// The gradients take half of the backward pass's time: of n bytes, a rank of two sends n.
  static constexpr kvstore_testing::SimulatedNetwork kNetwork{
      .latency = microseconds(20),
      .bytes_per_second = 4 * kSize / (0.5 * kBackward.count() * 1e-6)};

  static NDArray Filled(index_t size, float value) {
    NDArray array({size});
    array = value;
    return array;
  }

  static void Compute(const NDArray& input, std::vector<Variable*> outputs, microseconds time) {
    Engine::Get()->PushSync([time](RunContext) { std::this_thread::sleep_for(time); },
                            Device::Cpu(), {input.var()}, std::move(outputs), {.name = "layer"});
  }

  static void Step(Rank& rank, KVStore* store) {
    for (const Layer& layer : rank.layers) Compute(layer.weight, {rank.chain.var()}, kForward);
    for (size_t i = rank.layers.size(); i-- > 0;) {
      const Layer& layer = rank.layers[i];
      Compute(layer.weight, {rank.chain.var(), layer.gradient.var()}, kBackward);
    }
    for (int i = 0; i < kLayers; ++i) {
      Layer& layer = rank.layers[static_cast<size_t>(i)];
      if (store != nullptr) {
        store->Push(i, layer.gradient, -i);
        store->Pull(i, layer.weight, -i);
      } else {
        layer.weight -= layer.gradient * kRate;
      }
    }
  }

  kvstore_testing::SimulatedGroup group_;
  std::vector<std::unique_ptr<KVStore>> stores_;
  std::vector<Rank> ranks_;
};

void AddOverlap() {
  constexpr int kSteps = 4;
  AddCase({.name = "overlap/half_of_backward",
           .bounds = {{.peer = "without", .at_least = 1 / 1.1}},
           .items = kSteps,
           .make = [] {
             const auto exchanging = std::make_shared<Steps>(true);
             const auto alone = std::make_shared<Steps>(false);
             return Variants{.all = {{"ours", [exchanging] { exchanging->Run(kSteps); }},
                                     {"without", [alone] { alone->Run(kSteps); }}},
                             .results_agree = [exchanging] { return exchanging->RanksAgree(); }};
           }});
}

double ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Steps after the first ones, in which the pools fill, take no more memory.
void AddMemory() {
  AddCase({.name = "memory/resident_after_100_steps",
           .bounds = {{.peer = "after_10_steps", .at_least = 0.99}},
           .sizes = [] {
             Steps steps(true);
             for (int i = 0; i < 10; ++i) steps.Run(1);
             const double before = ResidentBytes();
             for (int i = 0; i < 90; ++i) steps.Run(1);
             return Sizes{.ours = ResidentBytes(), .peer = before};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  SetUpMpi();
  for (const int ranks : {2, 4}) {
    const bool is_judged = ranks == 2;
    AddSum("64_KiB", int64_t{64} << 10, ranks, 0);
    AddSum("1_MiB", int64_t{1} << 20, ranks, is_judged ? 0.7 : 0);
    AddSum("16_MiB", int64_t{16} << 20, ranks, is_judged ? 0.9 : 0);
    AddSum("64_MiB", int64_t{64} << 20, ranks, is_judged ? 0.9 : 0);
  }
  AddDigits();
  AddOverlap();
  AddMemory();
  return benchmarking::RunAll(argc, argv);
}
