// A fuzz target for the readers of image files: any bytes give an image of the declared size, or an
// Error. Compile this file by clang with -fsanitize=fuzzer,address. decode_mutation_test drives it
// without clang.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tessera/base/error.h"
#include "tessera/image/decode.h"
#include "tessera/image/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> file(data, size);
  for (const int channels : {1, 3, 4}) {
    // More pixels would only cost time.
    const tessera::DecodeOptions options = {.channels = channels, .max_pixels = 1 << 16};
    try {
      const tessera::ImageSize declared = tessera::ReadImageSize(file, "fuzz", options);
      tessera::Image image;
      tessera::DecodeImage(file, "fuzz", options, &image);
      if (image.height != declared.height || image.width != declared.width ||
          image.channels != channels ||
          image.pixels.size() != static_cast<size_t>(image.height * image.width * channels)) {
        std::abort();
      }
    } catch (const tessera::Error&) {
    }
  }
  return 0;
}
