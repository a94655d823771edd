// Imperative calls, the tape, executors and compiled functions beside MXNet 1.9.1 and PyTorch.
// These run in processes of their own (TESSERA_PEER_PYTHON names interpreters that have them), in
// turns on the same two cores. Sizes: 16 elements, where a call's fixed cost is everything; the
// networks of //examples/digits in batches of 32; residual networks, where arithmetic is. One of
// these trains with a quarter of the memory, beside itself with all of it.
//
// Networks start from the same numbers everywhere; after the first run the results are compared.
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/benchmark/fused_cases.h"
#include "tessera/symbol/benchmark/networks.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Bound;
using benchmarking::Side;
using benchmarking::Variants;

constexpr int kCalls = 10000;
constexpr index_t kBatch = 32;
constexpr index_t kSteps = 16;

double SumOfSquares(const NDArray& array) {
  double sum = 0;
  for (const float value : array.ToVector()) sum += static_cast<double>(value) * value;
  return sum;
}

double Sum(const NDArray& array) {
  double sum = 0;
  for (const float value : array.ToVector()) sum += value;
  return sum;
}

/// Returns the first values of an argument, those of contents() in framework_peer.py.
std::vector<float> FirstValues(const std::string& name, size_t number, const TShape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.Size()), 0.0f);
  if (name.ends_with("gamma") || name.ends_with("var")) {
    values.assign(values.size(), 1.0f);
  } else if (!name.ends_with("beta") && !name.ends_with("bias") && !name.ends_with("mean") &&
             !name.ends_with("label")) {
    const double fan_in = static_cast<double>(shape.Size()) / static_cast<double>(shape[0]);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t word =
          static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(number) * 40503u;
      const double value = word / 2147483648.0 - 1;
      values[i] =
          static_cast<float>(name == "data" ? std::abs(value) : value * std::sqrt(6 / fan_in));
    }
  }
  return values;
}

/// A new file's name, for a network that peers read.
std::string NetworkFile(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("tessera_" + std::to_string(getpid()) + "_" + name + ".json"))
      .string();
}

/// The peers of a case and what they are given.
struct PeersOf {
  std::vector<std::string> frameworks;
  Symbol network = {};
  TShape data = TShape{1};
};

/// Returns ours and the peers as variants whose results agree.
Variants MakeVariants(const std::string& name, const Side& ours, const PeersOf& peers) {
  std::string file = "none", shape;
  if (!peers.network.is_none()) {
    file = NetworkFile(name);
    peers.network.Save(file);
  }
  for (const index_t extent : peers.data)
    shape += (shape.empty() ? "" : ",") + std::to_string(extent);
  Variants variants = benchmarking::BesidePeers(name, ours,
                                                {.script = "symbol/benchmark/framework_peer.py",
                                                 .frameworks = peers.frameworks,
                                                 .arguments = file + " " + shape});
  if (file != "none") std::filesystem::remove(file);
  return variants;
}

std::pair<NDArray, NDArray> SmallArrays() {
  std::vector<float> a(16);
  for (size_t i = 0; i < a.size(); ++i) a[i] = -1 + 2 * static_cast<float>(i) / 15;
  return {NDArray::FromVector(a, {16}), NDArray::FromVector(std::vector<float>(16, 0.5f), {16})};
}

Side Add(bool taped) {
  auto [a, b] = SmallArrays();
  if (taped) a.AttachGrad();
  const auto last = std::make_shared<NDArray>();
  const auto run = [a = a, b = b, last] {
    for (int i = 0; i < kCalls; ++i) *last = a + b;
    last->WaitToRead();
  };
  const auto run_taped = [run] {
    const autograd::Record record;
    run();
  };
  return {taped ? std::function<void()>(run_taped) : run, [last] { return Sum(*last); }};
}

Side ChainOnTape() {
  auto [a, b] = SmallArrays();
  a.AttachGrad();
  const auto run = [a = a, b = b] {
    NDArray x = a;
    {
      const autograd::Record record;
      for (int i = 0; i < benchmarking::kChainLayers; i += 4) {
        x = Invoke("relu", {(x + 0.01f) * 0.99f})[0] + b;
      }
    }
    x.Backward();
    a.grad().WaitToRead();
  };
  return {run, [a = a] { return Sum(a.grad()); }};
}

Side ChainByExecutor() {
  const auto [a, b] = SmallArrays();
  const NDArray gradient(TShape{16}), one = NDArray::FromVector(std::vector<float>(16, 1.0f), {16});
  const std::shared_ptr<Executor> executor = Bind(
      benchmarking::Chain(), Device::Cpu(),
      {.arguments = {a, b}, .gradients = {gradient, {}}, .grad_requests = {kWriteTo, kNullOp}});
  const auto run = [executor, gradient, one] {
    executor->Forward(/*is_train=*/true);
    executor->Backward({one});
    gradient.WaitToRead();
  };
  return {run, [gradient] { return Sum(gradient); }};
}

