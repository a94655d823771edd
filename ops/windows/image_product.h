#ifndef TESSERA_OPS_WINDOWS_IMAGE_PRODUCT_H_
#define TESSERA_OPS_WINDOWS_IMAGE_PRODUCT_H_

#include "tessera/base/shape.h"
#include "tessera/ops/epilogue.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/unpacked_windows.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera::ops_internal {

/// The weights of all groups, packed as left operands, or none.
using PackedWeights = tensor_internal::PackedOperand<float>;

/// Returns the packed weights of a group, given those of all groups.
PackedWeights OfGroup(const PackedWeights& packed, const ConvolutionGeometry& geometry,
                      index_t group);

/// ConvolutionLoops::Correlate in float32 by products that pack their right side from the images.
/// It needs no memory for unpacked windows. Images of few positions share a product, because one of
/// few columns would read the weights for each image, and leave packets unfilled.
class ImageProduct {
 public:
  /// The geometry must outlive this object.
  explicit ImageProduct(const ConvolutionGeometry& geometry);

  /// Returns the number of images that share a product.
  index_t SharedImages() const;

  /// Computes the results. `packed` has no data if the weights are not packed. `epilogue` follows
  /// unless it is null. Only tells how much memory it must have if `memory` measures.
  void Correlate(const float* image, const float* weight, const float* bias, bool add,
                 float* result, const PackedWeights& packed, const Epilogue* epilogue,
                 ConvolutionMemory* memory) const;

 private:
  struct ImageColumns;

  const ConvolutionGeometry& g_;
  const UnpackedWindows<float> windows_;
  const index_t image_size_, positions_, taps_, rows_;
};

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_IMAGE_PRODUCT_H_
