#include "tessera/io/text.h"

#include <algorithm>
#include <memory>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/io/internal/byte_source.h"

namespace tessera {
namespace {

constexpr std::string_view kBlanks = " \t\n\v\f\r";

}  // namespace

std::string ReadTextFile(const std::string& path) {
  const std::unique_ptr<io_internal::ByteSource> source = io_internal::OpenFile(path);
  std::string text;
  std::vector<uint8_t> buffer(size_t{1} << 16);
  for (;;) {
    const auto count = static_cast<size_t>(source->Read(buffer));
    text.append(reinterpret_cast<const char*>(buffer.data()), count);
    if (count < buffer.size()) return text;
  }
}

std::vector<int32_t> ByteTokens(std::string_view text) {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string TextOfBytes(std::span<const int32_t> tokens) {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    if (token < 0 || token > 255) {
      throw OutOfRange("TextOfBytes: token ", token, " at position ", text.size(),
                       ", expected 0 to 255");
    }
    text.push_back(static_cast<char>(token));
  }
  return text;
}

std::vector<std::string_view> SplitWords(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kBlanks, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kBlanks, end);
  }
  return words;
}

Vocabulary::Vocabulary(std::span<const std::string_view> words, const VocabularyOptions& options) {
  if (options.min_count < 0 || options.max_size < 0) {
    throw InvalidArgument("Vocabulary: min_count ", options.min_count, " and max_size ",
                          options.max_size, ", expected at least 0");
  }
  Add(options.unknown);
  for (const std::string& word : options.reserved) {
    if (!Add(word)) {
      throw InvalidArgument("Vocabulary: reserved word ", Excerpt(word), " occurs twice");
    }
  }
  std::map<std::string_view, index_t> counts;
  for (const std::string_view word : words) ++counts[word];
  // Stable: words of one frequency stay in the order of their bytes.
  std::vector<std::pair<std::string_view, index_t>> order(counts.begin(), counts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [word, count] : order) {
    if (count < options.min_count || (options.max_size > 0 && size() >= options.max_size)) break;
    Add(word);  // unless it is reserved
  }
}

Vocabulary Vocabulary::Load(const std::string& path) {
  const std::string text = ReadTextFile(path);
  Vocabulary vocabulary;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    const index_t line = vocabulary.size() + 1;
    if (word.empty()) throw DataLoss(path, ": line ", line, " is empty, expected a word");
    if (!vocabulary.Add(word)) {
      throw DataLoss(path, ": line ", line, " repeats the word ", Excerpt(word));
    }
    begin = end + 1;
  }
  if (vocabulary.words_.empty()) throw DataLoss(path, ": is empty, expected a word on each line");
  return vocabulary;
}

void Vocabulary::Save(const std::string& path) const {
  std::string text;
  for (const std::string& word : words_) {
    if (word.empty() || word.find('\n') != std::string::npos) {
      throw InvalidArgument("Vocabulary::Save: word ", Excerpt(word),
                            " is empty or has a line feed, expected a word on a line");
    }
    text += word;
    text += '\n';
  }
  AtomicFile file(path, "Vocabulary::Save");
  file.Write(text.data(), static_cast<int64_t>(text.size()));
  file.Commit();
}

int32_t Vocabulary::Token(std::string_view word) const {
  const auto found = tokens_.find(word);
  return found == tokens_.end() ? 0 : found->second;
}

const std::string& Vocabulary::Word(int32_t token) const {
  if (token < 0 || token >= size()) {
    throw OutOfRange("Vocabulary::Word: token ", token, ", expected 0 to ", size() - 1);
  }
  return words_[static_cast<size_t>(token)];
}

std::vector<int32_t> Vocabulary::Tokens(std::span<const std::string_view> words) const {
  std::vector<int32_t> tokens;
  tokens.reserve(words.size());
  for (const std::string_view word : words) tokens.push_back(Token(word));
  return tokens;
}

std::string Vocabulary::Text(std::span<const int32_t> tokens) const {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) text += ' ';
    text += Word(tokens[i]);
  }
  return text;
}

/// Gives the word the next token. Returns false if it has one.
bool Vocabulary::Add(std::string_view word) {
  if (!tokens_.emplace(word, static_cast<int32_t>(words_.size())).second) return false;
  words_.emplace_back(word);
  return true;
}

NextTokenDataset::NextTokenDataset(std::vector<int32_t> tokens, index_t length)
    : tokens_(std::move(tokens)) {
  if (length < 1) {
    throw InvalidArgument("NextTokenDataset: length ", length, ", expected at least 1");
  }
  const auto step = static_cast<size_t>(length);
  for (size_t begin = 0; begin + step < tokens_.size(); begin += step) {
    ranges_.emplace_back(begin, begin + step + 1);
  }
  if (ranges_.empty()) {
    throw InvalidArgument("NextTokenDataset: ", tokens_.size(), " tokens, expected at least ",
                          length + 1, " for windows of ", length);
  }
}

NextTokenDataset::NextTokenDataset(std::span<const std::vector<int32_t>> sequences) {
  for (const std::vector<int32_t>& sequence : sequences) {
    if (sequence.size() < 2) {
      throw InvalidArgument("NextTokenDataset: sequence ", ranges_.size(), " has ", sequence.size(),
                            " tokens, expected at least 2");
    }
    ranges_.emplace_back(tokens_.size(), tokens_.size() + sequence.size());
    tokens_.insert(tokens_.end(), sequence.begin(), sequence.end());
  }
}

Example NextTokenDataset::Get(index_t index) const {
  if (index < 0 || index >= size()) {
    throw OutOfRange("NextTokenDataset::Get: index ", index, ", expected 0 to ", size() - 1);
  }
  const auto [begin, end] = ranges_[static_cast<size_t>(index)];
  const size_t length = end - begin - 1;
  const TShape shape = {static_cast<index_t>(length)};
  const std::span<const int32_t> tokens(tokens_);
  return {HostArray::FromValues(tokens.subspan(begin, length), shape),
          HostArray::FromValues(tokens.subspan(begin + 1, length), shape)};
}

std::vector<index_t> NextTokenDataset::Lengths() const {
  std::vector<index_t> lengths;
  lengths.reserve(ranges_.size());
  for (const auto& [begin, end] : ranges_) lengths.push_back(static_cast<index_t>(end - begin - 1));
  return lengths;
}

}  // namespace tessera
