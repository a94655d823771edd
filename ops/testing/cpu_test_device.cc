#include "tessera/ops/testing/test_device.h"

namespace tessera::ops_testing {

std::unique_ptr<TestDevice> MakeTestDevice() { return MakeCpuTestDevice(); }

}  // namespace tessera::ops_testing
