#include "tessera/ops/operator.h"

#include "tessera/base/error.h"

namespace tessera {

void Operator::Backward(const OpContext&, std::span<const TBlob>, std::span<const TBlob>,
                        std::span<const TBlob>, std::span<const OpReqType>,
                        std::span<const TBlob>) {
  throw Unimplemented("Operator::Backward: the operator has no gradient");
}

PreparedForm Operator::InputForm(int, Device, std::span<const TShape>,
                                 std::span<const DType>) const {
  return {};
}

}  // namespace tessera
