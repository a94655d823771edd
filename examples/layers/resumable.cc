// Trains the network of main.cc, and goes on after a stop, bit for bit:
//
//   bazel run //examples/layers:resumable -- /tmp/layers
//
// The folder receives the whole training after each epoch, and when Ctrl-C (SIGINT) or SIGTERM ends
// it after the step that runs, with exit code 130 or 143. Without a folder nothing is kept.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "tessera/examples/command_line/command_line.h"
#include "tessera/examples/training_folder/training_folder.h"
#include "tessera/io/idx_iter.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/train/metrics.h"
#include "tessera/train/nn/nn.h"
#include "tessera/train/optimizers.h"
#include "tessera/train/stop_signals.h"

using namespace tessera;  // NOLINT

void Train(const std::string& path) {
  const std::string data = "examples/digits/data/";
  IdxIter train({data + "train-images-idx3-ubyte", data + "train-labels-idx1-ubyte", 32});
  IdxIter test({data + "t10k-images-idx3-ubyte", data + "t10k-labels-idx1-ubyte", 360});
  nn::Sequential net(nn::Conv2D(32, {3}, {.activation = "relu"}), nn::MaxPool2D(),
                     nn::Dense(128, {.activation = "relu"}), nn::Dense(10));
  net.Initialize(Xavier(), {.seed = 1});
  net.Compile();
  const nn::SoftmaxCrossEntropyLoss loss;
  nn::Trainer trainer(net.Parameters(), std::make_shared<Sgd>(SgdOptions{{0.05}, 0.9}));
  int64_t epoch = 1;
  training_folder::TrainingFolder folder(path, &net, &trainer);
  folder.parts().Add("data", &train);
  folder.parts().Add("epoch", &epoch);
  folder.Continue();
  while (epoch <= 10) {
    while (train.Next()) {
      {
        const autograd::Record record;
        loss(net(train.GetBatch().data[0]), train.GetBatch().label[0]).Backward();
      }
      trainer.Step(train.batch_size());
      if (StopSignals::received() != 0) return folder.Stop(static_cast<int>(epoch));
    }
    Accuracy accuracy;
    for (test.BeforeFirst(); test.Next();) {
      const NDArray classes = net(test.GetBatch().data[0]);
      accuracy.Update(test.GetBatch().label, {&classes, 1});
    }
    std::printf("epoch %d: test accuracy %.4f\n", static_cast<int>(epoch), accuracy.Get()[0].value);
    std::fflush(stdout);
    train.BeforeFirst();
    ++epoch;
    folder.Save();
  }
}

int main(int argc, char** argv) {
  const StopSignals signals;
  const int status = command_line::RunProgram(
      "resumable", [argc, argv] { Train(command_line::FromUsersFolder(argc > 1 ? argv[1] : "")); });
  return status != 0 ? status : StopSignals::exit_code();
}
