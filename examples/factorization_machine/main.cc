// Trains a factorization machine on LibSVM files of clicks, which it writes first, and tests it
// after each epoch:
//
//   bazel run //examples/factorization_machine
//   bazel run //examples/factorization_machine -- --features=10000000
//   bazel run //examples/factorization_machine -- --training=/tmp/clicks  # goes on from there
//
// A batch has a few hundred of a million columns: gradients are row_sparse, and Adam takes a step
// in their rows alone.
//
// Ctrl-C (SIGINT) and SIGTERM end the training after the step that runs, with exit code 130 or 143.
// It is then saved where --training says.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/examples/command_line/command_line.h"
#include "tessera/examples/factorization_machine/clicks.h"
#include "tessera/examples/training_folder/training_folder.h"
#include "tessera/io/libsvm_iter.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/train/adam.h"
#include "tessera/train/initializer.h"
#include "tessera/train/metrics.h"
#include "tessera/train/nn/layer.h"
#include "tessera/train/nn/loss.h"
#include "tessera/train/nn/trainer.h"
#include "tessera/train/stop_signals.h"

namespace tessera::factorization_machine {
namespace {

constexpr index_t kBatch = 100;
constexpr int64_t kTrained = 20000;  // examples
constexpr int64_t kTested = 5000;

/// Returns a csr matrix with the stored elements of `x` squared, each in a column of its own.
NDArray SquaresInOwnColumns(const NDArray& x) {
  const NDArray values = sparse::Values(x);
  const index_t count = values.shape()[0];
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  NDArray columns({count}, Device::Cpu(), DType::kInt64);
  columns.SyncCopyFromCPU(numbers.data(), count);
  return sparse::FromCsr(values * values, sparse::IndPtr(x), columns, {x.shape()[0], count});
}

/// A factorization machine (S. Rendle, Factorization Machines, ICDM 2010, equations 1 and 5):
///
///   y = b + sum_i w_i x_i + 1/2 sum_f ((sum_i v_if x_i)^2 - sum_i v_if^2 x_i^2)
///
/// Shapes: x (batch, features), a csr array; y (batch, 1). No array is of the size of `factors`:
/// the squares are those of the rows that the batch stores.
class FactorizationMachine final : public nn::UnaryLayer {
 public:
  FactorizationMachine(index_t features, index_t factors)
      : features_(features),
        factors_(factors),
        bias_(AddParameter("bias", {.shape = {1, 1}, .initializer = std::make_shared<Zero>()})),
        weight_(AddParameter("weight", {.shape = {features, 1},
                                        .grad_storage = StorageType::kRowSparse,
                                        .initializer = std::make_shared<Zero>()})),
        vectors_(AddParameter("vectors", {.shape = {features, factors},
                                          .grad_storage = StorageType::kRowSparse,
                                          .initializer = std::make_shared<Normal>(0.1f)})) {}

 private:
  NDArray Forward(const NDArray& x) const override {
    const NDArray v = vectors_.Use(x.device(), {features_, factors_});
    const NDArray linear = Dot(x, weight_.Use(x.device(), {features_, 1}));
    const NDArray sums = Dot(x, v);
    const NDArray rows = Invoke("Embedding", {sparse::Indices(x), v},
                                {{"input_dim", std::to_string(features_)},
                                 {"output_dim", std::to_string(factors_)},
                                 {"sparse_grad", "True"}})[0];
    const NDArray pairs =
        SumOfRows(sums * sums) - Dot(SquaresInOwnColumns(x), SumOfRows(rows * rows));
    return Invoke("broadcast_add", {linear + pairs * 0.5, bias_.Use(x.device(), {1, 1})})[0];
  }

  static NDArray Dot(const NDArray& a, const NDArray& b) { return Invoke("dot", {a, b})[0]; }
  static NDArray SumOfRows(const NDArray& a) {
    return Invoke("sum", {a}, {{"axis", "1"}, {"keepdims", "True"}})[0];
  }

