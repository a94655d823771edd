#include <cuda_runtime.h>

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/stream.h"

namespace tessera {

template <>
void SetDevice<gpu>(int dev_id) {
  tensor_internal::CheckCuda(cudaSetDevice(dev_id), "SetDevice<gpu>: cudaSetDevice");
}

}  // namespace tessera
