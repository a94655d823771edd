#include "tessera/image/decode.h"

#include <memory>

#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/base/foreign_file.h"
#include "tessera/image/internal/file_reader.h"

namespace tessera {
namespace {

using image_internal::FileReader;

int64_t MostPixels(const DecodeOptions& options) {
  constexpr int64_t kDefault = int64_t{1} << 28, kMost = int64_t{1} << 40;
  if (options.max_pixels) return *options.max_pixels;
  static const int64_t setting = EnvironmentInt("TESSERA_IMAGE_MAX_PIXELS", kDefault, 1, kMost);
  return setting;
}

/// Returns a noun phrase for a file that is neither JPEG nor PNG.
std::string_view Describe(std::span<const uint8_t> file) {
  const std::string_view begin(reinterpret_cast<const char*>(file.data()),
                               file.size() < 64 ? file.size() : 64);
  if (begin.empty()) return "an empty file";
  if (begin.starts_with("GIF8")) return "a GIF file";
  if (begin.starts_with("BM")) return "a BMP file";
  if (begin.starts_with("RIFF") && begin.substr(8).starts_with("WEBP")) return "a WebP file";
  if (begin.starts_with("II*") || begin.starts_with("MM")) return "a TIFF file";
  const std::string_view foreign = DescribeForeignFile(begin);
  return foreign.empty() ? "other bytes" : foreign;
}

std::unique_ptr<FileReader> Open(std::span<const uint8_t> file, std::string_view name,
                                 const DecodeOptions& options) {
  std::unique_ptr<FileReader> reader;
  if (image_internal::IsJpeg(file)) {
    reader = image_internal::OpenJpeg(file, name);
  } else if (image_internal::IsPng(file)) {
    reader = image_internal::OpenPng(file, name);
  } else {
    throw DataLoss(name, ": at byte 0: found ", Describe(file), ", expected a JPEG or PNG file");
  }
  const ImageSize size = reader->size();
  const int64_t most = MostPixels(options);
  // Both formats have sides below 2^31.
  if (size.height * size.width > most) {
    throw ResourceExhausted(name, ": claims ", size.height, " x ", size.width,
                            " pixels (height x width), expected at most ", most,
                            " pixels; TESSERA_IMAGE_MAX_PIXELS or max_pixels allows more");
  }
  return reader;
}

}  // namespace

ImageSize ReadImageSize(std::span<const uint8_t> file, std::string_view name,
                        const DecodeOptions& options) {
  return Open(file, name, options)->size();
}

void DecodeImage(std::span<const uint8_t> file, std::string_view name, const DecodeOptions& options,
                 Image* image) {
  if (options.channels != 1 && options.channels != 3 && options.channels != 4) {
    throw InvalidArgument(name, ": an image of ", options.channels,
                          " channels is asked for, expected 1, 3 or 4");
  }
  const std::unique_ptr<FileReader> reader = Open(file, name, options);
  const ImageSize size = reader->size();
  image->Resize(size.height, size.width, options.channels);
  reader->ReadPixels(options.order, image->view());
}

}  // namespace tessera
