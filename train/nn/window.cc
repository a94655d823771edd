#include "tessera/train/nn/window.h"

#include "tessera/base/error.h"

namespace tessera::nn_internal {

TShape PerAxis(std::string_view layer, std::string_view name, const TShape& given, int rank,
               index_t otherwise) {
  if (!given.known() || (given.ndim() > 1 && given.ndim() != rank)) {
    throw InvalidArgument(layer, ": ", name, " is ", given, ", expected one element for each of ",
                          rank, " axes, or one for all");
  }
  if (given.ndim() == rank) return given;
  TShape all = TShape::OfRank(rank);
  for (int i = 0; i < rank; ++i) all[i] = given.ndim() == 1 ? given[0] : otherwise;
  return all;
}

}  // namespace tessera::nn_internal
