// Trains a residual network of 20 layers on handwritten digits, enlarged to the size of CIFAR's
// images, and tests it:
//
//   bazel run //examples/resnet
//   bazel run //examples/resnet -- --training=/tmp/resnet  # goes on from there, if it was stopped
//   mpirun -n 2 --bind-to none bazel-bin/examples/resnet/resnet --kvstore=dist_sync
//
// Of several processes each has a part of the data, and a folder in that of --training. The first
// one prints, and tests.
//
// Ctrl-C (SIGINT) and SIGTERM end the training after the step that runs, with exit code 130 or 143.
// It is then saved where --training says.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "tessera/examples/command_line/command_line.h"
#include "tessera/examples/many_workers/many_workers.h"
#include "tessera/examples/training_folder/training_folder.h"
#include "tessera/io/idx_iter.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/initializer.h"
#include "tessera/train/lr_scheduler.h"
#include "tessera/train/metrics.h"
#include "tessera/train/nn/activation.h"
#include "tessera/train/nn/convolution.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/loss.h"
#include "tessera/train/nn/norm.h"
#include "tessera/train/nn/pooling.h"
#include "tessera/train/nn/sequential.h"
#include "tessera/train/nn/trainer.h"
#include "tessera/train/sgd.h"
#include "tessera/train/stop_signals.h"

namespace tessera::resnet {
namespace {

/// Enlarges images of any size to 32 x 32 pixels.
class Enlarge final : public nn::UnaryLayer {
  NDArray Forward(const NDArray& x) const override {
    return Invoke("_contrib_BilinearResize2D", {x}, {{"height", "32"}, {"width", "32"}})[0];
  }
};

/// Takes every second pixel, and adds as many channels of zeros: a shortcut without parameters.
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

/// Two convolutions and a shortcut. A stride of 2 halves the image and doubles the channels.
nn::Sequential Block(index_t channels, index_t stride) {
  nn::Sequential body(Convolution(channels, stride), nn::BatchNorm(), nn::Activation("relu"),
                      Convolution(channels, 1), nn::BatchNorm());
  if (stride == 1) return nn::Sequential(nn::Residual(std::move(body)), nn::Activation("relu"));
  return nn::Sequential(nn::Residual(std::move(body), HalvingShortcut()), nn::Activation("relu"));
}

/// K. He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2, n = 3.
nn::Sequential ResNet20(index_t classes) {
  nn::Sequential net(Enlarge(), Convolution(16, 1), nn::BatchNorm(), nn::Activation("relu"));
  for (const index_t channels : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
      net.Add(Block(channels, block == 0 && channels > 16 ? 2 : 1));
    }
  }
  net.Add(nn::GlobalAvgPool2D());
  net.Add(nn::Dense(classes));
  return net;
}

/// The options of the command line.
struct Options {
  int epochs = 10;
  std::string kvstore = "none";
  int num_parts = 1;
  std::string training;  // empty: it is not kept
};

void Run(const Options& options) {
  const many_workers::Worker worker = many_workers::Join(options.kvstore);
  const std::string data = "examples/digits/data/";
  IdxIter train({.image = data + "train-images-idx3-ubyte",
                 .label = data + "train-labels-idx1-ubyte",
                 .batch_size = 32,
                 .num_parts = options.num_parts * worker.num_workers,
                 .part_index = worker.rank});
  IdxIter test({.image = data + "t10k-images-idx3-ubyte",
                .label = data + "t10k-labels-idx1-ubyte",
                .batch_size = 120,
                .shuffle = false,
                .scale = train.scale()});
  nn::Sequential net = ResNet20(10);
  // The deviation of weights before relu (K. He et al., Delving Deep into Rectifiers, ICCV 2015).
  net.Initialize(Xavier({.rnd_type = XavierOptions::Distribution::kGaussian,
                         .factor_type = XavierOptions::Factor::kIn,
                         .magnitude = 2}),
                 {.seed = 1});
  net.Compile();
  SgdOptions sgd;
  sgd.learning_rate = 0.1;
  sgd.momentum = 0.9;
  sgd.wd = 1e-4;
  sgd.lr_scheduler = std::make_shared<CosineScheduler>(options.epochs * train.num_batches());
  nn::Trainer trainer(net.Parameters(), std::make_shared<Sgd>(sgd), {.kvstore = worker.store});
  const nn::SoftmaxCrossEntropyLoss loss_function;
  int64_t epoch = 1;
  double sum = 0;  // of the epoch's losses so far
  training_folder::TrainingFolder folder(many_workers::FolderOf(worker, options.training), &net,
                                         &trainer);
  folder.parts().Add("data", &train);
  folder.parts().Add("epoch", &epoch);
  folder.parts().Add("sum", &sum);
  folder.Continue();
  while (epoch <= options.epochs) {
    const auto start = std::chrono::steady_clock::now();
    index_t batches = 0;  // without those of a training that goes on
    while (train.Next()) {
      const DataBatch& batch = train.GetBatch();
      NDArray loss;
      {
        const autograd::Record record;
        loss = loss_function(net(batch.data[0]), batch.label[0]);
      }
      loss.Backward();
      trainer.Step(train.batch_size());
      for (const float value : loss.ToVector()) sum += value;
      ++batches;
      if (StopSignals::received() != 0) return folder.Stop(static_cast<int>(epoch));
    }
    NDArray::WaitAll();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (worker.store != nullptr) worker.store->SumOverWorkers({&sum, 1});
    const auto batch_size = static_cast<double>(train.batch_size() * worker.num_workers);
    std::printf("epoch %2d/%d  loss %.4f  %.0f images/s\n", static_cast<int>(epoch), options.epochs,
                sum / (static_cast<double>(train.num_batches()) * batch_size),
                static_cast<double>(batches) * batch_size / seconds.count());
    std::fflush(stdout);
    train.BeforeFirst();
    ++epoch;
    sum = 0;
    folder.Save();
  }
  if (!worker.is_first()) return;
  Accuracy accuracy;
  for (test.BeforeFirst(); test.Next();) {
    const NDArray classes = net(test.GetBatch().data[0]);
    accuracy.Update(test.GetBatch().label, {&classes, 1});
  }
  std::printf("test_accuracy=%.4f\n", accuracy.Get()[0].value);
}

void Main(int argc, char** argv) {
  constexpr int kMost = std::numeric_limits<int>::max();
  Options options;
  CLI::App app("Trains a residual network of 20 layers on handwritten digits.", "resnet");
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs, "times to go through the training data")
      ->check(command_line::CheckDecimal)
      ->check(CLI::Range(1, kMost));
  app.add_option("--kvstore", options.kvstore,
                 "where gradients are summed: none (in the network), local (in a store) or "
                 "dist_sync (in the stores of all processes that mpirun has started)")
      ->check(CLI::IsMember({"none", "local", "dist_sync"}));
  app.add_option("--num_parts", options.num_parts,
                 "trains on the first of so many equal parts of the data")
      ->check(command_line::CheckDecimal)
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--training", options.training,
                 "folder for the whole training, which goes on from what is there, bit for bit");
  if (!command_line::Parse(&app, argc, argv)) return;
  options.training = command_line::FromUsersFolder(options.training);
  Run(options);
}

}  // namespace
}  // namespace tessera::resnet

int main(int argc, char** argv) {
  const tessera::StopSignals signals;
  const int status =
      tessera::command_line::RunProgram("resnet", [&] { tessera::resnet::Main(argc, argv); });
  return status != 0 ? status : tessera::StopSignals::exit_code();
}
