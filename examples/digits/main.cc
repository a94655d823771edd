// Trains a network on handwritten digits, from IDX files to a saved model:
//
//   bazel run //examples/digits                           # the digits that come with the example
//   bazel run //examples/digits -- --model=mlp --epochs=10
//   bazel run //examples/digits -- --data=/path/to/mnist
//   bazel run //examples/digits -- --training=/tmp/digits  # goes on from there, if it was stopped
//   mpirun -n 2 --bind-to none bazel-bin/examples/digits/digits --kvstore=dist_sync
//
// Of several processes each has a part of the data, and a folder in that of --training. The first
// one prints the results, and saves.
//
// Whatever is wrong with arguments or files ends in one line on stderr and exit code 2.
//
// Ctrl-C (SIGINT) and SIGTERM end the training after the step that runs. The whole training is then
// saved where --training says, the network where --checkpoint says, under the number of the epoch
// that was not finished, and the exit code is 130 or 143.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/examples/digits/dataset.h"
#include "tessera/examples/digits/network.h"
#include "tessera/examples/digits/options.h"
#include "tessera/examples/many_workers/many_workers.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/npy.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/module.h"
#include "tessera/train/stop_signals.h"

namespace tessera::digits {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void CheckLoss(int epoch, double loss) {
  if (std::isfinite(loss)) return;
  throw FailedPrecondition("epoch ", epoch, ": the loss is ", loss,
                           ", expected a finite number; try a smaller --lr or --wd");
}

/// Prints a line after each epoch and remembers the fastest. Throws where training diverged, so
/// that nothing is saved.
class Progress {
 public:
  explicit Progress(int epochs) : epochs_(epochs) {}

  void operator()(const EpochEndParam& param) {
    const double images_per_second = static_cast<double>(param.samples) / param.seconds;
    best_images_per_second_ = std::max(best_images_per_second_, images_per_second);
    const int done = param.epoch + 1;
    const double seconds_per_epoch = SecondsSince(start_) / ++epochs_here_;
    std::printf("epoch %2d/%d  loss %.4f  accuracy %.4f  %.0f images/s  %.1f s left\n", done,
                epochs_, param.training[1].value, param.training[0].value, images_per_second,
                seconds_per_epoch * (epochs_ - done));
    std::fflush(stdout);
    CheckLoss(done, param.training[1].value);
  }

  void operator()(const BatchEndParam& param) const {
    if (StopSignals::received() != 0) CheckLoss(param.epoch + 1, param.metric.Get()[1].value);
  }

  double best_images_per_second() const { return best_images_per_second_; }

 private:
  const int epochs_;
  const Clock::time_point start_ = Clock::now();
  int epochs_here_ = 0;  // without those of a training that goes on
  double best_images_per_second_ = 0;
};

/// A folder for a checkpoint that nobody asked to keep. It is locked, so that the next run removes
/// the folders of those that were killed.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code failed;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(failed);
    // Another run may remove the folder before it is locked.
    do {
      std::string path = (parent / kName).string() + "XXXXXX";
      if (failed || mkdtemp(path.data()) == nullptr) {
        throw NotFound(path,
                       ": the folder for the checkpoint cannot be made, expected a writable "
                       "temporary folder or a --checkpoint");
      }
      path_ = path;
      if (lock_ >= 0) close(lock_);
      lock_ = Lock(path_);
    } while (!std::filesystem::exists(path_, failed));
    RemoveLeftOnes(parent);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0) close(lock_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string Prefix(const std::string& name) const { return (path_ / name).string(); }

 private:
  static constexpr const char* kName = "tessera-digits-";

  /// Returns a descriptor that locks the folder, or -1 if it is locked already or not the user's.
  static int Lock(const std::filesystem::path& folder) {
    const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
    close(descriptor);
    return -1;
  }

  static void RemoveLeftOnes(const std::filesystem::path& parent) {
    using std::filesystem::directory_iterator;
    std::error_code failed;
    for (directory_iterator it(parent, failed), end; !failed && it != end; it.increment(failed)) {
      if (!it->path().filename().string().starts_with(kName)) continue;
      const int lock = Lock(it->path());
      if (lock < 0) continue;
      std::error_code ignored;
      std::filesystem::remove_all(it->path(), ignored);
      close(lock);
    }
  }

  std::filesystem::path path_;
  int lock_ = -1;
};

/// Writes the test images in the shape and the scale that the network takes.
void SaveTestImages(const std::string& path, IdxIter* test) {
  TShape shape = test->ProvideData()[0].shape;
  shape[0] = test->num_examples();
  const NDArray images(shape);
  index_t row = 0;
  for (test->BeforeFirst(); test->Next();) {
    const DataBatch& batch = test->GetBatch();
    const index_t count = test->batch_size() - batch.pad;
    CopyFromTo(batch.data[0].Slice(0, count), images.Slice(row, row + count));
    row += count;
  }
  SaveNpy(path, images);
}

