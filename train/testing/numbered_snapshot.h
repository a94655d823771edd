#ifndef TESSERA_TRAIN_TESTING_NUMBERED_SNAPSHOT_H_
#define TESSERA_TRAIN_TESTING_NUMBERED_SNAPSHOT_H_

#include <cstdint>

#include "tessera/train/checkpoint_folder.h"

namespace tessera::train_testing {

/// Returns a snapshot whose network, parameters and state tell its number.
TrainingSnapshot Numbered(int64_t number);

/// Checks that all parts of a snapshot are those of its number.
void ExpectNumbered(const TrainingSnapshot& snapshot, int64_t number);

}  // namespace tessera::train_testing

#endif  // TESSERA_TRAIN_TESTING_NUMBERED_SNAPSHOT_H_
