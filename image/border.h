#ifndef TESSERA_IMAGE_BORDER_H_
#define TESSERA_IMAGE_BORDER_H_

#include <cstdint>
#include <span>

#include "tessera/base/dialect.h"
#include "tessera/image/image.h"

namespace tessera {

/// The pixels beyond the sides of an image. The values are OpenCV's; a row of the pixels abcd
/// continues to the right as the comments show.
enum class BorderType {
  kConstant = 0,    ///< given values
  kReplicate = 1,   ///< abcd|dddd
  kReflect = 2,     ///< abcd|dcba
  kWrap = 3,        ///< abcd|abcd
  kReflect101 = 4,  ///< abcd|cbab
};

/// Copies an image into the middle of a larger one, `top` rows and `left` columns from its corner,
/// and fills the border. Borders may be wider than the image.
///
/// With kConstant, channel c has the value values[c], or 0 if there is none. T is uint8_t, float or
/// double; values for uint8_t are rounded and clamped. The two images do not overlap.
/// Throws Error(kInvalidArgument) if `in` has no pixels, does not fit into `out`, or the channels
/// differ.
template <typename T>
void CopyWithBorder(ImageView<const T> in, int64_t top, int64_t left, BorderType type,
                    std::span<const double> values, ImageView<T> out);

extern template void CopyWithBorder(ImageView<const uint8_t>, int64_t, int64_t, BorderType,
                                    std::span<const double>, ImageView<uint8_t>);
extern template void CopyWithBorder(ImageView<const float>, int64_t, int64_t, BorderType,
                                    std::span<const double>, ImageView<float>);
extern template void CopyWithBorder(ImageView<const double>, int64_t, int64_t, BorderType,
                                    std::span<const double>, ImageView<double>);

}  // namespace tessera

#endif  // TESSERA_IMAGE_BORDER_H_
