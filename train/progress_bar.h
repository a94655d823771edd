#ifndef TESSERA_TRAIN_PROGRESS_BAR_H_
#define TESSERA_TRAIN_PROGRESS_BAR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "tessera/train/callback.h"

namespace tessera {

/// Options of ProgressBar.
struct ProgressBarOptions {
  int num_epoch = 1;        ///< FitOptions::num_epoch
  int64_t num_batches = 0;  ///< batches of an epoch, such as NDArrayIter::num_batches; 0: not known
  int64_t batch_size = 1;   ///< examples in a batch
  /// Where to write; it outlives the object. Null: std::cerr.
  std::ostream* out = nullptr;
  /// Whether a terminal shows what is written. If it is not set, the standard error tells for
  /// std::cerr, and any other stream is none.
  std::optional<bool> is_terminal = std::nullopt;
};

/// Shows how far Module::Fit is, for both of its callbacks:
///
///     ProgressBar bar({.num_epoch = 20, .num_batches = train.num_batches(), .batch_size = 32});
///     module.Fit(&train, {.num_epoch = 20, .batch_end = {std::ref(bar)},
///                         .epoch_end = {std::ref(bar)}});
///
/// On a terminal, one line is written anew up to ten times a second: a bar, examples a second, the
/// time left and the metric, whose value waits for the batches so far. After each epoch, there and
/// elsewhere, a line stays: `epoch 3/20  accuracy 0.91  validation accuracy 0.9  1234 examples/s
/// 0:12 left`.
class ProgressBar {
 public:
  /// Throws Error(kInvalidArgument) unless num_epoch and batch_size are at least 1 and num_batches
  /// at least 0.
  explicit ProgressBar(const ProgressBarOptions& options);

  /// Show a batch and an epoch.
  void operator()(const BatchEndParam& param);
  void operator()(const EpochEndParam& param);

 private:
  using Clock = std::chrono::steady_clock;

  void Write(const std::string& line, bool stays);

  ProgressBarOptions options_;
  bool is_terminal_;
  std::optional<Clock::time_point> start_;  // of the first batch here
  Clock::time_point shown_;
  int64_t batches_ = 0;  // since start_
  size_t width_ = 0;     // of the line on the terminal
};

namespace train_internal {

/// Returns the time as "0:07", "12:34" or "1:02:03". A negative time is 0.
std::string DurationText(double seconds);

}  // namespace train_internal
}  // namespace tessera

#endif  // TESSERA_TRAIN_PROGRESS_BAR_H_
