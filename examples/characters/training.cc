#include "tessera/examples/characters/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/examples/training_folder/training_folder.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/train/adam.h"
#include "tessera/train/initializer.h"
#include "tessera/train/lr_scheduler.h"
#include "tessera/train/nn/loss.h"
#include "tessera/train/nn/trainer.h"
#include "tessera/train/stop_signals.h"

namespace tessera::characters {
namespace {

constexpr index_t kBatch = 16;        // places of the text that are read side by side
constexpr index_t kLength = 64;       // characters of each in one step
constexpr size_t kPrompt = 48;        // characters that the paragraph begins with
constexpr double kTemperature = 0.7;  // below 1, likely characters are written more often

/// The inputs of one step, and the characters that follow each of them.
struct Window {
  NDArray characters;
  NDArray next;
};

/// Returns the length of each part of a text that is read in `batch` equal parts.
index_t PartLength(const std::vector<float>& text, index_t batch) {
  return static_cast<index_t>(text.size()) / batch;
}

/// Returns `length` characters from each of `batch` equal parts of the text, from `begin` on.
Window WindowAt(const std::vector<float>& text, index_t batch, index_t begin, index_t length) {
  const index_t part = PartLength(text, batch);
  std::vector<float> characters, next;
  for (index_t i = 0; i < batch; ++i) {
    const auto first = text.begin() + i * part + begin;
    characters.insert(characters.end(), first, first + length);
    next.insert(next.end(), first + 1, first + length + 1);
  }
  return {NDArray::FromVector(characters, {batch, length}),
          NDArray::FromVector(next, {batch, length})};
}

/// Calls the model, and replaces the states by those behind the window. Gradients end there.
NDArray Predict(const CharacterModel& model, const NDArray& characters,
                std::vector<NDArray>* states) {
  std::vector<NDArray> inputs = {characters};
  inputs.insert(inputs.end(), states->begin(), states->end());
  const std::vector<NDArray> outputs = model.Call(inputs);
  for (size_t i = 0; i < states->size(); ++i) (*states)[i] = outputs[i + 1].Detach();
  return outputs[0];
}

/// Returns the mean of an array.
double Mean(const NDArray& array) {
  double sum = 0;
  for (const float value : array.ToVector()) sum += value;
  return sum / static_cast<double>(array.shape().Size());
}

/// A model with its optimizer, and the place in the text.
class Training {
 public:
  /// Prepares so many epochs on a text of this size, or goes on with a training that was kept.
  Training(const Options& options, const std::vector<float>& text, CharacterModel* model)
      : model_(*model),
        trainer_(model->Parameters(), std::make_shared<Adam>(AdamSettings(options, text))),
        folder_(options.training, model, &trainer_) {
    folder_.parts().Add("epoch", &epoch_);
    folder_.parts().Add("begin", &begin_);
    folder_.parts().Add("steps", &steps_);
    folder_.parts().Add("sum", &sum_);
    folder_.parts().Add("states", &states_);
    folder_.Continue();
  }

  /// Returns the number of the epoch that is to be read, from 1.
  int epoch() const { return static_cast<int>(epoch_); }

  /// Reads the text once from `first` on, or the rest of it after a stop, and returns the bits for
  /// each character; nothing if a signal stops it. The text goes on from step to step, and so do
  /// the states.
  std::optional<double> Epoch(const std::vector<float>& text, index_t first) {
    if (begin_ < 0) {
      begin_ = first;
      states_ = model_.BeginState(kBatch);
    }
    const index_t part = PartLength(text, kBatch);
    for (; begin_ + kLength < part; begin_ += kLength, ++steps_) {
      if (StopSignals::received() != 0) {
        folder_.Stop(epoch());
        return std::nullopt;
      }
      const Window window = WindowAt(text, kBatch, begin_, kLength);
      NDArray loss;
      {
        const autograd::Record record;
        loss = loss_(Predict(model_, window.characters, &states_), window.next);
      }
      loss.Backward();
      trainer_.Step(kBatch);
      sum_ += Mean(loss);  // waits, so that only one step's arrays take memory
    }
    const double bits = sum_ / static_cast<double>(steps_) / std::numbers::ln2;
    ++epoch_;
    begin_ = -1;
    steps_ = 0;
    sum_ = 0;
    folder_.Save();
    return bits;
  }

  /// Returns the bits for each character of a text but its first, read from its beginning.
  double Test(const std::vector<float>& text) const {
    std::vector<NDArray> states = model_.BeginState(1);
    const index_t size = static_cast<index_t>(text.size()) - 1;
    double sum = 0;
    for (index_t begin = 0; begin < size; begin += kLength) {
      const index_t length = std::min(kLength, size - begin);
      const Window window = WindowAt(text, 1, begin, length);
      const NDArray loss = loss_(Predict(model_, window.characters, &states), window.next);
      sum += Mean(loss) * static_cast<double>(length);
    }
    return sum / static_cast<double>(size) / std::numbers::ln2;
  }

