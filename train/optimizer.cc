#include "tessera/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {

Optimizer::Optimizer(const OptimizerOptions& options)
    : options_(options), num_update_(options.begin_num_update) {
  if (options.begin_num_update < 0) {
    throw InvalidArgument("Optimizer: begin_num_update ", options.begin_num_update,
                          ", expected at least 0");
  }
  if (!(options.learning_rate >= 0) || !std::isfinite(options.learning_rate)) {
    throw InvalidArgument("Optimizer: learning_rate ", options.learning_rate,
                          ", expected a finite number that is not negative");
  }
  if (!(options.wd >= 0) || !std::isfinite(options.wd)) {
    throw InvalidArgument("Optimizer: wd ", options.wd,
                          ", expected a finite number that is not negative");
  }
}

void Optimizer::SetParameterNames(std::vector<std::string> names) {
  parameters_.resize(std::max(parameters_.size(), names.size()));
  for (size_t i = 0; i < names.size(); ++i) parameters_[i].name = std::move(names[i]);
  ApplyFactors();
}

void Optimizer::SetLrMult(const std::map<std::string, double>& factors) {
  lr_mult_ = factors;
  ApplyFactors();
}

void Optimizer::SetWdMult(const std::map<std::string, double>& factors) {
  wd_mult_ = factors;
  ApplyFactors();
}

void Optimizer::SetNetworkFactors(const std::map<std::string, double>& lr_mult,
                                  const std::map<std::string, double>& wd_mult) {
  network_lr_mult_ = lr_mult;
  network_wd_mult_ = wd_mult;
  ApplyFactors();
}

void Optimizer::ApplyFactors() {
  const auto find = [](const std::map<std::string, double>& factors, const std::string& name,
                       double otherwise) {
    const auto found = factors.find(name);
    return found == factors.end() ? otherwise : found->second;
  };
  for (Parameter& parameter : parameters_) {
    const std::string& name = parameter.name;
    if (name.empty()) continue;
    parameter.lr_mult = find(lr_mult_, name, find(network_lr_mult_, name, 1));
    parameter.wd_mult =
        find(wd_mult_, name, find(network_wd_mult_, name, name.ends_with("_weight") ? 1 : 0));
  }
}

double Optimizer::RateOf(int64_t num_update) const {
  return options_.lr_scheduler != nullptr
             ? (*options_.lr_scheduler)(num_update, options_.learning_rate)
             : options_.learning_rate;
}

double Optimizer::learning_rate() const { return RateOf(num_update_ + 1); }

void Optimizer::Update(int index, const NDArray& weight, const NDArray& grad) {
  if (index < 0) {
    throw InvalidArgument("Optimizer::Update: index ", index, ", expected at least 0");
  }
  if (weight.shape() != grad.shape() || weight.dtype() != grad.dtype()) {
    throw InvalidArgument("Optimizer::Update: parameter ", index, " has a weight ", weight.shape(),
                          " of ", weight.dtype(), " and a gradient ", grad.shape(), " of ",
                          grad.dtype(), ", expected the same");
  }
  if (static_cast<size_t>(index) >= parameters_.size()) {
    parameters_.resize(static_cast<size_t>(index) + 1);
  }
  Parameter& parameter = parameters_[static_cast<size_t>(index)];
  num_update_ = std::max(num_update_, options_.begin_num_update + ++parameter.updates);
  Step(index, weight, grad,
       {.lr = RateOf(num_update_) * parameter.lr_mult,
        .wd = options_.wd * parameter.wd_mult,
        .rescale_grad = options_.rescale_grad.value_or(1),
        .clip_gradient = options_.clip_gradient});
}

}  // namespace tessera
