#include "tessera/examples/characters/text.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>

#include "tessera/base/error.h"

namespace tessera::characters {
namespace {

namespace fs = std::filesystem;

void AppendFile(const fs::path& path, std::string* text) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  if (!file) throw NotFound("--text: ", path.string(), " cannot be read, expected a file");
  *text += contents.str();
}

}  // namespace

std::string ReadText(const std::string& path) {
  std::string text;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) AppendFile(file, &text);
  } else {
    AppendFile(path, &text);
  }
  if (text.empty()) throw InvalidArgument("--text: ", path, " is empty, expected characters");
  return text;
}

Alphabet::Alphabet(std::string_view text) : characters_(text) {
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
  for (size_t i = 0; i < characters_.size(); ++i) {
    numbers_[static_cast<unsigned char>(characters_[i])] = static_cast<float>(i);
  }
}

std::vector<float> Alphabet::Encode(std::string_view text) const {
  std::vector<float> numbers;
  numbers.reserve(text.size());
  for (const char character : text) {
    numbers.push_back(numbers_[static_cast<unsigned char>(character)]);
  }
  return numbers;
}

std::optional<double> CompressedBytes(const std::string& program, std::string_view text) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(tmpfile(), fclose);
  if (file == nullptr || fwrite(text.data(), 1, text.size(), file.get()) != text.size() ||
      fflush(file.get()) != 0) {
    throw ResourceExhausted("a temporary file cannot be written, expected room for the text");
  }
  // The file has no name but this one.
  const std::string name =
      "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fileno(file.get()));
  const std::string command = program + " -9 -c <" + name + " 2>/dev/null | wc -c";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  double size = 0;
  if (output == nullptr || fscanf(output.get(), "%lf", &size) != 1 || size == 0) {
    return std::nullopt;
  }
  return size;
}

}  // namespace tessera::characters
