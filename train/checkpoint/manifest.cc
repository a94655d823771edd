#include "tessera/train/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <optional>
#include <system_error>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/train/checkpoint/crc32c.h"

namespace tessera::train_internal {
namespace {

constexpr std::string_view kName = "tessera-checkpoint ";
constexpr std::string_view kVersion = "1";
constexpr size_t kChecksumDigits = 8;

std::string Hex(uint32_t value) {
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[(value >> shift) & 15];
  return text;
}

/// Returns the number that is all of the text, as WriteManifest writes it.
std::optional<int64_t> ReadNumber(std::string_view text, int base) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || next != end || value < 0) return std::nullopt;
  return value;
}

std::optional<uint32_t> ReadChecksum(std::string_view text) {
  const std::optional<int64_t> value = ReadNumber(text, 16);
  if (text.size() != kChecksumDigits || !value) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

/// Takes the text up to the next `end` from the front.
std::string_view Take(std::string_view* text, char end) {
  const size_t at = std::min(text->find(end), text->size());
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return taken;
}

}  // namespace

ManifestFile Measure(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  std::ifstream file(path, std::ios::binary);
  ManifestFile measured{name};
  std::vector<char> buffer(size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto size = static_cast<size_t>(file.gcount());
    measured.checksum = Crc32c({buffer.data(), size}, measured.checksum);
    measured.size_bytes += static_cast<int64_t>(size);
  }
  if (!file.eof()) throw DataLoss(path, ": cannot be read, expected a file of the checkpoint");
  return measured;
}

std::string WriteManifest(const Manifest& manifest) {
  std::string text(kName);
  text += std::string(kVersion) + "\nstep " + std::to_string(manifest.step) + "\n";
  for (const ManifestFile& file : manifest.files) {
    text += "file " + file.name + " " + std::to_string(file.size_bytes) + " " + Hex(file.checksum) +
            "\n";
  }
  return text + "end " + Hex(Crc32c(text)) + "\n";
}

Manifest ReadManifest(const std::string& path, std::string_view text,
                      const std::vector<std::string>& names) {
  const auto refuse = [&path](std::string_view line, const std::string& expected) {
    return DataLoss(path, ": found '", Excerpt(line), "', expected ", expected);
  };
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw DataLoss(path, ": found byte 0 at offset ", zero, ", expected text");
  }
  std::string_view left = text;
  std::string_view line = Take(&left, '\n');
  if (!line.starts_with(kName)) throw refuse(line, "'" + std::string(kName) + "1'");
  if (line.substr(kName.size()) != kVersion) {
    throw Unimplemented(path, ": version ", Excerpt(line.substr(kName.size())), ", expected ",
                        kVersion, "; a later version of the library may read it");
  }
  Manifest manifest;
  line = Take(&left, '\n');
  const std::optional<int64_t> step =
      line.starts_with("step ") ? ReadNumber(line.substr(5), 10) : std::nullopt;
  if (!step) throw refuse(line, "'step' and a number");
  manifest.step = *step;
  size_t begin = 0;  // of the line
  for (;;) {
    begin = text.size() - left.size();
    line = Take(&left, '\n');
    if (!line.starts_with("file ")) break;
    std::string_view fields = line.substr(5);
    const std::string name(Take(&fields, ' '));
    const auto size_bytes = ReadNumber(Take(&fields, ' '), 10);
    const auto checksum = ReadChecksum(fields);
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
    const bool is_new =
        std::none_of(manifest.files.begin(), manifest.files.end(),
                     [&name](const ManifestFile& other) { return other.name == name; });
    if (!is_known || !is_new || !size_bytes || !checksum) {
      throw refuse(line, "'file', each of " + ListNames(names) +
                             " at most once, and its size in "
                             "bytes and checksum");
    }
    manifest.files.push_back({name, *size_bytes, *checksum});
  }
  const auto checksum = line.starts_with("end ") ? ReadChecksum(line.substr(4)) : std::nullopt;
  if (!checksum || !left.empty() || text.back() != '\n') {
    throw refuse(line, "'end' and a checksum as the last line");
  }
  const uint32_t found = Crc32c(text.substr(0, begin));
  if (*checksum != found) {
    throw DataLoss(path, ": its checksum is ", Hex(found), ", expected ", Hex(*checksum));
  }
  return manifest;
}

}  // namespace tessera::train_internal
