#ifndef TESSERA_TRAIN_LOSS_SCALER_H_
#define TESSERA_TRAIN_LOSS_SCALER_H_

#include <cstdint>
#include <span>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/state.h"

namespace tessera {

/// Options of LossScaler.
struct LossScalerOptions {
  double scale = 65536;       ///< the first scale
  double factor = 2;          ///< the scale's change; 1 keeps the scale constant
  int64_t interval = 2000;    ///< steps without an overflow before the scale rises
  double largest = 16777216;  ///< the scale does not rise above it
};

/// The factor of a loss in training with float16, whose small gradients would be 0 (P. Micikevicius
/// et al.: Mixed precision training, ICLR 2018, section 3.2). It falls when a gradient has
/// overflowed and rises after many steps without. The program multiplies the loss, or its head
/// gradient, by scale(); an optimizer with this scaler divides the gradients by it, and leaves out
/// the steps whose gradients are not finite.
///
/// Threads: one thread at a time calls a scaler.
class LossScaler : public Stateful {
 public:
  /// Throws Error(kInvalidArgument) unless 1 <= scale <= largest, factor >= 1 and interval >= 1.
  explicit LossScaler(const LossScalerOptions& options = {});

  /// Returns the factor of the next step's loss.
  double scale() const { return scale_; }

  /// Returns whether all elements of a step's gradients are finite, and adapts the scale of later
  /// steps. Waits for the gradients. An Optimizer with this scaler calls it.
  bool Check(std::span<const NDArray> grads);

  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

 private:
  LossScalerOptions options_;
  double scale_;
  int64_t good_steps_ = 0;  // since the last change
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_LOSS_SCALER_H_
