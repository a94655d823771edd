#ifndef TESSERA_TRAIN_CALLBACK_H_
#define TESSERA_TRAIN_CALLBACK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "tessera/train/metric.h"

namespace tessera {

class DataIter;
class Module;

/// The argument of Module::Fit's callback after each batch is enqueued. The batch may not be
/// computed yet.
struct BatchEndParam {
  int epoch;               ///< counted from 0
  int64_t nbatch;          ///< batches of this epoch so far, including this one
  EvalMetric& metric;      ///< Get waits for the batches so far
  int64_t num_update = 0;  ///< updates that the optimizer has made
};

/// The argument of Module::Fit's callback after each epoch.
struct EpochEndParam {
  int epoch;                           ///< counted from 0
  int64_t samples;                     ///< examples trained on by this worker, without padding
  double seconds;                      ///< from the first batch until the last update was done
  std::vector<NamedValue> training;    ///< FitOptions::metric over all batches of the epoch
  std::vector<NamedValue> validation;  ///< empty without eval_data
  Module& module;                      ///< in training
};

/// A callback that Module::Fit calls on its own thread. An exception ends the training.
using BatchEndCallback = std::function<void(const BatchEndParam&)>;
using EpochEndCallback = std::function<void(const EpochEndParam&)>;

/// Writes a line with examples per second and the metric after every `frequent` batches. If
/// `auto_reset`, the metric is then reset. Each line waits for the batches before it.
class Speedometer {
 public:
  /// Constructs a callback that writes to `out`, which must outlive it; null is std::clog. Throws
  /// Error(kInvalidArgument) unless frequent >= 1.
  explicit Speedometer(int64_t batch_size, int64_t frequent = 50, bool auto_reset = true,
                       std::ostream* out = nullptr);

  /// Counts a batch. The first of each epoch starts the clock.
  void operator()(const BatchEndParam& param);

 private:
  int64_t batch_size_;
  int64_t frequent_;
  bool auto_reset_;
  std::ostream* out_;
  int64_t last_batch_ = 0;
  std::chrono::steady_clock::time_point start_;
};

/// Returns a callback that saves a checkpoint after every `period` epochs, under the number of
/// epochs done. An exception of Module::SaveCheckpoint ends the training. Throws
/// Error(kInvalidArgument) unless period >= 1.
EpochEndCallback DoCheckpoint(std::string prefix, int period = 1);

/// Returns a callback that measures `data` after every `batches` batches of an epoch, without
/// waiting for its end as FitOptions::eval_data does, and gives the values to `report`. The module
/// is the one that calls, and outlives the callback like the data. Throws Error(kInvalidArgument)
/// unless batches >= 1.
BatchEndCallback ValidateEvery(
    int64_t batches, Module* module, DataIter* data, EvalMetric metric,
    std::function<void(const BatchEndParam&, const std::vector<NamedValue>&)> report);

}  // namespace tessera

#endif  // TESSERA_TRAIN_CALLBACK_H_
