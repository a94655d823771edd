#include "tessera/train/checkpoint.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/serialization.h"

namespace tessera {
namespace {

constexpr std::string_view kArg = "arg:";
constexpr std::string_view kAux = "aux:";

/// Moves an array to the place of its key. Returns false if the network has no such name.
bool Place(const std::string& key, const NDArray& array, std::string_view prefix,
           const std::set<std::string>& names, std::map<std::string, NDArray>* target) {
  if (!key.starts_with(prefix)) return false;
  const std::string name = key.substr(prefix.size());
  if (!names.contains(name)) return false;
  target->emplace(name, array);
  return true;
}

/// Returns a number for a network's file: FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo), 64 bits. White
/// space does not count, so that a file may be indented anew or get other line ends.
uint64_t DigestOf(std::string_view json) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : json) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

/// Returns the text of the file if it holds that network, and nothing if it does not.
std::optional<std::string> ReadIfSame(const std::string& path, const std::string& json) {
  try {
    std::string contents;
    if (Symbol::Load(path, &contents).ToJson() == json) return contents;
  } catch (const Error&) {
    // Saving replaces a missing or damaged file, or fails with a better error.
  }
  return std::nullopt;
}

/// Returns whether a key is that of data or a label.
bool IsInput(std::string_view key, const std::set<std::string>& inputs) {
  if (!key.starts_with(kArg)) return false;
  const std::string name(key.substr(kArg.size()));
  return name == "data" || name == "label" || name.ends_with("_label") || inputs.contains(name);
}

std::set<std::string> SetOf(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
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
  // All epochs share the network's file. It is kept if it holds this network, perhaps as another
  // version wrote it, because the parameters of earlier epochs have its digest.
  const std::string symbol_path = CheckpointSymbolPath(prefix);
  const std::string json = checkpoint.symbol.ToJson();
  const std::optional<std::string> present = ReadIfSame(symbol_path, json);
  // The shared file is written last, so that it changes only after the parameters fit on the disk.
  SaveNDArrays(CheckpointParametersPath(prefix, epoch), arrays, DigestOf(present.value_or(json)));
  if (!present) checkpoint.symbol.Save(symbol_path);
}

Checkpoint LoadCheckpoint(const std::string& prefix, int epoch,
                          const std::vector<std::string>& inputs) {
  Checkpoint checkpoint;
  const std::string symbol_path = CheckpointSymbolPath(prefix);
  std::string json;
  checkpoint.symbol = Symbol::Load(symbol_path, &json);
  const std::set<std::string> arguments = SetOf(checkpoint.symbol.ListArguments());
  const std::set<std::string> aux_states = SetOf(checkpoint.symbol.ListAuxiliaryStates());
  const std::set<std::string> input_names = SetOf(inputs);
  const std::string path = CheckpointParametersPath(prefix, epoch);
  std::optional<uint64_t> digest;
  const std::map<std::string, NDArray> arrays = LoadNDArrays(path, /*left_out=*/nullptr, &digest);
  if (digest && *digest != DigestOf(json)) {
    throw DataLoss(path,
                   ": found parameters that were saved with another network, expected those of ",
                   symbol_path, "; LoadNDArrays and Symbol::Load read the files separately");
  }
  for (const auto& [key, array] : arrays) {
    if (IsInput(key, input_names)) {
      checkpoint.ignored.push_back(key);
      continue;
    }
    if (!Place(key, array, kArg, arguments, &checkpoint.parameters.arg) &&
        !Place(key, array, kAux, aux_states, &checkpoint.parameters.aux)) {
      throw DataLoss(path, ": array '", Excerpt(key), "' belongs to nothing in ", symbol_path,
                     ", expected arg: or aux: and a name from there");
    }
  }
  return checkpoint;
}

}  // namespace tessera
