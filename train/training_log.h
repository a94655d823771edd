#ifndef TESSERA_TRAIN_TRAINING_LOG_H_
#define TESSERA_TRAIN_TRAINING_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tessera/train/callback.h"
#include "tessera/train/event_file.h"

namespace tessera {

/// Writes a table in CSV with a row for each epoch: `epoch,update,samples,seconds`, then the
/// metrics of the training by name and those of the validation with `validation_` before. Numbers
/// have as many digits as they need to be read back exactly, with a point whatever the locale is;
/// NaN is `nan`.
///
///     CsvLog log("training.csv");
///     module.Fit(&train, {.epoch_end = {std::ref(log)}});
///
/// The file appears as a whole after each epoch. Rows of a table that is there stay if they are of
/// earlier epochs, so that a training that continues after a crash has each epoch once.
class CsvLog {
 public:
  explicit CsvLog(std::string path) : path_(std::move(path)) {}

  /// Adds a row. Throws what AtomicFile throws, and Error(kFailedPrecondition) that names the file
  /// if it has other columns.
  void operator()(const EpochEndParam& param);

 private:
  std::string path_;
};

/// Writes a training's metrics for TensorBoard: after each epoch those of the training and of the
/// validation, as `training/accuracy` and `validation/accuracy`, at the number of the update; also
/// `training/examples_per_second` and `training/learning_rate`; and, as a callback for batches, the
/// metric every `frequent` batches as `batch/accuracy`, which waits for the batches so far.
class TensorBoardLog {
 public:
  /// Throws what EventFile throws, and Error(kInvalidArgument) unless frequent >= 1.
  explicit TensorBoardLog(const std::string& folder, int64_t frequent = 50);

  /// Write an epoch and a batch. Throw what EventFile::AddScalar throws.
  void operator()(const EpochEndParam& param);
  void operator()(const BatchEndParam& param);

  /// Returns the file, for numbers of the program.
  EventFile& file() { return *file_; }

 private:
  std::shared_ptr<EventFile> file_;  // copies of a callback write one file
  int64_t frequent_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_TRAINING_LOG_H_
