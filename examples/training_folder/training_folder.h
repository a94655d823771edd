#ifndef TESSERA_EXAMPLES_TRAINING_FOLDER_TRAINING_FOLDER_H_
#define TESSERA_EXAMPLES_TRAINING_FOLDER_TRAINING_FOLDER_H_

#include <optional>
#include <string>

#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/nn/layer.h"
#include "tessera/train/nn/trainer.h"
#include "tessera/train/training_parts.h"

namespace tessera::training_folder {

/// Keeps a training of layers in a folder: network, optimizer, random numbers and what the program
/// adds. A process that is started again goes on from there.
class TrainingFolder {
 public:
  /// Takes the folder's path; an empty one keeps nothing. The network and the trainer outlive the
  /// object. Throws what CheckpointFolder throws.
  TrainingFolder(const std::string& path, nn::Layer* network, nn::Trainer* trainer);

  /// Returns the parts, to which the program adds its own before it calls Continue.
  TrainingParts& parts() { return parts_; }

  /// Sets everything to the last checkpoint, if there is one, and then prints of which update.
  void Continue();

  /// Saves all of the training as it is now.
  void Save();
  /// Saves because a signal has come, and prints that the program stops in this epoch.
  void Stop(int epoch);

 private:
  nn::Layer* const network_;
  nn::Trainer* const trainer_;
  std::optional<CheckpointFolder> folder_;
  TrainingParts parts_;
};

}  // namespace tessera::training_folder

#endif  // TESSERA_EXAMPLES_TRAINING_FOLDER_TRAINING_FOLDER_H_
