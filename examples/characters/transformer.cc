// Trains a small transformer on the characters of a text, and writes a paragraph:
//
//   bazel run //examples/characters:transformer                   # Debian's texts of licences
//   bazel run //examples/characters:transformer -- --text=book.txt --epochs=20
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
#include "tessera/train/nn/activation.h"
#include "tessera/train/nn/attention.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/dropout.h"
#include "tessera/train/nn/embedding.h"
#include "tessera/train/nn/norm.h"
#include "tessera/train/nn/sequential.h"
#include "tessera/train/stop_signals.h"

namespace tessera::characters {
namespace {

constexpr index_t kHeads = 4;
constexpr int kBlocks = 4;
constexpr double kDropout = 0.1;
/// A text is continued from at most so many characters, since training reads no longer ones.
constexpr index_t kContext = 64;

/// Attention and two dense layers, each behind a norm and beside a shortcut (R. Xiong et al., On
/// Layer Normalization in the Transformer Architecture, ICML 2020, with B. Zhang's norm).
class Block final : public nn::UnaryLayer {
 public:
  explicit Block(index_t units)
      : norm_(AddLayer("norm", nn::RMSNorm())),
        attention_(
            AddLayer("attention",
                     nn::MultiHeadAttention(
                         units, kHeads, {.causal = true, .dropout = kDropout, .rotary = true}))),
        feed_forward_(AddLayer(
            "feed_forward", nn::Residual(nn::Sequential(
                                nn::RMSNorm(), nn::Dense(4 * units, {.flatten = false}), nn::SiLU(),
                                nn::Dense(units, {.flatten = false}), nn::Dropout(kDropout))))) {}

  /// Computes the outputs of the next positions, which see those in the cache.
  NDArray Step(const NDArray& x, nn::KeyValueCache* cache) const {
    return (*feed_forward_)(x + attention_->Step((*norm_)(x), cache));
  }

 private:
  NDArray Forward(const NDArray& x) const override {
    return (*feed_forward_)(x + (*attention_)((*norm_)(x)));
  }

  std::shared_ptr<nn::RMSNorm> norm_;
  std::shared_ptr<nn::MultiHeadAttention> attention_;
  std::shared_ptr<nn::Residual> feed_forward_;
};

/// An embedding, blocks and a dense layer. There are no states: a window begins anew.
class Transformer final : public CharacterModel {
 public:
  Transformer(index_t alphabet, index_t units)
      : embedding_(AddLayer("embedding", nn::Embedding(alphabet, units))),
        output_(AddLayer("output",
                         nn::Sequential(nn::RMSNorm(), nn::Dense(alphabet, {.flatten = false})))) {
    for (int i = 0; i < kBlocks; ++i) {
      blocks_.push_back(AddLayer("block" + std::to_string(i), Block(units)));
    }
  }

  std::vector<NDArray> BeginState(index_t) const override { return {}; }

  Reader Read() const override {
    return [this, text = std::vector<float>(), caches = std::vector<nn::KeyValueCache>(kBlocks)](
               std::vector<float> characters) mutable {
      text.insert(text.end(), characters.begin(), characters.end());
      if (caches[0].length() + static_cast<index_t>(characters.size()) > kContext) {
        // Forgets all but the last half of the context.
        caches.assign(kBlocks, {});
        characters.assign(text.end() - kContext / 2, text.end());
      }
      const index_t length = static_cast<index_t>(characters.size());
      NDArray x = (*embedding_)(NDArray::FromVector(characters, {1, length}));
      for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i]->Step(x, &caches[i]);
      return (*output_)(x);
    };
  }

 private:
  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const override {
    NDArray x = (*embedding_)(inputs[0]);
    for (const std::shared_ptr<Block>& block : blocks_) x = (*block)(x);
    return {(*output_)(x)};
  }

  std::shared_ptr<nn::Embedding> embedding_;
  std::shared_ptr<nn::Sequential> output_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace
}  // namespace tessera::characters

int main(int argc, char** argv) {
  using namespace tessera::characters;  // NOLINT
  const tessera::StopSignals signals;
  const int status = tessera::command_line::RunProgram("transformer", [argc, argv] {
    const std::optional<Options> options =
        ParseOptions("transformer", {.units = 128, .learning_rate = 2e-3}, argc, argv);
    if (!options) return;
    const std::string text = ReadText(options->text);
    const Alphabet alphabet(text);
    Transformer model(alphabet.size(), options->units);
    TrainAndWrite(*options, text, alphabet, &model);
  });
  return status != 0 ? status : tessera::StopSignals::exit_code();
}
