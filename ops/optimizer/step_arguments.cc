#include "tessera/ops/optimizer/step_arguments.h"

#include <algorithm>
#include <cstddef>

namespace tessera::ops_internal {

bool StepArguments::IsNothing() const {
  return size == 0 ||
         (req == kNullOp && std::none_of(keeps.begin(), keeps.end(), [](bool b) { return b; }));
}

StepArguments MakeStepArguments(std::span<const TBlob> in_data, OpReqType out_req, const TBlob& out,
                                std::span<const OpReqType> state_req, int num_states) {
  const auto array = [](const TBlob& blob) { return StepArray{blob.dptr_, blob.type_flag_}; };
  StepArguments arguments;
  arguments.size = in_data[0].Size();
  arguments.weight = array(in_data[0]);
  arguments.grad = array(in_data[1]);
  for (size_t k = 0; k < static_cast<size_t>(num_states); ++k) {
    arguments.states[k] = array(in_data[2 + k]);
    arguments.keeps[k] = state_req[k] != kNullOp;
  }
  if (out_req != kNullOp) arguments.out = array(out);
  arguments.req = out_req;
  return arguments;
}

}  // namespace tessera::ops_internal
