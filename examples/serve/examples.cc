#include "tessera/examples/serve/examples.h"

#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/npy.h"

namespace tessera::serve {

Examples::Examples(const std::vector<std::string>& paths, double scale) {
  for (const std::string& path : paths) {
    const NDArray array = LoadNpy(path);
    const TShape& all = array.shape();
    if (all.ndim() < 1 || all.Size() == 0) {
      throw InvalidArgument(path, ": an array of shape ", all,
                            ", expected examples along the first axis");
    }
    const TShape shape(std::span<const index_t>(all.begin() + 1, all.end()));
    if (names_.empty()) shape_ = shape;
    if (shape != shape_) {
      throw InvalidArgument(path, ": examples of shape ", shape, ", expected ", shape_, " as in ",
                            paths[0]);
    }
    for (const float element : array.ToVector()) {
      elements_.push_back(static_cast<float>(element * scale));
    }
    const std::string file = std::filesystem::path(path).filename().string();
    for (index_t i = 0; i < all[0]; ++i) names_.push_back(file + " " + std::to_string(i));
  }
}

std::span<const float> Examples::operator[](size_t i) const {
  const size_t size = static_cast<size_t>(shape_.Size());
  return std::span<const float>(elements_).subspan(i * size, size);
}

}  // namespace tessera::serve
