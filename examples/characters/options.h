#ifndef TESSERA_EXAMPLES_CHARACTERS_OPTIONS_H_
#define TESSERA_EXAMPLES_CHARACTERS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/base/tshape.h"

namespace tessera::characters {

/// The options of the command line.
struct Options {
  std::string text = "/usr/share/common-licenses";  ///< a file, or a folder whose files are read
  int epochs = 10;                                  ///< times to go through the text
  index_t units{};                                  ///< channels of the model; the program says it
  double learning_rate{};                           ///< the largest, of Adam; no flag
  int generate = 600;                               ///< characters of the generated paragraph
  uint64_t seed = 1;                                ///< fixes first weights and all choices
  std::string training;                             ///< keeps the training; empty: it is not kept
};

/// Reads the command line of a program with its own defaults. Nothing is returned if it asked for
/// help, which is then printed. Throws Error(kInvalidArgument).
std::optional<Options> ParseOptions(const std::string& program, Options options, int argc,
                                    char** argv);

}  // namespace tessera::characters

#endif  // TESSERA_EXAMPLES_CHARACTERS_OPTIONS_H_
