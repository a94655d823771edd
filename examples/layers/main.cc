// Trains a convolutional network of layers on handwritten digits, and tests it after each epoch:
//
//   bazel run //examples/layers
#include <cstdio>
#include <memory>
#include <string>

#include "tessera/io/idx_iter.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/train/metrics.h"
#include "tessera/train/nn/nn.h"
#include "tessera/train/optimizers.h"

using namespace tessera;  // NOLINT

int main() {
  const std::string data = "examples/digits/data/";
  IdxIter train({data + "train-images-idx3-ubyte", data + "train-labels-idx1-ubyte", 32});
  IdxIter test({data + "t10k-images-idx3-ubyte", data + "t10k-labels-idx1-ubyte", 360});
  nn::Sequential net(nn::Conv2D(32, {3}, {.activation = "relu"}), nn::MaxPool2D(),
                     nn::Dense(128, {.activation = "relu"}), nn::Dense(10));
  net.Initialize(Xavier(), {.seed = 1});
  net.Compile();
  const nn::SoftmaxCrossEntropyLoss loss;
  nn::Trainer trainer(net.Parameters(), std::make_shared<Sgd>(SgdOptions{{0.05}, 0.9}));
  for (int epoch = 1; epoch <= 10; ++epoch) {
    for (train.BeforeFirst(); train.Next(); trainer.Step(train.batch_size())) {
      const DataBatch& batch = train.GetBatch();
      const autograd::Record record;
      loss(net(batch.data[0]), batch.label[0]).Backward();
    }
    Accuracy accuracy;
    for (test.BeforeFirst(); test.Next();) {
      const NDArray classes = net(test.GetBatch().data[0]);
      accuracy.Update(test.GetBatch().label, {&classes, 1});
    }
    std::printf("epoch %d: test accuracy %.4f\n", epoch, accuracy.Get()[0].value);
  }
}
