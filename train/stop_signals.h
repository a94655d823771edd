#ifndef TESSERA_TRAIN_STOP_SIGNALS_H_
#define TESSERA_TRAIN_STOP_SIGNALS_H_

#include <csignal>

#include "tessera/base/dialect.h"

namespace tessera {

/// Lets SIGINT (Ctrl-C) and SIGTERM end a training and not the process, as long as an object lives.
/// Module::Fit then finishes its step, saves and returns. A loop of one's own asks received().
///
///     const StopSignals signals;
///     module.Fit(&train, {.checkpoints = &folder, .resume = true});
///     return StopSignals::exit_code();
///
/// A second signal of the same kind ends the process at once. A signal that the process ignores
/// stays ignored, as for a program that a script has started in the background. One object at a
/// time; received() and exit_code() may be called from any thread.
class StopSignals {
 public:
  StopSignals();
  /// Restores the handlers that were there, and forgets the signal.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns the signal that has come during the object's life, or 0.
  static int received();
  /// Returns the exit code that shells expect after it: 130 for SIGINT, 143 for SIGTERM, else 0.
  static int exit_code();

 private:
  struct sigaction old_[2];
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_STOP_SIGNALS_H_
