// Training: Module, networks of layers, and optimizers alone.
//
// Module: steps of the digits example's two networks on data of its shape, batch 32, float32, SGD
// with momentum and weight decay: one run is an epoch of 16 steps, waited for at its end. The
// limits are those of two cores: 300,000 and 12,000 images a second. layer_cases.h and
// optimizer_cases.h explain the others.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tessera/engine/engine.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/tools/benchmark/ratio_benchmark.h"
#include "tessera/train/benchmark/layer_cases.h"
#include "tessera/train/benchmark/optimizer_cases.h"
#include "tessera/train/initializer.h"
#include "tessera/train/module.h"
#include "tessera/train/sgd.h"

namespace tessera {
namespace {

using benchmarking::AddCase;
using benchmarking::Variants;

constexpr index_t kBatch = 32;
constexpr index_t kSteps = 16;
constexpr index_t kImages = kBatch * kSteps;
constexpr index_t kClasses = 10;

Symbol Dense(const Symbol& x, int neurons, const std::string& name) {
  return Symbol::Apply("FullyConnected", {x}, {{"num_hidden", std::to_string(neurons)}}, name);
}

Symbol Relu(const Symbol& x, const std::string& name) {
  return Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, name);
}

Symbol Convolution(const Symbol& x, int channels, const std::string& name) {
  return Symbol::Apply(
      "Convolution", {x},
      {{"kernel", "(3,3)"}, {"pad", "(1,1)"}, {"num_filter", std::to_string(channels)}}, name);
}

Symbol Perceptron() {
  Symbol x = Relu(Dense(Symbol::Variable("data"), 128, "fc1"), "relu1");
  x = Relu(Dense(x, 64, "fc2"), "relu2");
  return Symbol::Apply("SoftmaxOutput", {Dense(x, kClasses, "fc3")}, {}, "softmax");
}

Symbol ConvolutionalNetwork() {
  Symbol x = Relu(Convolution(Symbol::Variable("data"), 32, "conv1"), "relu1");
  x = Relu(Convolution(x, 64, "conv2"), "relu2");
  x = Symbol::Apply("Pooling", {x},
                    {{"kernel", "(2,2)"}, {"stride", "(2,2)"}, {"pool_type", "max"}}, "pool");
  x = Relu(Dense(Symbol::Apply("Flatten", {x}, {}, "flatten"), 128, "fc1"), "relu3");
  return Symbol::Apply("SoftmaxOutput", {Dense(x, kClasses, "fc2")}, {}, "softmax");
}

class Training {
 public:
  Training(const Symbol& network, const TShape& images) : module_(network) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> pixel(0, 1);
    std::vector<float> pixels(static_cast<size_t>(images.Size())), labels(kImages);
    for (float& value : pixels) value = pixel(random);
    for (float& value : labels) value = static_cast<float>(random() % kClasses);
    data_ = std::make_unique<NDArrayIter>(
        NamedArrays{{"data", NDArray::FromVector(pixels, images)}},
        NamedArrays{{"softmax_label", NDArray::FromVector(labels, {kImages})}},
        BatchingOptions{.batch_size = kBatch, .shuffle = true, .seed = 1});
    module_.Bind(data_->ProvideData(), data_->ProvideLabel());
    module_.InitParams(Xavier());
    module_.InitOptimizer(
        std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.01, .wd = 1e-4}, 0.9}));
  }

  void Epoch() {
    data_->BeforeFirst();
    while (data_->Next()) {
      module_.Forward(data_->GetBatch(), true);
      module_.Backward();
      module_.Update();
    }
    Engine::Get()->WaitForAll();
  }

 private:
  Module module_;
  std::unique_ptr<NDArrayIter> data_;
};

void AddTraining(const std::string& name, Symbol (*network)(), const TShape& images,
                 double images_per_second) {
  AddCase({.name = name,
           .items = kImages,
           .limit_seconds = static_cast<double>(kImages) / images_per_second,
           .make = [network, images] {
             auto training = std::make_shared<Training>(network(), images);
             return Variants{.all = {{"ours", [training] { training->Epoch(); }}}};
           }});
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  AddTraining("perceptron/512_images", Perceptron, {kImages, 64}, 300e3);
  AddTraining("convolutional/512_images", ConvolutionalNetwork, {kImages, 1, 8, 8}, 12e3);
  benchmarking::AddLayerCases();
  benchmarking::AddOptimizerCases();
  return benchmarking::RunAll(argc, argv);
}
