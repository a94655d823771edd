#ifndef TESSERA_TRAIN_NN_DENSE_H_
#define TESSERA_TRAIN_NN_DENSE_H_

#include <memory>
#include <string>

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Options of Dense.
struct DenseOptions {
  std::string activation = "";  ///< the name of an Activation of the result; empty for none
  bool use_bias = true;         ///< whether a bias is added
  /// Tells whether all axes but the first are one, so that the output is (batch, units). Otherwise
  /// the layer maps the last axis, so that the output is (batch, …, units).
  bool flatten = true;
  index_t in_units = TShape::kUnknown;  ///< the extent of the mapped axis, if known
  std::shared_ptr<const Initializer> weight_initializer = nullptr;  ///< null: the network's
};

/// A fully connected layer: y = activation(x weight^T + bias).
///
/// Parameters: `weight` (units, in_units), `bias` (units).
class Dense final : public UnaryLayer {
 public:
  /// Throws Error(kInvalidArgument) for units below 1 and for an unknown activation.
  explicit Dense(index_t units, const DenseOptions& options = {});

 private:
  NDArray Forward(const NDArray& x) const override;

  index_t units_;
  DenseOptions options_;
  Parameter weight_;
  Parameter bias_;  // registered if there is one
};

/// Makes (batch, …) to (batch, product of the other extents).
class Flatten final : public UnaryLayer {
  NDArray Forward(const NDArray& x) const override;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_DENSE_H_
