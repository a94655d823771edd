#ifndef TESSERA_IO_TEXT_H_
#define TESSERA_IO_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/io/dataset.h"

namespace tessera {

/// Returns the contents of a file, plain or compressed by gzip. Throws Error that names it:
/// kNotFound if it does not exist, kFailedPrecondition if it cannot be opened, kInvalidArgument if
/// it is not a file, kDataLoss for damaged compression.
std::string ReadTextFile(const std::string& path);

/// Returns the bytes of a text as tokens from 0 to 255.
std::vector<int32_t> ByteTokens(std::string_view text);
/// Returns the text of such tokens. Throws Error(kOutOfRange) that names a token that is no byte.
std::string TextOfBytes(std::span<const int32_t> tokens);

/// Returns the words of a text, which blanks separate: space, tab, line feed, vertical tab, form
/// feed and carriage return. The words are parts of `text`.
std::vector<std::string_view> SplitWords(std::string_view text);

/// Options of a Vocabulary.
struct VocabularyOptions {
  index_t min_count = 1;          ///< rarer words have no token
  index_t max_size = 0;           ///< if positive, the largest number of tokens
  std::string unknown = "<unk>";  ///< the word of token 0, which stands for all words without token
  std::vector<std::string> reserved = {};  ///< the words of tokens 1, 2, …, in this order
};

/// Words and their tokens, which are numbers from 0 on. Immutable; thread-safe.
class Vocabulary {
 public:
  /// Gives tokens to the words of a text: after token 0 and the reserved ones, the most frequent
  /// first, and among words of one frequency by their bytes. Throws Error(kInvalidArgument) for
  /// negative options and for a reserved word that occurs twice.
  explicit Vocabulary(std::span<const std::string_view> words,
                      const VocabularyOptions& options = {});

  /// Reads a file that Save has written. Throws what ReadTextFile throws, and Error(kDataLoss) that
  /// names the file and the line for an empty or repeated word and for a file without words.
  static Vocabulary Load(const std::string& path);
  /// Writes the words in the order of their tokens, each on a line. The file appears under its name
  /// when it is complete. Throws what AtomicFile throws, and Error(kInvalidArgument) for a word
  /// that is empty or has a line feed.
  void Save(const std::string& path) const;

  /// Returns the number of tokens.
  index_t size() const { return static_cast<index_t>(words_.size()); }

  /// Returns the token of a word; 0 for a word without one.
  int32_t Token(std::string_view word) const;
  /// Returns the word of a token. Throws Error(kOutOfRange) unless 0 <= token < size().
  const std::string& Word(int32_t token) const;

  /// Returns the tokens of words.
  std::vector<int32_t> Tokens(std::span<const std::string_view> words) const;
  /// Returns the words of tokens, with a space between two. Throws what Word throws.
  std::string Text(std::span<const int32_t> tokens) const;

 private:
  Vocabulary() = default;
  bool Add(std::string_view word);

  std::vector<std::string> words_;                      // by token
  std::map<std::string, int32_t, std::less<>> tokens_;  // by word
};

/// Sequences for a model that predicts the next token: an example is all tokens of a sequence but
/// the last, and as its label all but the first, both int32 of shape (length).
class NextTokenDataset final : public Dataset {
 public:
  /// Divides a text into windows: example i has tokens i * length, …, i * length + length - 1, and
  /// the label is one token further. Tokens at the end that fill no window are left out. Throws
  /// Error(kInvalidArgument) for a length below 1 and for no window.
  NextTokenDataset(std::vector<int32_t> tokens, index_t length);
  /// Takes sequences that stand alone. Throws Error(kInvalidArgument) that names a sequence of less
  /// than two tokens.
  explicit NextTokenDataset(std::span<const std::vector<int32_t>> sequences);

  index_t size() const override { return static_cast<index_t>(ranges_.size()); }
  /// Throws Error(kOutOfRange) unless 0 <= index < size().
  Example Get(index_t index) const override;

  /// Returns the length of each example, for InBuckets.
  std::vector<index_t> Lengths() const;

 private:
  std::vector<int32_t> tokens_;
  std::vector<std::pair<size_t, size_t>> ranges_;  // [begin, end) of each sequence
};

}  // namespace tessera

#endif  // TESSERA_IO_TEXT_H_
