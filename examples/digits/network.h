#ifndef TESSERA_EXAMPLES_DIGITS_NETWORK_H_
#define TESSERA_EXAMPLES_DIGITS_NETWORK_H_

#include <string_view>

#include "tessera/symbol/symbol.h"

namespace tessera::digits {

inline constexpr int kClasses = 10;

/// "mlp": pixels - 128 - 64 - 10 neurons, for images as (batch, pixels). "cnn": convolutions 3x3
/// with 32 and 64 channels, max pooling 2x2, then 128 - 10 neurons, for (batch, 1, height, width).
/// Both with ReLU between the layers and softmax at the end.
Symbol MakeNetwork(std::string_view model);

}  // namespace tessera::digits

#endif  // TESSERA_EXAMPLES_DIGITS_NETWORK_H_
