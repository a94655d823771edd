#ifndef TESSERA_OPS_ROW_OPERATOR_H_
#define TESSERA_OPS_ROW_OPERATOR_H_

#include "tessera/base/shape.h"
#include "tessera/ops/operator.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

/// What an Operator on the CPU also derives from if a row of its only output, along the last axis,
/// depends on that row of its only input alone, and the arrays have one shape. Others can then run
/// it on the rows one by one, as soon as these are complete.
class RowOperator {
 public:
  virtual ~RowOperator() = default;

  /// Returns whether RunRow may be called for the shape that the operator was made for.
  virtual bool RunsRows() const = 0;

  /// Computes row number `row` of `out` from that of `in` by a request, with the bits that Forward
  /// computes. The arrays may be one if they have one type. Throws nothing and runs no parallel
  /// loop. Threads: calls for different rows may overlap.
  virtual void RunRow(index_t row, const TBlob& in, OpReqType req, const TBlob& out) const = 0;
};

}  // namespace tessera

#endif  // TESSERA_OPS_ROW_OPERATOR_H_
