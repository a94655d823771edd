#ifndef TESSERA_IMAGE_TESTING_JPEG_PEER_H_
#define TESSERA_IMAGE_TESTING_JPEG_PEER_H_

#include <cstdint>
#include <vector>

#include "tessera/image/image.h"

/// The JPEG file that benchmarks decode, and its decoding by libjpeg-turbo alone.
namespace tessera::image_testing {

/// The height and width of Picture(), as data sets for networks have them.
inline constexpr int64_t kPictureSide = 256;

/// Returns a smooth RGB image with some texture, whose file has about as many bits for a pixel as
/// photographs.
Image Picture();

/// Decodes the file of an RGB image of kPictureSide x kPictureSide pixels by libjpeg-turbo without
/// anything around it. Its errors end the program.
void DecodeJpegAlone(const std::vector<uint8_t>& file, uint8_t* pixels);

}  // namespace tessera::image_testing

#endif  // TESSERA_IMAGE_TESTING_JPEG_PEER_H_
