#ifndef TESSERA_IO_IMAGE_LIST_H_
#define TESSERA_IO_IMAGE_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dialect.h"

namespace tessera {

/// An image of a list, as MXNet's im2rec writes and reads it.
struct ListedImage {
  uint64_t id = 0;           ///< the image's number
  std::vector<float> label;  ///< at least one
  std::string path;          ///< of the image file; may be empty
};

/// Reads a list of images: each line has a number, labels and a path, separated by tabs. Empty
/// lines are ignored. `name` begins the error. Throws Error(kDataLoss) that names the line and the
/// text found.
std::vector<ListedImage> ParseImageList(std::string_view text, std::string_view name);

/// Reads a file with a list of images. Throws what ParseImageList throws, and Error: kNotFound if
/// the file does not exist, kFailedPrecondition if it cannot be opened, kInvalidArgument if it is
/// not a file.
std::vector<ListedImage> ReadImageList(const std::string& path);

/// Returns the line of an image, whose labels have as many digits as give them back. Throws
/// Error(kInvalidArgument) if there is no label, or the path has a tab or the end of a line.
std::string FormatListedImage(const ListedImage& image);

}  // namespace tessera

#endif  // TESSERA_IO_IMAGE_LIST_H_
