#include "tessera/image/image.h"

#include <cstddef>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"

namespace tessera {

void Image::Resize(int64_t new_height, int64_t new_width, int64_t new_channels) {
  const CheckedSize size = CheckedSize(new_height) * new_width * new_channels;
  pixels.resize(static_cast<size_t>(size.ValueOrThrow("Image::Resize: the size")));
  height = new_height;
  width = new_width;
  channels = new_channels;
}

namespace image_internal {

void CheckHasPixels(std::string_view what, int64_t height, int64_t width, int64_t channels) {
  if (height >= 1 && width >= 1 && channels >= 1) return;
  throw InvalidArgument(what, ": an image of height ", height, ", width ", width, " and ", channels,
                        " channels has no pixels; expected at least 1 of each");
}

}  // namespace image_internal
}  // namespace tessera
