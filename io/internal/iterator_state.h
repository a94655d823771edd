#ifndef TESSERA_IO_INTERNAL_ITERATOR_STATE_H_
#define TESSERA_IO_INTERNAL_ITERATOR_STATE_H_

#include <cstdint>
#include <span>
#include <string>

#include "tessera/ndarray/state.h"

namespace tessera::io_internal {

/// Returns the state of an iterator of this class, to which the caller adds its position. `setup`
/// has the numbers that decide the iterator's batches.
TrainingState NewState(const char* iterator, std::span<const int64_t> setup);

/// Checks that NewState has returned the state for the same arguments. Throws
/// Error(kInvalidArgument) if the class differs, Error(kDataLoss) if a number of the setup does.
void CheckState(const TrainingState& state, const char* iterator, std::span<const int64_t> setup);

/// Returns an integer of the state. Throws Error(kDataLoss) that names it unless it is in [0,
/// most].
int64_t IntegerUpTo(const TrainingState& state, const std::string& name, int64_t most);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_ITERATOR_STATE_H_
