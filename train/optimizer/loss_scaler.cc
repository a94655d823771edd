#include "tessera/train/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"

namespace tessera {

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(options.scale) {
  if (!(options.scale >= 1 && options.scale <= options.largest && std::isfinite(options.largest))) {
    throw InvalidArgument("LossScaler: scale ", options.scale, ", expected 1 <= scale <= largest, ",
                          options.largest);
  }
  if (!(options.factor >= 1) || !std::isfinite(options.factor)) {
    throw InvalidArgument("LossScaler: factor ", options.factor,
                          ", expected a finite number from 1");
  }
  if (options.interval < 1) {
    throw InvalidArgument("LossScaler: interval ", options.interval, ", expected at least 1");
  }
}

bool LossScaler::Check(std::span<const NDArray> grads) {
  // One call for each device and type, as the operator asks for.
  std::map<std::pair<std::string, DType>, std::vector<NDArray>> calls;
  for (const NDArray& grad : grads) {
    calls[{grad.device().ToString(), grad.dtype()}].push_back(grad);
  }
  std::vector<NDArray> results;
  for (const auto& [key, arrays] : calls) {
    results.push_back(
        Invoke("multi_all_finite", arrays, {{"num_arrays", std::to_string(arrays.size())}})[0]);
  }
  bool is_finite = true;
  for (const NDArray& result : results) is_finite = is_finite && result.ToVector()[0] != 0;
  if (!is_finite) {
    scale_ = std::max(1.0, scale_ / options_.factor);
    good_steps_ = 0;
  } else if (++good_steps_ == options_.interval) {
    scale_ = std::min(options_.largest, scale_ * options_.factor);
    good_steps_ = 0;
  }
  return is_finite;
}

TrainingState LossScaler::SaveState() const {
  TrainingState state;
  state.texts["kind"] = "LossScaler";
  state.numbers["scale"] = {scale_};
  state.integers["good_steps"] = {good_steps_};
  return state;
}

void LossScaler::LoadState(const TrainingState& state) {
  const double scale = state.Number("scale");
  good_steps_ = state.Integer("good_steps");
  scale_ = scale;
}

}  // namespace tessera
