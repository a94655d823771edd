#include "tessera/ndarray/boolean_mask.h"

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"

namespace tessera {

NDArray BooleanMask(const NDArray& data, const NDArray& mask, int axis) {
  const int rank = data.shape().ndim();
  if (axis < -rank || axis >= rank) {
    throw InvalidArgument("BooleanMask: axis is ", axis, ", but data has shape ", data.shape());
  }
  const int position = axis < 0 ? axis + rank : axis;
  const TShape expected = {data.shape()[position]};
  if (mask.shape() != expected) {
    throw InvalidArgument("BooleanMask: the mask has shape ", mask.shape(), ", expected ", expected,
                          ", the extent of dimension ", position, " of data of shape ",
                          data.shape());
  }
  std::vector<uint8_t> keeps(static_cast<size_t>(expected[0]));
  mask.Detach().AsType(DType::kBool).SyncCopyToCPU(keeps.data(), expected[0]);
  std::vector<int64_t> kept;
  for (size_t i = 0; i < keeps.size(); ++i) {
    if (keeps[i] != 0) kept.push_back(static_cast<int64_t>(i));
  }
  NDArray positions({static_cast<index_t>(kept.size())}, data.device(), DType::kInt64);
  positions.SyncCopyFromCPU(kept.data(), static_cast<index_t>(kept.size()));
  return Invoke("take", {data, positions}, {{"axis", std::to_string(position)}}).front();
}

}  // namespace tessera
