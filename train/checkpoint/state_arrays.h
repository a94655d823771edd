#ifndef TESSERA_TRAIN_CHECKPOINT_STATE_ARRAYS_H_
#define TESSERA_TRAIN_CHECKPOINT_STATE_ARRAYS_H_

#include <map>
#include <string>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/state.h"

namespace tessera::train_internal {

/// Returns a state as arrays, which keep every number's bits: "integer:" and a name, of int64,
/// "number:" of float64, "text:" of uint8, and "array:".
std::map<std::string, NDArray> ArraysOf(const TrainingState& state);

/// Returns the state of such arrays. `path` begins the Error(kDataLoss) for an array that is none.
TrainingState StateOf(const std::string& path, const std::map<std::string, NDArray>& arrays);

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_CHECKPOINT_STATE_ARRAYS_H_
