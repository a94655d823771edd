#ifndef TESSERA_OPS_IMAGE_ADJUSTMENTS_H_
#define TESSERA_OPS_IMAGE_ADJUSTMENTS_H_

#include <array>

#include "tessera/tensor/tblob.h"

// Changes of the colours of images (height, width, channels) or (images, height, width, channels)
// with 1 or 3 channels: grey, or red, green and blue. `out` may be `in`. All element types;
// float64 is computed in float64, all others in float32, and integers are cut off towards 0 and
// limited to their type's range.
namespace tessera::ops_internal {

/// Computes out = factor in.
void ScaleBrightness(const TBlob& in, double factor, const TBlob& out);

/// Computes out = factor in + (1 - factor) m, where m is the mean of the grey of all pixels of the
/// image, 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601).
void ScaleContrast(const TBlob& in, double factor, const TBlob& out);

/// Computes out = factor in + (1 - factor) grey, with the pixel's own grey. A grey image is copied.
/// The grey of MXNet 1.9.1 lacks red and green here.
void ScaleSaturation(const TBlob& in, double factor, const TBlob& out);

/// Turns the hue of each pixel by `turns` full turns. The largest and the smallest number of a
/// pixel, and so its lightness and saturation, stay the same. A grey image is copied.
void TurnHue(const TBlob& in, double turns, const TBlob& out);

/// Adds along the principal components of the colours of ImageNet's images: each pixel's channels
/// gain the sum over k of alpha[k] lambda[k] p[k], the component's eigenvalue and eigenvector, in
/// units of 1/255 (Krizhevsky, Sutskever and Hinton 2012, section 4.1). A grey image is copied.
void AddLighting(const TBlob& in, const std::array<double, 3>& alpha, const TBlob& out);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_IMAGE_ADJUSTMENTS_H_