  index_t features_, factors_;
  nn::Parameter bias_, weight_, vectors_;
};

/// The options of the command line.
struct Options {
  int epochs = 6;
  int64_t features = 1'000'000;
  int64_t factors = 4;
  std::string data;      // empty: a folder for temporary files
  std::string training;  // empty: it is not kept
};

/// Returns the area under the curve of the network's scores.
double AreaUnderCurve(const FactorizationMachine& net, LibSvmIter* test) {
  RocAuc area;
  for (test->BeforeFirst(); test->Next();) {
    const NDArray scores = net(test->GetBatch().data[0]);
    area.Update(test->GetBatch().label, {&scores, 1});
  }
  return area.Get()[0].value;
}

void Run(const Options& options) {
  const std::filesystem::path folder_of_data = options.data.empty()
                                                   ? std::filesystem::temp_directory_path()
                                                   : std::filesystem::path(options.data);
  const std::string name = "clicks-" + std::to_string(options.features);
  const std::string train_file = (folder_of_data / (name + "-train.svm")).string();
  const std::string test_file = (folder_of_data / (name + "-test.svm")).string();
  WriteClicks(train_file, kTrained, options.features, 0);
  WriteClicks(test_file, kTested, options.features, 1);

  LibSvmIter train(
      {.data_libsvm = train_file, .data_size = options.features, .batch_size = kBatch});
  LibSvmIter test({.data_libsvm = test_file, .data_size = options.features, .batch_size = kBatch});
  FactorizationMachine net(options.features, options.factors);
  net.Initialize(Zero(), {.seed = 1});
  AdamOptions adam;
  adam.learning_rate = 0.02;
  nn::Trainer trainer(net.Parameters(), std::make_shared<Adam>(adam));
  const nn::SigmoidCrossEntropyLoss loss_function;
  int64_t epoch = 1;
  double sum = 0;  // of the epoch's losses so far
  training_folder::TrainingFolder folder(options.training, &net, &trainer);
  folder.parts().Add("data", &train);
  folder.parts().Add("epoch", &epoch);
  folder.parts().Add("sum", &sum);
  folder.Continue();
  while (epoch <= options.epochs) {
    const auto start = std::chrono::steady_clock::now();
    index_t examples = 0;  // without those of a training that goes on
    while (train.Next()) {
      const DataBatch& batch = train.GetBatch();
      NDArray loss;
      {
        const autograd::Record record;
        loss = loss_function(net(batch.data[0]), batch.label[0]);
      }
      loss.Backward();
      trainer.Step(kBatch);
      for (const float value : loss.ToVector()) sum += static_cast<double>(value);
      examples += kBatch;
      if (StopSignals::received() != 0) return folder.Stop(static_cast<int>(epoch));
    }
    NDArray::WaitAll();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("epoch %2d/%d  loss %.4f  auc %.4f  %.0f examples/s\n", static_cast<int>(epoch),
                options.epochs, sum / static_cast<double>(kTrained), AreaUnderCurve(net, &test),
                static_cast<double>(examples) / seconds.count());
    std::fflush(stdout);
    train.BeforeFirst();
    ++epoch;
    sum = 0;
    folder.Save();
  }
  std::printf("test_auc=%.4f\n", AreaUnderCurve(net, &test));
}

void Main(int argc, char** argv) {
  constexpr int64_t kLeastFeatures = 1000, kMostFeatures = 1 << 30;
  Options options;
  CLI::App app("Trains a factorization machine on clicks of users on items.",
               "factorization_machine");
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs, "times to go through the training data")
      ->check(command_line::CheckDecimal)
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--features", options.features, "columns of the data, of which 401 are in use")
      ->check(command_line::CheckDecimal)
      ->check(CLI::Range(kLeastFeatures, kMostFeatures));
  app.add_option("--factors", options.factors, "length of a column's vector")
      ->check(command_line::CheckDecimal)
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_option("--data", options.data,
                 "folder where the files of clicks are written (default: that of temporary files)");
  app.add_option("--training", options.training,
                 "folder for the whole training, which goes on from what is there, bit for bit");
  if (!command_line::Parse(&app, argc, argv)) return;
  options.data = command_line::FromUsersFolder(options.data);
  options.training = command_line::FromUsersFolder(options.training);
  Run(options);
}

}  // namespace
}  // namespace tessera::factorization_machine

int main(int argc, char** argv) {
  const tessera::StopSignals signals;
  const int status = tessera::command_line::RunProgram(
      "factorization_machine", [&] { tessera::factorization_machine::Main(argc, argv); });
  return status != 0 ? status : tessera::StopSignals::exit_code();
}
