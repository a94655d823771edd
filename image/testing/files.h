#ifndef TESSERA_IMAGE_TESTING_FILES_H_
#define TESSERA_IMAGE_TESTING_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/image/image.h"

namespace tessera::image_testing {

/// Returns the contents of a file in image/testing/data. Fails the test if there is none.
std::vector<uint8_t> ReadFile(const std::string& name);

/// Returns the image of a binary Netpbm file there, whose values are at most 255.
Image ReadNetpbm(const std::string& name);

/// Returns the largest difference of two images' levels, or 256 if their shapes differ.
int LargestDifference(const Image& a, const Image& b);

}  // namespace tessera::image_testing

#endif  // TESSERA_IMAGE_TESTING_FILES_H_
