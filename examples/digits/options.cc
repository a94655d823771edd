#include "tessera/examples/digits/options.h"

#include <unistd.h>

#include <filesystem>
#include <limits>
#include <system_error>

#include "CLI/CLI.hpp"
#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/examples/command_line/command_line.h"
#include "tessera/train/checkpoint.h"

namespace tessera::digits {
namespace {

using command_line::CheckDecimal;
using command_line::FromUsersFolder;

/// Before training, not after it.
void CheckWritable(const Options& options) {
  namespace fs = std::filesystem;
  if (options.checkpoint.empty()) return;
  std::string folder = fs::path(options.checkpoint).parent_path().string();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (access(folder.c_str(), W_OK | X_OK) != 0 || !fs::is_directory(folder, ignored)) {
    throw NotFound("--checkpoint: ", options.checkpoint, ": ", folder,
                   " is no folder that can be written to, expected one for the files");
  }
  for (const std::string& file : {CheckpointSymbolPath(options.checkpoint),
                                  CheckpointParametersPath(options.checkpoint, options.epochs)}) {
    if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored)) {
      throw FailedPrecondition("--checkpoint: ", file,
                               " is there and no ordinary file, expected one or none");
    }
    // Names that are too long, and file systems that refuse whatever permissions say.
    AtomicFile(file, "--checkpoint");
  }
}

/// The library's own checks print the largest double in 309 digits.
void CheckFloat(const char* flag, double value, double least) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (value >= least && value <= kMost) return;
  throw InvalidArgument(flag, ": ", value, ", expected a number from ", least, " to ", kMost,
                        ", which float32 holds");
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a network on handwritten digits and reports how well it reads new ones.",
               "digits");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.model, "cnn (two convolutions) or mlp (a perceptron)")
      ->check(CLI::IsMember({"cnn", "mlp"}));
  const CLI::Option* const data =
      app.add_option("--data", options.data,
                     "folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                     "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or .gz "
                     "(default: the digits that come with the example)");
  app.add_option("--device", options.device, "where to compute: cpu or gpu")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  constexpr int kMost = std::numeric_limits<int>::max();
  app.add_option("--epochs", options.epochs, "times to go through the training data")
      ->check(CheckDecimal)
      ->check(CLI::Range(1, kMost));
  app.add_option("--batch_size", options.batch_size, "examples that one update is made of")
      ->check(CheckDecimal)
      ->check(CLI::Range(1, kMost));
  app.add_option("--lr", options.lr, "learning rate of gradient descent with momentum 0.9");
  app.add_option("--wd", options.wd, "weight decay");
  app.add_option("--kvstore", options.kvstore,
                 "where weights are kept and updated: none (in the network), local (in a store) or "
                 "dist_sync (in the stores of all processes that mpirun has started)")
      ->check(CLI::IsMember({"none", "local", "dist_sync"}));
  app.add_option("--seed", options.seed, "fixes first weights and order of the examples")
      ->check(CheckDecimal);
  app.add_option("--checkpoint", options.checkpoint,
                 "save as PREFIX-symbol.json and PREFIX-<epochs>.params and keep them");
  app.add_option("--resume", options.resume,
                 "go on from the checkpoint that was saved after this epoch")
      ->check(CheckDecimal)
      ->check(CLI::Range(1, kMost));
  app.add_option("--training", options.training,
                 "folder for the whole training, which goes on from what is there, bit for bit");
  app.add_option("--test_images", options.test_images,
                 "save the test images as this .npy file, for //examples/serve");
  if (!command_line::Parse(&app, argc, argv)) return std::nullopt;
  CheckFloat("--lr", options.lr, std::numeric_limits<float>::min());
  CheckFloat("--wd", options.wd, 0);
  if (data->count() > 0 && options.data.empty()) {
    throw InvalidArgument("--data: found nothing, expected a folder");
  }
  if (options.resume > 0 && options.checkpoint.empty()) {
    throw InvalidArgument("--resume: there is no --checkpoint, expected the prefix to go on from");
  }
  if (options.resume > 0 && !options.training.empty()) {
    throw InvalidArgument("--resume: --training goes on by itself, expected one of the two");
  }
  if (options.resume >= options.epochs) {
    throw InvalidArgument("--epochs: ", options.epochs, ", expected more than the ", options.resume,
                          " of --resume");
  }
  options.data = FromUsersFolder(options.data);
  options.checkpoint = FromUsersFolder(options.checkpoint);
  options.training = FromUsersFolder(options.training);
  options.test_images = FromUsersFolder(options.test_images);
  CheckWritable(options);
  return options;
}

}  // namespace tessera::digits
