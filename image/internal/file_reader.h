#ifndef TESSERA_IMAGE_INTERNAL_FILE_READER_H_
#define TESSERA_IMAGE_INTERNAL_FILE_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tessera/image/image.h"

namespace tessera::image_internal {

/// Reads one image file of a format.
class FileReader {
 public:
  virtual ~FileReader() = default;

  /// Returns the size that the file's header claims. It was read by the constructor.
  virtual ImageSize size() const = 0;

  /// Reads the pixels. The image has the header's size, and 1, 3 or 4 channels. Called once.
  virtual void ReadPixels(ColorOrder order, ImageView<uint8_t> image) = 0;
};

/// Tell by the first bytes whether a file may have the format.
bool IsJpeg(std::span<const uint8_t> file);
bool IsPng(std::span<const uint8_t> file);

/// Read the header of a file, which the caller keeps alive as well as `name`. Throw Error that
/// begins with `name`: kDataLoss if the file is damaged, kResourceExhausted if memory is used up.
std::unique_ptr<FileReader> OpenJpeg(std::span<const uint8_t> file, std::string_view name);
std::unique_ptr<FileReader> OpenPng(std::span<const uint8_t> file, std::string_view name);

}  // namespace tessera::image_internal

#endif  // TESSERA_IMAGE_INTERNAL_FILE_READER_H_
