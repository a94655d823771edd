#include "tessera/image/testing/jpeg_peer.h"

#include <cstddef>
#include <cstdio>  // jpeglib.h needs it

// jpeglib.h includes nothing by itself.
#include <jpeglib.h>

namespace tessera::image_testing {

Image Picture() {
  Image image;
  image.Resize(kPictureSide, kPictureSide, 3);
  uint32_t random = 1;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    random = random * 1664525u + 1013904223u;
    const auto x = i / 3 % kPictureSide, y = i / (3 * kPictureSide), c = i % 3;
    image.pixels[i] = static_cast<uint8_t>((x * (c + 1) + y * (3 - c)) / 4 + (random >> 27));
  }
  return image;
}

void DecodeJpegAlone(const std::vector<uint8_t>& file, uint8_t* pixels) {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, file.data(), file.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + static_cast<size_t>(jpeg.output_scanline) * 3 * kPictureSide;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_destroy_decompress(&jpeg);
}

}  // namespace tessera::image_testing