/// Trains. `folder` keeps the whole training, unless it is null.
FitResult Train(const Options& options, Dataset* dataset, Module* module,
                const std::shared_ptr<KVStore>& store, CheckpointFolder* folder,
                double* images_per_second) {
  SgdOptions sgd;
  sgd.learning_rate = options.lr;
  sgd.momentum = 0.9;
  sgd.wd = options.wd;
  sgd.begin_num_update = options.resume * dataset->train->num_batches();
  if (options.resume > 0) {
    std::printf("resumed after epoch %d, update %lld; momentum and order of the data start anew\n",
                options.resume, static_cast<long long>(sgd.begin_num_update));
  }
  if (const auto latest = folder != nullptr ? folder->Latest() : std::nullopt) {
    std::printf("continued from update %lld\n", static_cast<long long>(*latest));
  }
  Progress progress(options.epochs);
  const FitResult result =
      module->Fit(dataset->train.get(), {.num_epoch = options.epochs,
                                         .begin_epoch = options.resume,
                                         .metric = CompositeMetric({Accuracy(), CrossEntropy()}),
                                         .optimizer = std::make_shared<Sgd>(sgd),
                                         .initializer = std::make_shared<Xavier>(XavierOptions{
                                             .rnd_type = XavierOptions::Distribution::kGaussian,
                                             .factor_type = XavierOptions::Factor::kIn,
                                             .magnitude = 2}),
                                         .seed = options.seed,
                                         .kvstore = store,
                                         .batch_end = {std::ref(progress)},
                                         .epoch_end = {std::ref(progress)},
                                         .checkpoints = folder,
                                         .resume = folder != nullptr});
  *images_per_second = progress.best_images_per_second();
  return result;
}

/// The share of test images that a network reads rightly.
double TestAccuracy(Module* module, IdxIter* test) {
  module->Bind(test->ProvideData(), test->ProvideLabel(), /*for_training=*/false);
  return module->Score(test, Accuracy())[0].value;
}

/// The network to train: a new one, or that of the checkpoint to go on from.
Module MakeModule(const Options& options, const ModuleOptions& module_options) {
  const Symbol network = MakeNetwork(options.model);
  if (options.resume == 0) return Module(network, module_options);
  Module module = Module::Load(options.checkpoint, options.resume, module_options);
  if (module.symbol().ListArguments() != network.ListArguments()) {
    throw InvalidArgument(CheckpointSymbolPath(options.checkpoint), ": another network than ",
                          "--model=", options.model, ", expected the model of the checkpoint");
  }
  return module;
}

/// Saves what was trained until a signal came, if the user has said where. A folder for the whole
/// training has it already.
void SaveInterrupted(const Options& options, int epoch, const Module& module) {
  if (!options.training.empty()) {
    std::printf("stopped in epoch %d; the same command goes on from %s\n", epoch,
                options.training.c_str());
  }
  if (options.checkpoint.empty()) return;
  module.SaveCheckpoint(options.checkpoint, epoch);
  std::printf("stopped in epoch %d; saved %s\n", epoch,
              CheckpointParametersPath(options.checkpoint, epoch).c_str());
}

void Run(const Options& options) {
  const many_workers::Worker worker = many_workers::Join(options.kvstore);
  Dataset dataset = OpenDataset(options, worker);
  if (worker.is_first() && !options.test_images.empty()) {
    SaveTestImages(options.test_images, dataset.test.get());
  }
  std::optional<CheckpointFolder> folder;
  if (!options.training.empty()) folder.emplace(many_workers::FolderOf(worker, options.training));
  ModuleOptions module_options;
  module_options.device = Device::Parse(options.device);
  Module module = MakeModule(options, module_options);
  std::optional<ScratchFolder> scratch;
  if (options.checkpoint.empty()) scratch.emplace();
  double images_per_second = 0;
  const FitResult result = Train(options, &dataset, &module, worker.store,
                                 folder ? &*folder : nullptr, &images_per_second);
  if (!worker.is_first()) return;
  if (result.stopped) return SaveInterrupted(options, result.num_epoch + 1, module);
  const std::string prefix = scratch ? scratch->Prefix(options.model) : options.checkpoint;
  module.SaveCheckpoint(prefix, options.epochs);
  const double before = TestAccuracy(&module, dataset.test.get());
  Module reloaded = Module::Load(prefix, options.epochs, module_options);
  const double after = TestAccuracy(&reloaded, dataset.test.get());
  if (before != after) {
    throw Internal(CheckpointParametersPath(prefix, options.epochs),
                   ": the reloaded model has test accuracy ", after, ", expected ", before,
                   " as before saving");
  }
  if (!scratch) {
    std::printf("saved %s\n", CheckpointParametersPath(prefix, options.epochs).c_str());
  }
  std::printf("test_accuracy=%.4f\nimages_per_second=%.0f\n", after, images_per_second);
}

std::string InOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// A script that reads results must not take a full disk for a training that went well.
void CheckPrinted() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    throw ResourceExhausted("the standard output cannot be written to, expected room for results");
  }
}

int Main(int argc, char** argv) {
  // A file above the limit is an error like a full disk, and not the end of the process.
  signal(SIGXFSZ, SIG_IGN);
  const StopSignals signals;
  try {
    if (const std::optional<Options> options = ParseOptions(argc, argv)) Run(*options);
    CheckPrinted();
    return StopSignals::exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", InOneLine(error.what()).c_str());
    return 2;
  }
}

}  // namespace
}  // namespace tessera::digits

int main(int argc, char** argv) { return tessera::digits::Main(argc, argv); }
