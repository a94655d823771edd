#include "tessera/image/testing/files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tessera::image_testing {

std::vector<uint8_t> ReadFile(const std::string& name) {
  std::ifstream file("image/testing/data/" + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return std::vector<uint8_t>(std::istreambuf_iterator<char>(file), {});
}

Image ReadNetpbm(const std::string& name) {
  const std::vector<uint8_t> bytes = ReadFile(name);
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::string kind;
  int64_t width = 0, height = 0, most = 0;
  text >> kind >> width >> height >> most;
  const int64_t channels = kind == "P6" ? 3 : 1;
  const int64_t size = height * width * channels;
  const auto begin = static_cast<int64_t>(text.tellg()) + 1;
  EXPECT_EQ(most, 255) << name;
  Image image;
  if (begin + size != static_cast<int64_t>(bytes.size())) {
    ADD_FAILURE() << name << " has " << bytes.size() << " bytes, expected " << begin + size;
    return image;
  }
  image.Resize(height, width, channels);
  std::copy(bytes.begin() + begin, bytes.end(), image.pixels.begin());
  return image;
}

int LargestDifference(const Image& a, const Image& b) {
  constexpr int kOtherShape = 256;
  if (a.height != b.height || a.width != b.width || a.channels != b.channels) return kOtherShape;
  int largest = 0;
  for (size_t i = 0; i < a.pixels.size(); ++i) {
    largest = std::max(largest, std::abs(int{a.pixels[i]} - int{b.pixels[i]}));
  }
  return largest;
}

}  // namespace tessera::image_testing
