#include <charconv>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ops/registry.h"
#include "tessera/train/optimizer.h"

namespace tessera {
namespace {

/// Returns the shortest text that a parameter parses to the same number.
std::string Text(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

/// Returns whether both name the same elements. Parts of one array share its variable.
bool IsSame(const NDArray& a, const NDArray& b) {
  return a.var() == b.var() && a.data().dptr_ == b.data().dptr_;
}

}  // namespace

/// One parameter's step, bound to its arrays while arrays and rates stay the same.
struct Sgd::BoundStep {
  Rates rates;
  NDArray weight;
  NDArray grad;
  NDArray momentum;  // none without momentum
  std::optional<BoundOperator> update;

  bool IsFor(const NDArray& w, const NDArray& g, const Rates& r) const {
    return update && IsSame(weight, w) && IsSame(grad, g) && rates == r;
  }
};

Sgd::Sgd(const SgdOptions& options) : Optimizer(options), momentum_(options.momentum) {
  if (!(momentum_ >= 0 && momentum_ < 1)) {
    throw InvalidArgument("Sgd: momentum ", momentum_, ", expected 0 <= momentum < 1");
  }
}

Sgd::~Sgd() = default;

void Sgd::Step(int index, const NDArray& weight, const NDArray& grad, const Rates& rates) {
  const auto i = static_cast<size_t>(index);
  if (i >= steps_.size()) steps_.resize(i + 1);
  if (steps_[i] == nullptr) steps_[i] = std::make_unique<BoundStep>();
  BoundStep& step = *steps_[i];
  if (!step.IsFor(weight, grad, rates)) {
    ParameterMap parameters = {{"lr", Text(rates.lr)},
                               {"wd", Text(rates.wd)},
                               {"rescale_grad", Text(rates.rescale_grad)},
                               {"clip_gradient", Text(rates.clip_gradient)}};
    std::vector<NDArray> inputs = {weight, grad};
    if (momentum_ > 0) {
      parameters["momentum"] = Text(momentum_);
      if (step.momentum.is_none() || step.momentum.shape() != weight.shape() ||
          step.momentum.dtype() != weight.dtype() || step.momentum.device() != weight.device()) {
        step.momentum = NDArray(weight.shape(), weight.device(), weight.dtype());
        step.momentum = 0.0f;
      }
      inputs.push_back(step.momentum);
    }
    const auto property =
        OperatorRegistry::Get().Create(momentum_ > 0 ? "sgd_mom_update" : "sgd_update", parameters);
    step.update.emplace(*property, inputs, std::span(&weight, 1));
    step.rates = rates;
    step.weight = weight;
    step.grad = grad;
  }
  step.update->Run(/*is_train=*/true);
}

}  // namespace tessera