 private:
  /// The rate rises in the first twentieth of the steps, and then falls to 0.
  static AdamOptions AdamSettings(const Options& options, const std::vector<float>& text) {
    const int64_t steps = options.epochs * (PartLength(text, kBatch) / kLength);
    AdamOptions adam;
    adam.learning_rate = options.learning_rate;
    adam.clip_global_norm = 1;
    adam.lr_scheduler = std::make_shared<CosineScheduler>(steps, 0, LrWarmup{.steps = steps / 20});
    return adam;
  }

  const CharacterModel& model_;
  const nn::SoftmaxCrossEntropyLoss loss_;
  nn::Trainer trainer_;
  // The epoch that is read: its number, the next place in each part of the text, or -1 before the
  // first, and the steps so far with the sum of their losses and the states behind them.
  int64_t epoch_ = 1, begin_ = -1, steps_ = 0;
  double sum_ = 0;
  std::vector<NDArray> states_;
  training_folder::TrainingFolder folder_;
};

/// Returns a prompt and characters that the model writes behind it.
std::string Write(const CharacterModel& model, const Alphabet& alphabet, std::string_view prompt,
                  const Options& options) {
  std::mt19937_64 random(options.seed);
  const CharacterModel::Reader reader = model.Read();
  std::string text(prompt);
  std::vector<float> characters = alphabet.Encode(prompt);
  for (int i = 0; i < options.generate; ++i) {
    const std::vector<float> outputs = reader(characters).ToVector();
    const std::vector<float> last(outputs.end() - alphabet.size(), outputs.end());
    const double largest = *std::max_element(last.begin(), last.end());
    std::vector<double> weights;
    for (const float value : last) weights.push_back(std::exp((value - largest) / kTemperature));
    const int drawn = std::discrete_distribution<int>(weights.begin(), weights.end())(random);
    text += alphabet.Decode(drawn);
    characters = {static_cast<float>(drawn)};
  }
  return text;
}

/// Prints the bits for each character of `text` behind `beginning`: those by which the compressed
/// size grows, so that the program has seen the beginning, too.
void PrintCompressed(const char* program, std::string_view beginning, const std::string& text) {
  const std::optional<double> before = CompressedBytes(program, beginning);
  const std::optional<double> all = CompressedBytes(program, text);
  if (!before || !all) {
    std::printf(", %s is not installed", program);
    return;
  }
  const double characters = static_cast<double>(text.size() - beginning.size());
  std::printf(", %s %.3f", program, (*all - *before) * 8 / characters);
}

}  // namespace

void TrainAndWrite(const Options& options, const std::string& text, const Alphabet& alphabet,
                   CharacterModel* model) {
  const std::string_view beginning = std::string_view(text).substr(0, text.size() / 10 * 9);
  const std::string_view end = std::string_view(text).substr(beginning.size());
  // Each part has a window behind any first character.
  constexpr size_t kLeast = static_cast<size_t>(kBatch * 2 * kLength) * 10 / 9 + 20;
  if (text.size() < kLeast) {
    throw InvalidArgument("--text: ", text.size(), " characters, expected ", kLeast, " or more");
  }
  std::printf("%zu characters, %zu of them for testing; %d different ones\n", text.size(),
              end.size(), static_cast<int>(alphabet.size()));
  ResourceManager::Get()->SeedRandom(options.seed);
  model->Initialize(Xavier(), {.seed = options.seed});
  model->Compile();
  const std::vector<float> learned = alphabet.Encode(beginning), tested = alphabet.Encode(end);
  Training training(options, learned, model);
  std::mt19937_64 random(options.seed);
  random.discard(static_cast<uint64_t>(training.epoch() - 1));  // of the epochs before
  std::optional<double> bits;
  while (training.epoch() <= options.epochs) {
    const int epoch = training.epoch();
    const auto start = std::chrono::steady_clock::now();
    const std::optional<double> training_bits =
        training.Epoch(learned, static_cast<index_t>(random() % static_cast<uint64_t>(kLength)));
    if (!training_bits) return;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    bits = training.Test(tested);
    std::printf("epoch %2d/%d  bits per character: training %.3f, test %.3f  %.0f characters/s\n",
                epoch, options.epochs, *training_bits, *bits,
                static_cast<double>(learned.size()) / seconds.count());
    std::fflush(stdout);
  }
  if (!bits) bits = training.Test(tested);
  std::printf("bits per character of the last tenth: model %.3f", *bits);
  PrintCompressed("gzip", beginning, text);
  PrintCompressed("xz", beginning, text);
  const std::string written = Write(*model, alphabet, end.substr(0, kPrompt), options);
  std::printf("\na paragraph behind the first %zu characters of that tenth:\n%s\n", kPrompt,
              written.c_str());
}

}  // namespace tessera::characters
