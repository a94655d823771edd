#include "tessera/train/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/atomic_folder.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/train/checkpoint/manifest.h"
#include "tessera/train/checkpoint/state_arrays.h"

namespace tessera {
namespace {

using train_internal::Manifest;
using train_internal::ManifestFile;

constexpr const char* kOperation = "CheckpointFolder";
constexpr const char* kManifest = "manifest";
constexpr const char* kModel = "model";
constexpr const char* kModelSymbol = "model-symbol.json";
constexpr const char* kModelParameters = "model-0000.params";
constexpr const char* kLayers = "layers.params";
constexpr const char* kState = "state.params";
constexpr size_t kDigits = 10;  // of a step, at least
constexpr size_t kLargestManifest = 4096;

/// Returns the step of a checkpoint's folder by its name, or nothing.
std::optional<int64_t> StepOf(const std::string& name) {
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data(), end, step);
  const bool is_step = error == std::errc() && next == end && step >= 0 && name.size() >= kDigits &&
                       (name.size() == kDigits || name[0] != '0');
  return is_step ? std::optional(step) : std::nullopt;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kLargestManifest + 1, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof()) {
    throw DataLoss(path, ": cannot be read, expected the manifest of a checkpoint");
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLargestManifest) {
    throw DataLoss(path, ": found more than ", kLargestManifest, " bytes, expected a manifest");
  }
  return text;
}

/// Returns the manifest of a checkpoint whose files are as it says.
Manifest CheckedManifest(const std::string& folder, int64_t step) {
  const std::string path = folder + "/" + kManifest;
  Manifest manifest = train_internal::ReadManifest(
      path, ReadText(path), {kModelSymbol, kModelParameters, kLayers, kState});
  if (manifest.step != step) {
    throw DataLoss(path, ": found step ", manifest.step, ", expected ", step);
  }
  for (const ManifestFile& file : manifest.files) {
    const ManifestFile found = train_internal::Measure(folder, file.name);
    if (found.size_bytes != file.size_bytes || found.checksum != file.checksum) {
      throw DataLoss(folder, "/", file.name, ": found ", found.size_bytes, " bytes with checksum ",
                     found.checksum, ", expected ", file.size_bytes, " with ", file.checksum,
                     " as the manifest says");
    }
  }
  return manifest;
}

bool Has(const Manifest& manifest, std::string_view name) {
  return std::any_of(manifest.files.begin(), manifest.files.end(),
                     [name](const ManifestFile& file) { return file.name == name; });
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, const CheckpointFolderOptions& options)
    : path_(std::move(path)), options_(options) {
  if (options.keep_last < 0) {
    throw InvalidArgument(kOperation, ": keep_last ", options.keep_last, ", expected at least 0");
  }
  std::error_code failed;
  std::filesystem::create_directories(path_, failed);
  if (!std::filesystem::is_directory(path_, failed)) {
    throw FailedPrecondition(kOperation, ": ", path_,
                             " is no folder and none can be made, expected a writable place");
  }
}

std::string CheckpointFolder::PathOf(int64_t step) const {
  std::string number = std::to_string(step);
  number.insert(0, kDigits - std::min(kDigits, number.size()), '0');
  return path_ + "/" + number;
}

std::string CheckpointFolder::ModelPrefix(int64_t step) const {
  return PathOf(step) + "/" + kModel;
}

std::vector<int64_t> CheckpointFolder::Steps() const {
  std::vector<int64_t> steps;
  std::error_code failed;
  std::filesystem::directory_iterator entry(path_, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    const std::optional<int64_t> step = StepOf(entry->path().filename().string());
    if (step) steps.push_back(*step);
  }
  if (failed) {
    throw NotFound(kOperation, ": ", path_, ": cannot list the folder: ", failed.message());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<int64_t> CheckpointFolder::Latest() const {
  const std::vector<int64_t> steps = Steps();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

void CheckpointFolder::Save(int64_t step, const TrainingSnapshot& snapshot) {
  if (step < 0) throw InvalidArgument(kOperation, "::Save: step ", step, ", expected at least 0");
  std::vector<int64_t> steps = Steps();
  if (!steps.empty() && steps.back() > step) {
    throw FailedPrecondition(kOperation, "::Save: ", path_, " has a checkpoint of step ",
                             steps.back(), ", later than ", step,
                             "; expected a training that continues from it, or another folder");
  }
  AtomicFolder folder(PathOf(step), std::string(kOperation) + "::Save");
  std::vector<const char*> names;
  if (snapshot.model) {
    SaveCheckpoint(folder.PathOf(kModel), 0, *snapshot.model);
    names = {kModelSymbol, kModelParameters};
  } else {
    SaveNDArrays(folder.PathOf(kLayers), snapshot.parameters);
    names = {kLayers};
  }
  SaveNDArrays(folder.PathOf(kState), train_internal::ArraysOf(snapshot.state));
  names.push_back(kState);

  Manifest manifest{.step = step};
  const std::string place = std::filesystem::path(folder.PathOf(kManifest)).parent_path();
  for (const char* const name : names) {
    manifest.files.push_back(train_internal::Measure(place, name));
  }
  const std::string text = train_internal::WriteManifest(manifest);
  AtomicFile file(folder.PathOf(kManifest), std::string(kOperation) + "::Save");
  file.Write(text.data(), static_cast<int64_t>(text.size()));
  file.Commit();
  folder.Commit();

  if (options_.keep_last == 0) return;
  if (steps.empty() || steps.back() != step) steps.push_back(step);
  const auto kept = static_cast<size_t>(options_.keep_last);
  for (size_t i = 0; i + kept < steps.size(); ++i) Remove(steps[i]);
}

TrainingSnapshot CheckpointFolder::Load(int64_t step) const {
  const std::string folder = PathOf(step);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    std::string present;
    for (const int64_t known : Steps()) present += " " + std::to_string(known);
    throw NotFound(kOperation, "::Load: ", path_, " has no checkpoint of step ", step,
                   ", expected one of:", present.empty() ? " none" : present);
  }
  const Manifest manifest = CheckedManifest(folder, step);
  const bool has_model = Has(manifest, kModelSymbol) && Has(manifest, kModelParameters);
  if (!Has(manifest, kState) || has_model == Has(manifest, kLayers)) {
    throw DataLoss(folder, "/", kManifest, ": found ", manifest.files.size(), " files, expected ",
                   kState, " and either ", kLayers, " or ", kModelSymbol, " and ",
                   kModelParameters);
  }
  TrainingSnapshot snapshot;
  if (has_model) {
    snapshot.model = LoadCheckpoint(ModelPrefix(step), 0);
  } else {
    snapshot.parameters = LoadNDArrays(folder + "/" + kLayers);
  }
  const std::string path = folder + "/" + kState;
  snapshot.state = train_internal::StateOf(path, LoadNDArrays(path));
  return snapshot;
}

void CheckpointFolder::Remove(int64_t step) {
  RemoveFolder(PathOf(step), std::string(kOperation) + "::Remove");
}

}  // namespace tessera
