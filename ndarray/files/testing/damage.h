#ifndef TESSERA_NDARRAY_FILES_TESTING_DAMAGE_H_
#define TESSERA_NDARRAY_FILES_TESTING_DAMAGE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace tessera::ndarray_internal {

/// Calls `use` with damaged copies of a file: truncated at every byte, and with every byte replaced
/// by each value that is a multiple of `step`.
void DamageEverywhere(const std::string& file, int step,
                      const std::function<void(const std::string&)>& use);

/// Calls `use` with randomly damaged copies of the files: bytes are changed, removed and repeated,
/// and replaced by the given numbers. The seed is recorded for the test, and TESSERA_TEST_SEED
/// replaces it.
void DamageAtRandom(std::span<const std::string> files, std::span<const uint64_t> numbers,
                    int rounds, const std::function<void(const std::string&)>& use);

/// Calls the linked fuzz target with an exact copy on the heap, past whose end AddressSanitizer
/// sees.
void Fuzz(const std::string& bytes);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_TESTING_DAMAGE_H_
