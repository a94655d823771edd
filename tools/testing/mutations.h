#ifndef TESSERA_TOOLS_TESTING_MUTATIONS_H_
#define TESSERA_TOOLS_TESTING_MUTATIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::testing_internal {

/// A fuzz target: libFuzzer's LLVMFuzzerTestOneInput.
using FuzzTarget = int (*)(const uint8_t* data, size_t size);

/// Calls a fuzz target with each of the valid files, and with `count` variants of each in which
/// some bytes or the length differ. `telling` are bytes that mean something in the format. The
/// variants follow from TESSERA_TEST_SEED, by default the same ones each time; a failing test shows
/// the seed. For tests.
void RunMutations(FuzzTarget target, const std::vector<std::vector<uint8_t>>& valid,
                  const std::vector<uint8_t>& telling, int count);

}  // namespace tessera::testing_internal

#endif  // TESSERA_TOOLS_TESTING_MUTATIONS_H_
