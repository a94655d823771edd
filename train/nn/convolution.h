#ifndef TESSERA_TRAIN_NN_CONVOLUTION_H_
#define TESSERA_TRAIN_NN_CONVOLUTION_H_

#include <memory>
#include <string>

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Options of convolutions. A tuple has one element for each axis of the image, or one for all, or
/// none for the default.
struct ConvOptions {
  TShape stride = TShape({});   ///< the distance between windows; by default 1
  TShape pad = TShape({});      ///< zeros added on each side; by default 0
  TShape dilate = TShape({});   ///< the distance between a window's elements; by default 1
  index_t groups = 1;           ///< groups of channels, each of which is convolved by itself
  bool use_bias = true;         ///< whether a bias is added
  std::string activation = "";  ///< the name of an Activation of the result; empty for none
  index_t in_channels = TShape::kUnknown;  ///< the input's channels, if known
  /// Elements added to the output at the end of each axis, by transposed convolutions alone.
  TShape output_pad = TShape({});
  std::shared_ptr<const Initializer> weight_initializer = nullptr;  ///< null: the network's
};

/// A convolution of images, or its transpose, for any number of axes; Conv and ConvTranspose
/// construct it.
///
/// Shapes: input (batch, in_channels, axes…), output (batch, channels, axes…). Parameters: `weight`
/// (channels, in_channels / groups, kernel…), and (in_channels, channels / groups, kernel…) if
/// transposed; `bias` (channels).
class Convolution : public UnaryLayer {
 protected:
  /// The operator.
  enum class Kind { kConvolution, kTransposed };

  /// Throws Error(kInvalidArgument) for channels or groups below 1, channels that the groups do not
  /// divide, tuples of another length, and an unknown activation.
  Convolution(int rank, Kind kind, index_t channels, const TShape& kernel,
              const ConvOptions& options);

 private:
  NDArray Forward(const NDArray& x) const final;

  Kind kind_;
  index_t channels_;
  TShape kernel_;
  ConvOptions options_;
  Parameter weight_;
  Parameter bias_;  // registered if there is one
};

/// A convolution over `rank` axes: Conv2D(32, {3, 3}), or Conv2D(32, {3}).
template <int rank>
class Conv final : public Convolution {
 public:
  Conv(index_t channels, const TShape& kernel, const ConvOptions& options = {})
      : Convolution(rank, Kind::kConvolution, channels, kernel, options) {}
};
/// Conv over 1, 2 and 3 axes: rows, images, volumes.
using Conv1D = Conv<1>;
using Conv2D = Conv<2>;
using Conv3D = Conv<3>;

/// A transposed convolution over `rank` axes, also known as deconvolution.
template <int rank>
class ConvTranspose final : public Convolution {
 public:
  ConvTranspose(index_t channels, const TShape& kernel, const ConvOptions& options = {})
      : Convolution(rank, Kind::kTransposed, channels, kernel, options) {}
};
/// ConvTranspose over 1, 2 and 3 axes.
using Conv1DTranspose = ConvTranspose<1>;
using Conv2DTranspose = ConvTranspose<2>;
using Conv3DTranspose = ConvTranspose<3>;

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_CONVOLUTION_H_
