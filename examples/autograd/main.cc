// Trains a perceptron on handwritten digits with arrays and the tape alone, without Symbol. It
// calls operators by name, so that the program links only the families that its BUILD file names:
//
//   bazel run //examples/autograd
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tessera/io/idx_iter.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/resource/resource_manager.h"

using namespace tessera;  // NOLINT

/// Opens one half of the digits that come with //examples/digits.
IdxIter Digits(const std::string& half, index_t batch_size, bool shuffle) {
  const std::string prefix = "examples/digits/data/" + half;
  return IdxIter({.image = prefix + "-images-idx3-ubyte",
                  .label = prefix + "-labels-idx1-ubyte",
                  .batch_size = batch_size,
                  .shuffle = shuffle,
                  .flat = true,
                  .scale = 1.0f / 16});
}

int main() {
  ResourceManager::Get()->SeedRandom(1);
  std::vector<NDArray> parameters, momenta;
  for (const TShape& shape : {TShape{128, 64}, {128}, {64, 128}, {64}, {10, 64}, {10}}) {
    NDArray parameter(shape), momentum(shape);
    parameter = 0.0f;
    momentum = 0.0f;
    if (shape.ndim() == 2) {
      const double scale = std::sqrt(2.0 / static_cast<double>(shape[1]));
      Invoke("_random_normal", {}, {parameter},
             {{"scale", std::to_string(scale)}, {"shape", shape.ToString()}});
    }
    parameter.AttachGrad();
    parameters.push_back(parameter);
    momenta.push_back(momentum);
  }
  const auto network = [&parameters](NDArray x) {
    for (size_t i = 0; i < parameters.size(); i += 2) {
      if (i > 0) x = Invoke("relu", {x})[0];
      const NDArray &weight = parameters[i], &bias = parameters[i + 1];
      x = Invoke("FullyConnected", {x, weight, bias},
                 {{"num_hidden", std::to_string(weight.shape()[0])}})[0];
    }
    return x;
  };

  IdxIter train = Digits("train", 32, /*shuffle=*/true);
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (train.BeforeFirst(); train.Next();) {
      NDArray classes;
      {
        // A tenth of each label goes to the other classes, which reads new digits better.
        const autograd::Record record;
        classes =
            Invoke("SoftmaxOutput", {network(train.GetBatch().data[0]), train.GetBatch().label[0]},
                   {{"smooth_alpha", "0.1"}})[0];
      }
      classes.Backward();
      for (size_t i = 0; i < parameters.size(); ++i) {
        Invoke("sgd_mom_update", {parameters[i], parameters[i].grad(), momenta[i]}, {parameters[i]},
               {{"lr", "0.1"}, {"momentum", "0.9"}, {"wd", "3e-4"}, {"rescale_grad", "0.03125"}});
      }
    }
  }

  IdxIter test = Digits("t10k", 360, /*shuffle=*/false);
  test.Next();
  const NDArray read = Invoke("argmax", {network(test.GetBatch().data[0])}, {{"axis", "1"}})[0];
  const NDArray right = read == test.GetBatch().label[0];
  std::printf("test_accuracy=%.4f\n", Invoke("mean", {right})[0].ToVector()[0]);
}
