#include "tessera/train/benchmark/optimizer_cases.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"
#include "tessera/train/optimizers.h"

namespace tessera::benchmarking {
namespace {

constexpr index_t kManyWeights = index_t{16} << 20;
constexpr int kArrays = 100;
constexpr index_t kFewWeights = 1000;

/// An optimizer, and what its step moves.
struct Kind {
  std::string name;
  /// Arrays of the weights' size that a step reads and writes: weight and gradient, the states, and
  /// what a second pass over them takes if norms are needed first.
  int arrays;
  std::function<std::shared_ptr<Optimizer>()> make;
  std::vector<std::string> frameworks = {"mxnet", "torch"};
};

/// Returns what makes an optimizer with gradients as they are.
template <typename Made, typename Options>
std::function<std::shared_ptr<Optimizer>()> MakerOf(Options options, double learning_rate) {
  options.learning_rate = learning_rate;
  options.rescale_grad = 1;
  return [options] { return std::make_shared<Made>(options); };
}

std::vector<Kind> Kinds() {
  SgdOptions momentum;
  momentum.momentum = 0.9;
  LarsOptions lars;
  lars.momentum = 0.9;
  RmsPropOptions centered;
  centered.centered = true;
  const std::vector<std::string> mxnet = {"mxnet"}, torch = {"torch"};
  return {
      {"sgd", 3, MakerOf<Sgd>(SgdOptions(), 0.01)},
      {"sgd_momentum", 5, MakerOf<Sgd>(momentum, 0.01)},
      {"nag", 5, MakerOf<Nag>(NagOptions(), 0.01)},
      {"signum", 5, MakerOf<Signum>(SignumOptions(), 0.01), mxnet},
      // The norms read weight and gradient.
      {"lars", 7, MakerOf<Lars>(lars, 0.01), mxnet},
      {"adam", 7, MakerOf<Adam>(AdamOptions(), 0.001)},
      {"adamw", 7, MakerOf<AdamW>(AdamWOptions(), 0.001), torch},
      {"adamax", 7, MakerOf<Adamax>(AdamaxOptions(), 0.002)},
      // The first pass updates both states, the second reads them and the weight again.
      {"lamb", 10, MakerOf<Lamb>(LambOptions(), 0.001), mxnet},
      {"adagrad", 5, MakerOf<AdaGrad>(AdaGradOptions(), 0.01)},
      {"adadelta", 7, MakerOf<AdaDelta>(AdaDeltaOptions(), 1)},
      {"rmsprop", 5, MakerOf<RmsProp>(RmsPropOptions(), 0.001)},
      {"rmsprop_centered", 9, MakerOf<RmsProp>(centered, 0.001)},
      {"ftrl", 7, MakerOf<Ftrl>(FtrlOptions(), 0.1), mxnet},
      {"ftml", 9, MakerOf<Ftml>(FtmlOptions(), 0.0025), mxnet},
  };
}

/// Returns numbers in [-1, 1), those of uniform() in training_peer.py.
std::vector<float> Uniform(index_t size, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t word = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u;
    values[i] = static_cast<float>(word / 2147483648.0 - 1);
  }
  return values;
}

/// Weights of an optimizer, with gradients that stay.
class Steps {
 public:
  Steps(const Kind& kind, int arrays, index_t size) : optimizer_(kind.make()) {
    for (int i = 0; i < arrays; ++i) {
      const uint32_t seed = 2 * static_cast<uint32_t>(i);
      updates_.push_back({.index = i,
                          .weight = NDArray::FromVector(Uniform(size, seed), {size}),
                          .grad = NDArray::FromVector(Uniform(size, seed + 1), {size})});
    }
  }

  void Run() {
    optimizer_->UpdateAll(updates_);
    Engine::Get()->WaitForAll();
  }

  /// Returns the sum of the distances that the weights have moved.
  double Moved() const {
    double sum = 0;
    for (const ParameterUpdate& update : updates_) {
      const std::vector<float> first =
          Uniform(update.weight.shape()[0], 2 * static_cast<uint32_t>(update.index));
      const std::vector<float> now = update.weight.ToVector();
      for (size_t i = 0; i < now.size(); ++i) sum += std::abs(double{now[i]} - double{first[i]});
    }
    return sum;
  }

 private:
  const std::shared_ptr<Optimizer> optimizer_;
  std::vector<ParameterUpdate> updates_;
};

/// A copy that moves as many bytes as a step: half of an array is read and written for each array.
class Copy {
 public:
  explicit Copy(int arrays)
      : arrays_(arrays), from_(Shape1(kManyWeights), 1.f), to_(Shape1(kManyWeights), 0.f) {}

  void Run() {
    for (int i = 0; i < arrays_; ++i) {
      const index_t begin = i % 2 * kManyWeights / 2, end = begin + kManyWeights / 2;
      Tensor<cpu, 1, float> to = to_.Slice(begin, end);
      to = F<op::identity>(from_.Slice(begin, end));
    }
  }

 private:
  const int arrays_;
  TensorContainer<cpu, 1, float> from_, to_;
};

void AddManyWeights(const Kind& kind) {
  AddCase({.name = "step_" + kind.name + "/16Mi",
           .bounds = {{.peer = "copy", .at_least = 0.8}},
           .bytes = static_cast<double>(kind.arrays) * sizeof(float) * kManyWeights,
           .items = kManyWeights,
           .make = [kind] {
             const auto steps = std::make_shared<Steps>(kind, 1, kManyWeights);
             const auto copy = std::make_shared<Copy>(kind.arrays);
             return Variants{
                 .all = {{"ours", [steps] { steps->Run(); }}, {"copy", [copy] { copy->Run(); }}}};
           }});
}

void AddManyArrays(const Kind& kind) {
  AddCase({.name = "step_" + kind.name + "/100x1000",
           .bounds = {{.peer = Bound::kBest, .at_least = 2}},
           .items = kArrays,
           .make = [kind] {
             const auto steps = std::make_shared<Steps>(kind, kArrays, kFewWeights);
             return BesidePeers(
                 "step_" + kind.name,
                 {.run = [steps] { steps->Run(); }, .check = [steps] { return steps->Moved(); }},
                 {.script = "train/benchmark/training_peer.py", .frameworks = kind.frameworks});
           }});
}

}  // namespace

void AddOptimizerCases() {
  for (const Kind& kind : Kinds()) {
    AddManyWeights(kind);
    AddManyArrays(kind);
  }
}

}  // namespace tessera::benchmarking
