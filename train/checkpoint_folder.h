#ifndef TESSERA_TRAIN_CHECKPOINT_FOLDER_H_
#define TESSERA_TRAIN_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/state.h"
#include "tessera/train/checkpoint.h"

namespace tessera {

/// All of a training at one moment.
struct TrainingSnapshot {
  std::optional<Checkpoint> model = std::nullopt;  ///< the network of a Module and its parameters
  /// The parameters of layers, by their names; none with a model.
  std::map<std::string, NDArray> parameters = {};
  TrainingState state = {};  ///< everything else; see TrainingParts
};

/// Options of CheckpointFolder.
struct CheckpointFolderOptions {
  int keep_last = 3;  ///< the number of checkpoints that Save leaves; 0: all
};

/// A folder of checkpoints, each with all that a training needs to continue.
///
/// The checkpoint of step 1200 is the folder `0000001200` in it:
///
///     manifest           sizes and checksums (CRC-32C) of the other files
///     state.params       the state, as arrays
///     model-symbol.json  the network, which MXNet reads as checkpoint ("…/0000001200/model", 0)
///     model-0000.params  and its parameters
///     layers.params      or the parameters of layers, which Gluon's load_parameters reads
///
/// A checkpoint appears as a whole when all of it is on disk, so a process that is killed, a full
/// disk and a system that crashes leave the checkpoints that were there. Threads: one thread at a
/// time calls an object; one process at a time saves.
class CheckpointFolder {
 public:
  /// Makes the folder unless it is there. Throws Error(kInvalidArgument) for keep_last < 0, and
  /// Error(kFailedPrecondition) that names the folder if it cannot be made.
  explicit CheckpointFolder(std::string path, const CheckpointFolderOptions& options = {});

  /// Returns the folder's path.
  const std::string& path() const { return path_; }
  /// Returns the steps of the checkpoints, in their order. Throws Error(kNotFound) if the folder is
  /// no longer there.
  std::vector<int64_t> Steps() const;
  /// Returns the last of them, or nothing if there is none.
  std::optional<int64_t> Latest() const;

  /// Saves a checkpoint, in place of one of the same step, then removes the oldest ones above
  /// keep_last. Waits for the arrays. Throws Error: kInvalidArgument for a negative step;
  /// kFailedPrecondition if there are checkpoints of later steps, which belong to another course of
  /// the training; and what AtomicFolder, SaveCheckpoint and SaveNDArrays throw, with no checkpoint
  /// changed.
  void Save(int64_t step, const TrainingSnapshot& snapshot);

  /// Reads a checkpoint. Throws Error: kNotFound that names the checkpoints if there is none of
  /// that step; kDataLoss that names the file for one that is missing, or whose size or checksum
  /// is not the manifest's, and for a damaged manifest; kUnimplemented for a manifest of a later
  /// version; and what LoadCheckpoint and LoadNDArrays throw.
  TrainingSnapshot Load(int64_t step) const;

  /// Removes a checkpoint. Throws what RemoveFolder throws.
  void Remove(int64_t step);

  /// Returns the prefix of the model's files, for LoadCheckpoint and MXNet with epoch 0.
  std::string ModelPrefix(int64_t step) const;

 private:
  std::string PathOf(int64_t step) const;

  const std::string path_;
  const CheckpointFolderOptions options_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_CHECKPOINT_FOLDER_H_
