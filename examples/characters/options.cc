#include "tessera/examples/characters/options.h"

#include <limits>

#include "CLI/CLI.hpp"
#include "tessera/examples/command_line/command_line.h"

namespace tessera::characters {

std::optional<Options> ParseOptions(const std::string& program, Options options, int argc,
                                    char** argv) {
  using command_line::CheckDecimal;
  constexpr int kMost = std::numeric_limits<int>::max();
  CLI::App app("Trains a model of a text's characters, and writes a paragraph by it.", program);
  app.option_defaults()->always_capture_default();
  app.add_option("--text", options.text, "a file, or a folder whose files are read");
  app.add_option("--epochs", options.epochs, "times to go through the text")
      ->check(CheckDecimal)
      ->check(CLI::Range(1, kMost));
  app.add_option("--units", options.units, "channels of the model, a multiple of 8")
      ->check(CheckDecimal)
      ->check(CLI::Range(8, 8192));
  app.add_option("--generate", options.generate, "characters of the generated paragraph")
      ->check(CheckDecimal)
      ->check(CLI::Range(0, kMost));
  app.add_option("--seed", options.seed, "fixes first weights, dropout and the paragraph")
      ->check(CheckDecimal);
  app.add_option("--training", options.training,
                 "folder for the whole training, which goes on from what is there, bit for bit");
  if (!command_line::Parse(&app, argc, argv)) return std::nullopt;
  options.text = command_line::FromUsersFolder(options.text);
  options.training = command_line::FromUsersFolder(options.training);
  return options;
}

}  // namespace tessera::characters
