#ifndef TESSERA_TRAIN_NN_POOLING_H_
#define TESSERA_TRAIN_NN_POOLING_H_

#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Options of pooling. A tuple has one element for each axis of the image, or one for all, or none
/// for the default.
struct PoolOptions {
  TShape size = TShape({});       ///< the window; by default 2
  TShape stride = TShape({});     ///< the distance between windows; by default `size`
  TShape pad = TShape({});        ///< elements added on each side; by default 0
  bool ceil_mode = false;         ///< whether a window that is only partly filled counts
  bool count_include_pad = true;  ///< whether averages count padding as zeros
};

/// Reduces each window of an image to one element, for any number of axes; MaxPool, AvgPool and the
/// global ones construct it.
///
/// Shapes: input (batch, channels, axes…), output the same with fewer or, for a global one, single
/// elements.
class Pooling : public UnaryLayer {
 protected:
  /// The number that stands for a window.
  enum class Kind { kMax, kAverage };

  /// Constructs a layer with windows. Throws Error(kInvalidArgument) for tuples of another length.
  Pooling(int rank, Kind kind, const PoolOptions& options);
  /// Constructs a layer whose window is the image.
  Pooling(int rank, Kind kind);

 private:
  NDArray Forward(const NDArray& x) const final;

  ParameterMap parameters_;
};

/// The largest element of each window, over `rank` axes.
template <int rank>
class MaxPool final : public Pooling {
 public:
  explicit MaxPool(const PoolOptions& options = {}) : Pooling(rank, Kind::kMax, options) {}
};
/// MaxPool over 1, 2 and 3 axes.
using MaxPool1D = MaxPool<1>;
using MaxPool2D = MaxPool<2>;
using MaxPool3D = MaxPool<3>;

/// The average of each window, over `rank` axes.
template <int rank>
class AvgPool final : public Pooling {
 public:
  explicit AvgPool(const PoolOptions& options = {}) : Pooling(rank, Kind::kAverage, options) {}
};
/// AvgPool over 1, 2 and 3 axes.
using AvgPool1D = AvgPool<1>;
using AvgPool2D = AvgPool<2>;
using AvgPool3D = AvgPool<3>;

/// The largest element of each channel, over `rank` axes, which have extent 1 afterwards.
template <int rank>
class GlobalMaxPool final : public Pooling {
 public:
  GlobalMaxPool() : Pooling(rank, Kind::kMax) {}
};
/// GlobalMaxPool over 1, 2 and 3 axes.
using GlobalMaxPool1D = GlobalMaxPool<1>;
using GlobalMaxPool2D = GlobalMaxPool<2>;
using GlobalMaxPool3D = GlobalMaxPool<3>;

/// The average of each channel, over `rank` axes, which have extent 1 afterwards.
template <int rank>
class GlobalAvgPool final : public Pooling {
 public:
  GlobalAvgPool() : Pooling(rank, Kind::kAverage) {}
};
/// GlobalAvgPool over 1, 2 and 3 axes.
using GlobalAvgPool1D = GlobalAvgPool<1>;
using GlobalAvgPool2D = GlobalAvgPool<2>;
using GlobalAvgPool3D = GlobalAvgPool<3>;

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_POOLING_H_
