#ifndef TESSERA_TRAIN_NN_DROPOUT_H_
#define TESSERA_TRAIN_NN_DROPOUT_H_

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// In training, sets each element to 0 with probability `rate` and divides the others by 1 - rate
/// (N. Srivastava et al., Dropout, JMLR 15, 2014). Otherwise returns the input's elements. Along
/// `axes`, elements are kept or dropped together.
class Dropout final : public UnaryLayer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= rate < 1.
  explicit Dropout(double rate, const TShape& axes = TShape({}));

 private:
  NDArray Forward(const NDArray& x) const override;

  double rate_;
  TShape axes_;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_DROPOUT_H_