Side ChainByCachedOp() {
  auto [a, b] = SmallArrays();
  a.AttachGrad();
  const auto function = std::make_shared<const CachedOp>(benchmarking::Chain());
  const auto run = [a = a, b = b, function] {
    NDArray x;
    {
      const autograd::Record record;
      x = (*function)({a, b})[0];
    }
    x.Backward();
    a.grad().WaitToRead();
  };
  return {run, [a = a] { return Sum(a.grad()); }};
}

/// Fills arguments or states with their first values.
void FillWithFirstValues(const std::vector<std::string>& names, const std::vector<NDArray>& arrays,
                         bool are_states) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<float> values = FirstValues(names[i], are_states ? 0 : i, arrays[i].shape());
    NDArray(arrays[i]).SyncCopyFromCPU(values.data(), static_cast<index_t>(values.size()));
  }
}

std::shared_ptr<Executor> BindWithFirstValues(const Symbol& network, const TShape& data,
                                              OpReqType req, int64_t memory_budget_bytes = 0) {
  std::shared_ptr<Executor> executor = SimpleBind(network, Device::Cpu(),
                                                  {.shapes = {{"data", data}},
                                                   .grad_req = req,
                                                   .no_gradient = {"data", "softmax_label"},
                                                   .memory_budget_bytes = memory_budget_bytes});
  FillWithFirstValues(network.ListArguments(), executor->arg_arrays(), false);
  FillWithFirstValues(network.ListAuxiliaryStates(), executor->aux_arrays(), true);
  return executor;
}

/// Training by an executor and gradient descent with momentum, over the same few batches each time.
class Training {
 public:
  Training(const Symbol& network, const TShape& batch, index_t steps,
           int64_t memory_budget_bytes = 0)
      : executor_(BindWithFirstValues(network, batch, kWriteTo, memory_budget_bytes)) {
    TShape all = batch;
    all[0] *= steps;
    data_ = NDArray::FromVector(FirstValues("data", 0, all), all);
    const index_t classes = executor_->outputs()[0].shape()[1];
    std::vector<float> labels;
    for (index_t step = 0; step < steps; ++step) {
      for (index_t i = 0; i < batch[0]; ++i)
        labels.push_back(static_cast<float>((i * 7 + step * 3) % classes));
    }
    labels_ = NDArray::FromVector(labels, {batch[0] * steps});
    std::vector<NDArray> inputs, weights;
    std::string rates, decays;
    for (size_t i = 0; i < executor_->arg_arrays().size(); ++i) {
      const NDArray& weight = executor_->arg_arrays()[i];
      const NDArray& gradient = executor_->grad_arrays()[i];
      if (gradient.is_none()) continue;
      NDArray momentum(weight.shape());
      momentum = 0.0f;
      inputs.insert(inputs.end(), {weight, gradient, momentum});
      weights.push_back(weight);
      rates += "0.01,";
      decays += "0.0001,";
    }
    const auto property = OperatorRegistry::Get().Create(
        "multi_sgd_mom_update",
        {{"num_weights", std::to_string(weights.size())},
         {"lrs", "(" + rates + ")"},
         {"wds", "(" + decays + ")"},
         {"momentum", "0.9"},
         {"rescale_grad", std::to_string(1.0 / static_cast<double>(batch[0]))}});
    update_ = std::make_unique<BoundOperator>(*property, inputs, weights);
  }

  void Run() {
    const NDArray data = executor_->arg_dict().at("data");
    const NDArray label = executor_->arg_dict().at("softmax_label");
    const index_t batch = data.shape()[0];
    for (index_t first = 0; first < data_.shape()[0]; first += batch) {
      CopyFromTo(data_.Slice(first, first + batch), data);
      CopyFromTo(labels_.Slice(first, first + batch), label);
      executor_->Forward(/*is_train=*/true);
      executor_->Backward();
      update_->Run(/*is_train=*/true);
    }
    Engine::Get()->WaitForAll();
  }

  double Check() const { return SumOfSquares(executor_->outputs()[0]); }
  int64_t planned_bytes() const { return executor_->memory_plan().planned_bytes; }

 private:
  const std::shared_ptr<Executor> executor_;
  NDArray data_, labels_;
  std::unique_ptr<BoundOperator> update_;  // of all weights
};

Side Train(const Symbol& network, const TShape& batch, index_t steps) {
  const auto training = std::make_shared<Training>(network, batch, steps);
  return {[training] { training->Run(); }, [training] { return training->Check(); }};
}

Side Infer(const Symbol& network, const TShape& batch) {
  const auto executor = BindWithFirstValues(network, batch, kNullOp);
  const auto run = [executor] {
    executor->Forward(/*is_train=*/false);
    executor->outputs()[0].WaitToRead();
  };
  return {run, [executor] { return SumOfSquares(executor->outputs()[0]); }};
}

