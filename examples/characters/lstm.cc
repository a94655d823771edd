// Trains long short-term memory on the characters of a text, and writes a paragraph:
//
//   bazel run //examples/characters:lstm                          # Debian's texts of licences
//   bazel run //examples/characters:lstm -- --text=book.txt --epochs=20
//
// With --training=FOLDER a training that is stopped, also by Ctrl-C, goes on when it is called
// again.
//
// Prints the bits for each character of the text's last tenth, which was not trained on, beside
// those of gzip and xz.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/examples/characters/options.h"
#include "tessera/examples/characters/text.h"
#include "tessera/examples/characters/training.h"
#include "tessera/examples/command_line/command_line.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/dropout.h"
#include "tessera/train/nn/embedding.h"
#include "tessera/train/nn/recurrent.h"
#include "tessera/train/stop_signals.h"

namespace tessera::characters {
namespace {

/// An embedding, two layers of LSTM and a dense layer. The states are those of the LSTM.
class LstmModel final : public CharacterModel {
 public:
  LstmModel(index_t alphabet, index_t units)
      : embedding_(AddLayer("embedding", nn::Embedding(alphabet, units / 4))),
        lstm_(AddLayer("lstm",
                       nn::LSTM(units, {.num_layers = 2, .dropout = 0.1, .batch_first = true}))),
        dropout_(AddLayer("dropout", nn::Dropout(0.1))),
        output_(AddLayer("output", nn::Dense(alphabet, {.flatten = false}))) {}

  std::vector<NDArray> BeginState(index_t batch) const override { return lstm_->BeginState(batch); }

  Reader Read() const override {
    return [this, states = BeginState(1)](const std::vector<float>& characters) mutable {
      const index_t length = static_cast<index_t>(characters.size());
      std::vector<NDArray> outputs =
          Call({NDArray::FromVector(characters, {1, length}), states[0], states[1]});
      states = {outputs[1], outputs[2]};
      return outputs[0];
    };
  }

 private:
  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const override {
    std::vector<NDArray> outputs = lstm_->Call({(*embedding_)(inputs[0]), inputs[1], inputs[2]});
    outputs[0] = (*output_)((*dropout_)(outputs[0]));
    return outputs;
  }

  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::LSTM> lstm_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::Dense> output_;
};

}  // namespace
}  // namespace tessera::characters

int main(int argc, char** argv) {
  using namespace tessera::characters;  // NOLINT
  const tessera::StopSignals signals;
  const int status = tessera::command_line::RunProgram("lstm", [argc, argv] {
    const std::optional<Options> options =
        ParseOptions("lstm", {.units = 256, .learning_rate = 5e-3}, argc, argv);
    if (!options) return;
    const std::string text = ReadText(options->text);
    const Alphabet alphabet(text);
    LstmModel model(alphabet.size(), options->units);
    TrainAndWrite(*options, text, alphabet, &model);
  });
  return status != 0 ? status : tessera::StopSignals::exit_code();
}
