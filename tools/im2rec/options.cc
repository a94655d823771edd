#include "tessera/tools/im2rec/options.h"

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>

#include "CLI/CLI.hpp"
#include "tessera/base/error.h"

namespace tessera::im2rec {
namespace {

/// `bazel run` starts programs in a folder of its own and says where the user is.
std::string FromUsersFolder(const std::string& path) {
  const char* const folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr) return path;
  return (std::filesystem::path(folder) / path).string();  // an absolute path stays
}

}  // namespace

std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  std::string damaged = "error";
  CLI::App app("Lists the images of a folder, or writes those of lists into files of records.",
               "im2rec");
  app.option_defaults()->always_capture_default();
  app.add_option("prefix", options.prefix,
                 "beginning of the lists' and records' names: PREFIX.lst, PREFIX.rec, PREFIX.idx")
      ->required();
  app.add_option("root", options.root, "folder of the images")->required();
  app.add_flag("--list", options.list, "make lists; otherwise records are made of PREFIX*.lst");
  app.add_option("--exts", options.exts, "endings of the images' names, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false);
  constexpr int kMost = std::numeric_limits<int>::max();
  app.add_option("--chunks", options.chunks, "lists among which the images are divided")
      ->check(CLI::Range(1, kMost));
  app.add_option("--train-ratio", options.train_ratio, "share of images for PREFIX_train.lst")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--test-ratio", options.test_ratio, "share of images for PREFIX_test.lst")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--recursive", options.recursive, "look into sub-folders, each of which is a class");
  app.add_flag("--no-shuffle", options.no_shuffle, "list the images by name");
  app.add_flag("--pass-through", options.pass_through, "store files as they are");
  app.add_option("--resize", options.resize, "new length of the shorter side; 0: as it is")
      ->check(CLI::Range(0, 1 << 20));
  app.add_flag("--center-crop", options.center_crop, "cut out the middle square first");
  const CLI::Option* const quality =
      app.add_option("--quality", options.quality,
                     "1 to 100 for JPEG; 0 to 9 for PNG, 3 if it is not given")
          ->check(CLI::Range(0, 100));
  app.add_option("--encoding", options.encoding, "of the stored images")
      ->check(CLI::IsMember({".jpg", ".png"}));
  app.add_option("--color", options.color, "1: red, green and blue, 0: gray")
      ->check(CLI::IsMember({0, 1}));
  app.add_flag("--pack-label", options.pack_label, "store all labels of a line, not the first");
  app.add_option("--damaged", damaged, "whether a damaged image ends the program or is left out")
      ->check(CLI::IsMember({"error", "skip"}));
  app.add_option("--num-thread", options.num_thread, "threads; 0: as many as the machine has")
      ->check(CLI::Range(0, 1024));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw InvalidArgument(error.what(), "; see --help for what is expected");
  }
  options.skip_damaged = damaged == "skip";
  if (options.train_ratio + options.test_ratio > 1) {
    throw InvalidArgument("--train-ratio ", options.train_ratio, " and --test-ratio ",
                          options.test_ratio, ", expected a sum of at most 1");
  }
  const bool is_png = options.encoding == ".png";
  if (is_png && quality->count() == 0) options.quality = 3;
  if (options.quality > (is_png ? 9 : 100) || (!is_png && options.quality < 1)) {
    throw InvalidArgument("--quality ", options.quality, " for ", options.encoding, ", expected ",
                          is_png ? "0 to 9" : "1 to 100");
  }
  options.prefix = FromUsersFolder(options.prefix);
  options.root = FromUsersFolder(options.root);
  return options;
}

}  // namespace tessera::im2rec
