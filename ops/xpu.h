#ifndef TESSERA_OPS_XPU_H_
#define TESSERA_OPS_XPU_H_

#include "tessera/base/device.h"

namespace tessera {

/// The device that the including operator file is compiled for. The build compiles each such file
/// for the host. Under --config=cuda, nvcc compiles it again with TESSERA_XPU_GPU.
#if defined(TESSERA_XPU_GPU)
using xpu = gpu;
#else
using xpu = cpu;
#endif

}  // namespace tessera

#endif  // TESSERA_OPS_XPU_H_
