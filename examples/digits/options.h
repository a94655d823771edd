#ifndef TESSERA_EXAMPLES_DIGITS_OPTIONS_H_
#define TESSERA_EXAMPLES_DIGITS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::digits {

/// The options of the command line.
struct Options {
  std::string model = "cnn";
  std::string device = "cpu";
  std::string kvstore = "none";
  std::string data;         ///< a folder; empty: the digits that come with the example
  std::string checkpoint;   ///< a path prefix; empty: a folder that is removed at the end
  int resume = 0;           ///< go on from the checkpoint of this epoch; 0: begin anew
  std::string training;     ///< a folder for the whole training; empty: none
  std::string test_images;  ///< a file for the test images; empty: none
  int epochs = 20;
  int64_t batch_size = 32;
  double lr = 0.1;
  double wd = 3e-4;
  uint64_t seed = 1;
};

/// Reads the command line. Nothing is returned if it asked for help, which is then printed.
/// Throws Error(kInvalidArgument) for an unknown argument or an impossible value.
/// Relative paths mean the folder that the user is in, also under `bazel run`.
std::optional<Options> ParseOptions(int argc, char** argv);

}  // namespace tessera::digits

#endif  // TESSERA_EXAMPLES_DIGITS_OPTIONS_H_