/// Binding alone: all arrays exist.
Side BindResNet152() {
  const Symbol network = benchmarking::ResNet(benchmarking::kResNet152);
  const InferredShapes shapes = network.InferShape({{"data", {1, 3, 224, 224}}});
  BindArguments arrays;
  for (const TShape& shape : shapes.arguments) {
    arrays.arguments.emplace_back(shape);
    arrays.gradients.emplace_back(shape);
  }
  for (const TShape& shape : shapes.aux_states) arrays.aux_states.emplace_back(shape);
  const auto last = std::make_shared<std::unique_ptr<Executor>>();
  return {[network, arrays, last] { *last = Bind(network, Device::Cpu(), arrays); },
          [last] { return static_cast<double>((*last)->outputs()[0].shape()[1]); }};
}

void AddSmallCases() {
  AddCase({.name = "add",
           .bounds = {{.peer = "mxnet", .at_least = 1}},
           .items = kCalls,
           .limit_seconds = 1.5e-6 * kCalls,
           .make = [] {
             return MakeVariants("add", Add(false), {{"mxnet", "torch"}});
           }});
  AddCase({.name = "add_taped",
           .bounds = {{.peer = "mxnet", .at_least = 1}},
           .items = kCalls,
           .limit_seconds = 2.5e-6 * kCalls,
           .make = [] {
             return MakeVariants("add_taped", Add(true), {{"mxnet", "torch"}});
           }});
  AddCase({.name = "chain_tape",
           .bounds = {{.peer = Bound::kBest, .at_least = 3.5}},
           .items = benchmarking::kChainLayers,
           .make = [] {
             return MakeVariants("chain_tape", ChainOnTape(), {{"mxnet", "torch"}});
           }});
  const PeersOf mxnet{.frameworks = {"mxnet"}, .network = benchmarking::Chain()};
  AddCase({.name = "chain_executor",
           .bounds = {{.peer = "mxnet", .at_least = 7}},
           .items = benchmarking::kChainLayers,
           .make = [mxnet] { return MakeVariants("chain_executor", ChainByExecutor(), mxnet); }});
  AddCase({.name = "chain_cached_op",
           .bounds = {{.peer = "mxnet", .at_least = 10}},
           .items = benchmarking::kChainLayers,
           .make = [mxnet] { return MakeVariants("chain_cached_op", ChainByCachedOp(), mxnet); }});
}

void AddTraining(const std::string& name, const Symbol& network, const TShape& batch, index_t steps,
                 double at_least) {
  AddCase({.name = name,
           .bounds = {{.peer = Bound::kBest, .at_least = at_least}},
           .items = static_cast<double>(batch[0] * steps),
           .make = [=] {
             return MakeVariants(name, Train(network, batch, steps),
                                 {{"mxnet", "torch"}, network, batch});
           }});
}

/// Adds training with `part` of the memory of all results beside training that stores them.
void AddRecomputed(const std::string& name, const Symbol& network, const TShape& batch, double part,
                   double at_least) {
  AddCase(
      {.name = name,
       .bounds = {{.peer = "stored", .at_least = at_least}},
       .items = static_cast<double>(batch[0]),
       .make = [=] {
         const auto stored = std::make_shared<Training>(network, batch, /*steps=*/1);
         const double budget = part * static_cast<double>(stored->planned_bytes());
         const auto recomputed =
             std::make_shared<Training>(network, batch, /*steps=*/1, static_cast<int64_t>(budget));
         return Variants{.all = {{"ours", [recomputed] { recomputed->Run(); }},
                                 {"stored", [stored] { stored->Run(); }}},
                         .results_agree = [=] { return recomputed->Check() == stored->Check(); }};
       }});
}

void AddNetworkCases() {
  using benchmarking::ResNet;
  AddTraining("perceptron", benchmarking::Perceptron(), {kBatch, 64}, kSteps, 12);
  AddTraining("convolutional", benchmarking::ConvolutionalNetwork(), {kBatch, 1, 8, 8}, kSteps, 2);
  AddTraining("resnet18_training", ResNet(benchmarking::kResNet18OfSmallImages),
              {kBatch, 3, 32, 32}, 1, 1);
  AddCase({.name = "resnet50_inference",
           .bounds = {{.peer = Bound::kBest, .at_least = 1.2}},
           .items = 1,
           .make = [] {
             const Symbol network = ResNet(benchmarking::kResNet50);
             const TShape image = {1, 3, 224, 224};
             return MakeVariants("resnet50_inference", Infer(network, image),
                                 {{"mxnet", "torch"}, network, image});
           }});
  AddRecomputed("resnet200_recomputed", ResNet(benchmarking::kResNet200), {4, 3, 224, 224}, 0.25,
                1 / 1.40);
  AddCase({.name = "bind_resnet152", .items = 1, .limit_seconds = 0.015, .make = [] {
             return MakeVariants("bind_resnet152", BindResNet152(), {});
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::AddSmallCases();
  tessera::benchmarking::AddFusedCases();
  tessera::AddNetworkCases();
  return tessera::benchmarking::RunAll(argc, argv);
}
