#ifndef TESSERA_NDARRAY_FUNCTIONS_OUTPUTS_H_
#define TESSERA_NDARRAY_FUNCTIONS_OUTPUTS_H_

#include <utility>
#include <vector>

#include "tessera/ndarray/ndarray.h"

namespace tessera::ops {

/// The outputs of an operator that shows several of them, or that does for some parameters.
class Outputs : public std::vector<NDArray> {
 public:
  Outputs() = default;
  /// Takes the arrays.
  explicit Outputs(std::vector<NDArray> arrays) : std::vector<NDArray>(std::move(arrays)) {}

  /// Returns the single output: `NDArray y = ops::BatchNorm(x, gamma, beta, mean, var)`. Throws
  /// Error(kFailedPrecondition) if there are several.
  operator NDArray() const;  // NOLINT: other functions take it as an input
};

}  // namespace tessera::ops

#endif  // TESSERA_NDARRAY_FUNCTIONS_OUTPUTS_H_
