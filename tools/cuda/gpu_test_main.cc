// GoogleTest's main for tests that need a GPU. Where none answers there is nothing to test, which
// is an error only where somebody counts on one and sets TESSERA_TEST_NEEDS_GPU.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "nothing was tested: no GPU answers (%s)\n", cudaGetErrorString(status));
    return std::getenv("TESSERA_TEST_NEEDS_GPU") == nullptr ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  return RUN_ALL_TESTS();
}
