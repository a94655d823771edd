#ifndef TESSERA_EXAMPLES_CHARACTERS_TEXT_H_
#define TESSERA_EXAMPLES_CHARACTERS_TEXT_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/tshape.h"

namespace tessera::characters {

/// Returns the contents of a file, or of a folder's files in the order of their names, without
/// folders in it and symbolic links. Throws Error(kNotFound) if the path cannot be read, and
/// Error(kInvalidArgument) for an empty text.
std::string ReadText(const std::string& path);

/// The characters (bytes) of a text, numbered from 0.
class Alphabet {
 public:
  /// Takes the characters that occur in the text, in their order as numbers.
  explicit Alphabet(std::string_view text);

  /// Returns the number of characters.
  index_t size() const { return static_cast<index_t>(characters_.size()); }
  /// Returns the numbers of characters, as an Embedding takes them. Requires: all are there.
  std::vector<float> Encode(std::string_view text) const;
  /// Returns the character of a number.
  char Decode(int number) const { return characters_[static_cast<size_t>(number)]; }

 private:
  std::string characters_;
  std::array<float, 256> numbers_ = {};
};

/// Returns the size that a program such as gzip or xz compresses a text to, in bytes; nothing if
/// there is no such program.
std::optional<double> CompressedBytes(const std::string& program, std::string_view text);

}  // namespace tessera::characters

#endif  // TESSERA_EXAMPLES_CHARACTERS_TEXT_H_
