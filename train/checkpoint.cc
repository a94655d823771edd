#include "tessera/train/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/serialization.h"

namespace tessera {
namespace {

constexpr std::string_view kArg = "arg:";
constexpr std::string_view kAux = "aux:";

/// Moves an array to the place of its key. Returns false if the network has no such name.
bool Place(const std::string& key, const NDArray& array, std::string_view prefix,
           const std::vector<std::string>& names, std::map<std::string, NDArray>* target) {
  if (!key.starts_with(prefix)) return false;
  const std::string name = key.substr(prefix.size());
  if (std::find(names.begin(), names.end(), name) == names.end()) return false;
  target->emplace(name, array);
  return true;
}

}  // namespace

std::string CheckpointSymbolPath(const std::string& prefix) { return prefix + "-symbol.json"; }

std::string CheckpointParametersPath(const std::string& prefix, int epoch) {
  char number[16];
  std::snprintf(number, sizeof(number), "-%04d", epoch);
  return prefix + number + ".params";
}

void SaveCheckpoint(const std::string& prefix, int epoch, const Checkpoint& checkpoint) {
  std::map<std::string, NDArray> arrays;
  for (const auto& [name, array] : checkpoint.parameters.arg) {
    arrays.emplace(std::string(kArg) + name, array);
  }
  for (const auto& [name, array] : checkpoint.parameters.aux) {
    arrays.emplace(std::string(kAux) + name, array);
  }
  // The small file is written last. All epochs share it, so it must change only after the others
  // fit on the disk.
  SaveNDArrays(CheckpointParametersPath(prefix, epoch), arrays);
  checkpoint.symbol.Save(CheckpointSymbolPath(prefix));
}

Checkpoint LoadCheckpoint(const std::string& prefix, int epoch) {
  Checkpoint checkpoint;
  checkpoint.symbol = Symbol::Load(CheckpointSymbolPath(prefix));
  const std::vector<std::string> arguments = checkpoint.symbol.ListArguments();
  const std::vector<std::string> aux_states = checkpoint.symbol.ListAuxiliaryStates();
  const std::string path = CheckpointParametersPath(prefix, epoch);
  for (const auto& [key, array] : LoadNDArrays(path)) {
    if (!Place(key, array, kArg, arguments, &checkpoint.parameters.arg) &&
        !Place(key, array, kAux, aux_states, &checkpoint.parameters.aux)) {
      throw DataLoss(path, ": array '", key, "' belongs to nothing in ",
                     CheckpointSymbolPath(prefix), ", expected arg: or aux: and a name from there");
    }
  }
  return checkpoint;
}

}  // namespace tessera
