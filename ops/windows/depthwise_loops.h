#ifndef TESSERA_OPS_WINDOWS_DEPTHWISE_LOOPS_H_
#define TESSERA_OPS_WINDOWS_DEPTHWISE_LOOPS_H_

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/tensor/nn/depthwise_window.h"

namespace tessera::ops_internal {

/// The products of ConvolutionLoops for several groups of one channel or few, whose planes
/// tensor/nn/depthwise.h computes. Planes and rows of planes are distributed over threads. Results
/// do not depend on their number.
class DepthwiseLoops {
 public:
  /// Returns whether the members below compute the products: float32, several groups, a window of
  /// 3 x 3 or 5 x 5 taps without dilation, and one stride of 1 or 2. A group has one channel, or at
  /// most 16 channels and 16 filters: with more of them, a product of matrices is as fast.
  static bool Support(const ConvolutionGeometry& geometry, DType dtype);
  /// Returns the same for Spread, whose groups of several channels have stride 1.
  static bool SupportSpread(const ConvolutionGeometry& geometry, DType dtype);

  /// Requires: Support(geometry, kFloat32). The geometry must outlive this object.
  explicit DepthwiseLoops(const ConvolutionGeometry& geometry);

  /// These are the members of ConvolutionLoops.
  void Correlate(const float* image, const float* weight, const float* bias, bool add,
                 float* result, const Epilogue* epilogue = nullptr) const;
  /// Requires: SupportSpread(geometry, kFloat32). `transposed` is workspace for
  /// TransposedWeights() elements.
  void Spread(const float* result, const float* weight, const float* bias, bool add,
              float* transposed, float* image) const;
  index_t TransposedWeights() const { return g_.channels == 1 ? 0 : weights_; }

  /// Returns the number of doubles that WeightGradient needs as workspace.
  index_t SumsOfWeightGradient() const { return parts_ * weights_; }
  void WeightGradient(const float* image, const float* result, bool add, double* sums,
                      float* weight_grad) const;

 private:
  /// Returns the number of elements of a cheap loop that cost as much as a row of a filter's or a
  /// channel's results.
  index_t WorkOfRow(index_t width) const { return width * g_.channels * taps_ / 4; }
  /// Spread for groups of several channels.
  void SpreadGroups(const float* result, const float* weight, const float* bias, bool add,
                    float* transposed, float* image) const;

  const ConvolutionGeometry& g_;
  const tensor_internal::DepthwiseWindow window_;
  const tensor_internal::GroupExtents group_;
  const index_t image_size_;  ///< of one channel
  const index_t positions_, taps_;
  const index_t filters_;  ///< of all groups
  const index_t weights_;  ///< of all filters
  index_t parts_;          ///< into which WeightGradient divides the rows of all images
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_DEPTHWISE_LOOPS_H_
