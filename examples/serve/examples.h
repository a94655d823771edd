#ifndef TESSERA_EXAMPLES_SERVE_EXAMPLES_H_
#define TESSERA_EXAMPLES_SERVE_EXAMPLES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/tshape.h"

namespace tessera::serve {

/// Examples from `.npy` files, as float32.
class Examples {
 public:
  /// Reads files whose first axis counts examples, and multiplies their elements by `scale`. Throws
  /// what LoadNpy throws, and Error(kInvalidArgument) that names a file without examples, or with
  /// examples of another shape than the first file's.
  Examples(const std::vector<std::string>& paths, double scale);

  /// Returns the number of examples, at least 1.
  size_t size() const { return names_.size(); }
  /// Returns the shape of each example.
  const TShape& shape() const { return shape_; }
  /// Returns the elements of example i.
  std::span<const float> operator[](size_t i) const;
  /// Returns the name of example i: its file and its number there, such as "digits.npy 3".
  const std::string& name(size_t i) const { return names_[i]; }

 private:
  TShape shape_;
  std::vector<float> elements_;
  std::vector<std::string> names_;
};

}  // namespace tessera::serve

#endif  // TESSERA_EXAMPLES_SERVE_EXAMPLES_H_
