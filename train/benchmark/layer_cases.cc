#include "tessera/train/benchmark/layer_cases.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/tools/benchmark/peer_process.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/nn.h"
#include "tessera/train/sgd.h"

namespace tessera::benchmarking {
namespace {

// Two steps in a run, so that the second loss shows the first update.
constexpr int kSteps = 2;

constexpr index_t kWords = 10000;
constexpr index_t kUnits = 256;
constexpr index_t kTime = 35;
constexpr index_t kBatch = 32;

nn::Sequential LanguageModel() {
  return nn::Sequential(nn::Embedding(kWords, kUnits), nn::LSTM(kUnits, {.num_layers = 2}),
                        nn::Dense(kWords, {.flatten = false}));
}

/// Every second pixel, and as many channels of zeros.
class HalvingShortcut final : public nn::UnaryLayer {
 public:
  HalvingShortcut() : pixels_({.size = {1}, .stride = {2}}) {}

 private:
  NDArray Forward(const NDArray& x) const override {
    const NDArray y = pixels_(x);
    return Invoke("Concat", {y, Invoke("zeros_like", {y})[0]},
                  {{"num_args", "2"}, {"dim", "1"}})[0];
  }

  nn::AvgPool2D pixels_;
};

nn::Conv2D Convolution(index_t channels, index_t stride) {
  return nn::Conv2D(channels, {3}, {.stride = {stride}, .pad = {1}, .use_bias = false});
}

nn::Sequential ResNet20() {
  nn::Sequential net(Convolution(16, 1), nn::BatchNorm(), nn::Activation("relu"));
  for (const index_t channels : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      const index_t stride = block == 0 && channels > 16 ? 2 : 1;
      nn::Sequential body(Convolution(channels, stride), nn::BatchNorm(), nn::Activation("relu"),
                          Convolution(channels, 1), nn::BatchNorm());
      if (stride == 1) {
        net.Add(nn::Residual(std::move(body)));
      } else {
        net.Add(nn::Residual(std::move(body), HalvingShortcut()));
      }
      net.Add(nn::Activation("relu"));
    }
  }
  net.Add(nn::GlobalAvgPool2D());
  net.Add(nn::Dense(10));
  return net;
}

/// Returns numbers from 0 to count - 1, those of numbers() in training_peer.py.
NDArray Numbers(const TShape& shape, index_t factor, index_t count) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<index_t>(i) * factor % count);
  }
  return NDArray::FromVector(values, shape);
}

double Mean(const NDArray& array) {
  double sum = 0;
  for (const float value : array.ToVector()) sum += value;
  return sum / static_cast<double>(array.shape().Size());
}

/// A network and one batch, on which it is trained.
class Training {
 public:
  Training(nn::Sequential network, const NDArray& data, const NDArray& label)
      : network_(std::move(network)), data_(data), label_(label) {
    network_.Initialize(Xavier(), {.seed = 1});
    network_.Compile();
    network_(data_).WaitToRead();  // determines the shapes
    SgdOptions sgd;
    sgd.learning_rate = 0.1;
    sgd.momentum = 0.9;
    trainer_ = std::make_unique<nn::Trainer>(network_.Parameters(), std::make_shared<Sgd>(sgd));
  }

  /// Writes the parameters for peers: as `path` + ".params" and as `path` + ".safetensors".
  void Save(const std::string& path) const {
    network_.SaveParameters(path + ".params");
    network_.SaveParameters(path + ".safetensors");
  }

  void Run() {
    losses_.clear();
    for (int step = 0; step < kSteps; ++step) {
      {
        const autograd::Record record;
        losses_.push_back(loss_(network_(data_), label_));
      }
      losses_.back().Backward();
      trainer_->Step(losses_.back().shape()[0]);
    }
    Engine::Get()->WaitForAll();
  }

  /// Returns by how much the loss of the last run's last step was below that of its first one.
  double Learned() const { return Mean(losses_.front()) - Mean(losses_.back()); }

 private:
  nn::Sequential network_;
  const NDArray data_, label_;
  const nn::SoftmaxCrossEntropyLoss loss_;
  std::unique_ptr<nn::Trainer> trainer_;
  std::vector<NDArray> losses_;  // of each step of the last run
};

Variants MakeVariants(const std::string& name, nn::Sequential network, const NDArray& data,
                      const NDArray& label) {
  const auto training = std::make_shared<Training>(std::move(network), data, label);
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("tessera_" + std::to_string(getpid()) + "_" + name))
                               .string();
  training->Save(path);
  Variants variants = BesidePeers(
      name,
      {.run = [training] { training->Run(); }, .check = [training] { return training->Learned(); }},
      {.script = "train/benchmark/training_peer.py",
       .frameworks = {"mxnet", "torch"},
       .arguments = path});
  std::filesystem::remove(path + ".params");
  std::filesystem::remove(path + ".safetensors");
  return variants;
}

}  // namespace

void AddLayerCases() {
  AddCase({.name = "language_model",
           .bounds = {{.peer = Bound::kBest, .at_least = 1}},
           .items = static_cast<double>(kSteps * kTime * kBatch),
           .make = [] {
             // Few words follow, so that a step changes their probabilities.
             return MakeVariants("language_model", LanguageModel(),
                                 Numbers({kTime, kBatch}, 7919, kWords),
                                 Numbers({kTime, kBatch}, 7, 50));
           }});
  AddCase({.name = "resnet20",
           .bounds = {{.peer = Bound::kBest, .at_least = 0.9}},
           .items = static_cast<double>(kSteps * kBatch),
           .make = [] {
             return MakeVariants("resnet20", ResNet20(),
                                 Numbers({kBatch, 3, 32, 32}, 7919, 1000) / 1000.0f,
                                 Numbers({kBatch}, 7, 10));
           }});
}

}  // namespace tessera::benchmarking
