#ifndef TESSERA_TRAIN_NN_WINDOW_H_
#define TESSERA_TRAIN_NN_WINDOW_H_

#include <string_view>

#include "tessera/base/tshape.h"

namespace tessera::nn_internal {

/// Returns a tuple with one element for each of `rank` axes: `given` itself, its only element
/// repeated, or for an empty one `otherwise` repeated. Throws Error(kInvalidArgument) that names
/// layer and option for another length.
TShape PerAxis(std::string_view layer, std::string_view name, const TShape& given, int rank,
               index_t otherwise);

}  // namespace tessera::nn_internal

#endif  // TESSERA_TRAIN_NN_WINDOW_H_
