#ifndef TESSERA_OPS_VISION_BOXES_STORE_LINE_H_
#define TESSERA_OPS_VISION_BOXES_STORE_LINE_H_

#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/operator.h"

namespace tessera::ops_internal {

/// Writes line n of an output whose lines have as many elements as `line`, as `req` says. T is
/// float or double.
template <typename T>
void StoreLine(const std::vector<T>& line, index_t n, OpReqType req, const TBlob& out) {
  if (req == kNullOp) return;
  const auto size = static_cast<index_t>(line.size());
  StoreRow(line.data(), size, req == kAddTo, out.type_flag_, ElementAt(out, n * size));
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_BOXES_STORE_LINE_H_
