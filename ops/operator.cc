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

std::optional<int64_t> Operator::ForwardWorkspaceBytes(int, std::span<const TBlob>,
                                                       std::span<const OpReqType>,
                                                       std::span<const TBlob>) const {
  return std::nullopt;
}

std::optional<int64_t> Operator::BackwardWorkspaceBytes(int, std::span<const TBlob>,
                                                        std::span<const TBlob>,
                                                        std::span<const TBlob>,
                                                        std::span<const OpReqType>,
                                                        std::span<const TBlob>) const {
  return std::nullopt;
}

}  // namespace tessera
