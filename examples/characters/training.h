#ifndef TESSERA_EXAMPLES_CHARACTERS_TRAINING_H_
#define TESSERA_EXAMPLES_CHARACTERS_TRAINING_H_

#include <functional>
#include <vector>

#include "tessera/base/tshape.h"
#include "tessera/examples/characters/options.h"
#include "tessera/examples/characters/text.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::characters {

/// A network that predicts each character of a text from those before.
///
/// Inputs: numbers of characters (batch, length), and the states behind the characters before them.
/// Outputs: for each position the logarithms of the next character's probabilities, up to a
/// constant, (batch, length, alphabet), and the states behind the last character.
class CharacterModel : public nn::Layer {
 public:
  /// Returns the states before a text: as many arrays as the model has states, which may be none.
  virtual std::vector<NDArray> BeginState(index_t batch) const = 0;

  /// Continues one text: takes its next characters, and returns the outputs for them, whose last
  /// row predicts the character behind.
  using Reader = std::function<NDArray(const std::vector<float>& characters)>;
  /// Returns a reader of a new text. The model must outlive it.
  virtual Reader Read() const = 0;
};

/// Trains a model on the first nine tenths of the text, tests it on the last tenth beside gzip and
/// xz, lets it write a paragraph, and prints all of that. Throws Error(kInvalidArgument) if the
/// text is too short.
void TrainAndWrite(const Options& options, const std::string& text, const Alphabet& alphabet,
                   CharacterModel* model);

}  // namespace tessera::characters

#endif  // TESSERA_EXAMPLES_CHARACTERS_TRAINING_H_
