#ifndef TESSERA_TRAIN_CHECKPOINT_H_
#define TESSERA_TRAIN_CHECKPOINT_H_

#include <map>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

/// The values of a network's arguments and auxiliary states, by name.
struct ModelParameters {
  std::map<std::string, NDArray> arg;  ///< weights, biases and so on
  std::map<std::string, NDArray> aux;  ///< auxiliary states
};

/// A network and its parameters.
struct Checkpoint {
  Symbol symbol;               ///< the network
  ModelParameters parameters;  ///< its values
  /// The keys of arrays in the file that LoadCheckpoint ignored, because they are data or labels.
  std::vector<std::string> ignored = {};
};

/// Writes `prefix-symbol.json` and `prefix-0007.params` (for epoch 7), in MXNet's names and
/// formats. Each file appears under its name when it is complete; a file that holds this network
/// already stays. The parameters' file has a digest of the network's file. Waits for the arrays.
/// Throws what Symbol::Save and SaveNDArrays throw.
void SaveCheckpoint(const std::string& prefix, int epoch, const Checkpoint& checkpoint);

/// Reads both files. Programs for MXNet often saved data and labels with the parameters: arguments
/// called `data`, `label`, `…_label`, or as `inputs` says are ignored and listed. Throws what
/// Symbol::Load and LoadNDArrays throw. Throws Error(kDataLoss) that names the file for parameters
/// that were saved with another network, which a digest tells, and for another array that is no
/// argument or auxiliary state of the network.
Checkpoint LoadCheckpoint(const std::string& prefix, int epoch,
                          const std::vector<std::string>& inputs = {});

/// Return the names of the two files.
std::string CheckpointSymbolPath(const std::string& prefix);
std::string CheckpointParametersPath(const std::string& prefix, int epoch);

}  // namespace tessera

#endif  // TESSERA_TRAIN_CHECKPOINT_H_
