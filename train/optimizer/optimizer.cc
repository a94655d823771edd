#include "tessera/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ndarray/call/finite_check.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/optimizer/update.h"
#include "tessera/train/name_pattern.h"
#include "tessera/train/optimizer/rule.h"
#include "tessera/train/optimizer/step_plan.h"

namespace tessera {
namespace {

using train_internal::MakeRule;
using train_internal::Rule;
using train_internal::StepPlan;

bool Has16Bits(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

bool Fits(const NDArray& array, const TShape& shape, DType dtype) {
  return !array.is_none() && array.shape() == shape && array.dtype() == dtype;
}

NDArray Zeros(const TShape& shape, Device device, DType dtype) {
  NDArray zeros(shape, device, dtype);
  zeros = 0.0f;
  return zeros;
}

/// Returns the array if it is dense, or else a dense copy.
NDArray Dense(const NDArray& array) {
  return StorageTypeOf(array) == StorageType::kDefault ? array
                                                       : sparse::Cast(array, StorageType::kDefault);
}

/// Adds rescale_grad times the gradient to a sum in the weight's place.
const std::shared_ptr<const Rule>& AccumulationRule() {
  static const auto* const rule =
      new std::shared_ptr<const Rule>(MakeRule<ops_internal::SgdRule>([](const StepRates& rates) {
        ops_internal::SgdRule sum;
        sum.lr = -static_cast<float>(rates.rescale_grad);
        return sum;
      }));
  return *rule;
}

/// Returns a plan for these arrays, made before or now.
const StepPlan& FindOrMake(const std::shared_ptr<const Rule>& rule,
                           const std::vector<ParameterUpdate>& updates,
                           const std::vector<std::vector<NDArray>>& states,
                           std::map<int, std::unique_ptr<const StepPlan>>* plans) {
  std::unique_ptr<const StepPlan>& plan = (*plans)[updates[0].index];
  if (plan == nullptr || !plan->IsFor(updates)) {
    plan = std::make_unique<const StepPlan>(rule, updates, states);
  }
  return *plan;
}

/// Returns the sums of squares of all gradients, as arrays for each type.
std::vector<NDArray> SumsOfSquares(const std::vector<ParameterUpdate>& updates) {
  std::map<DType, std::vector<NDArray>> of_type;
  std::vector<NDArray> sums;
  for (const ParameterUpdate& update : updates) {
    if (StorageTypeOf(update.grad) == StorageType::kDefault) {
      of_type[update.grad.dtype()].push_back(update.grad);
    } else {
      const NDArray squares = Invoke("square", {update.grad.AsType(DType::kFloat32)})[0];
      sums.push_back(Invoke("sum", {squares})[0]);
    }
  }
  for (const auto& [dtype, grads] : of_type) {
    sums.push_back(
        Invoke("multi_sum_sq", grads, {{"num_arrays", std::to_string(grads.size())}})[0]);
  }
  return sums;
}

std::string StateName(size_t index, size_t k) {
  return "state_" + std::to_string(index) + "_" + std::to_string(k);
}
std::string AccumulatorName(size_t index) { return "accumulator_" + std::to_string(index); }

/// Returns a copy in host memory that is computed.
NDArray Saved(const NDArray& array) {
  NDArray copy = array.Copy(Device::Cpu());
  copy.WaitToRead();
  return copy;
}

}  // namespace

Optimizer::Optimizer(const OptimizerOptions& options) : Optimizer(options, nullptr) {}

Optimizer::Optimizer(const OptimizerOptions& options, std::shared_ptr<const Rule> rule)
    : options_(options), rule_(std::move(rule)), num_update_(options.begin_num_update) {
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
  if (options.accumulate_steps < 1) {
    throw InvalidArgument("Optimizer: accumulate_steps ", options.accumulate_steps,
                          ", expected at least 1");
  }
}

Optimizer::~Optimizer() = default;

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

void Optimizer::SetParameterRules(std::vector<ParameterRule> rules) {
  rules_ = std::move(rules);
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
    parameter.is_weight =
        !(name.ends_with("gamma") || name.ends_with("beta") || name.ends_with("bias"));
    double lr_mult = find(network_lr_mult_, name, 1);
    double wd_mult = find(network_wd_mult_, name, name.ends_with("_weight") ? 1 : 0);
    parameter.fixed = false;
    // From the last rule to the first, which has the last word.
    for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
      if (!train_internal::FitsPattern(name, rule->pattern)) continue;
      lr_mult = rule->lr_mult.value_or(lr_mult);
      wd_mult = rule->wd_mult.value_or(wd_mult);
      parameter.fixed = parameter.fixed || rule->fixed;
    }
    parameter.lr_mult = find(lr_mult_, name, lr_mult);
    parameter.wd_mult = find(wd_mult_, name, wd_mult);
  }
}

double Optimizer::RateOf(int64_t num_update) const {
  return options_.lr_scheduler != nullptr
             ? (*options_.lr_scheduler)(num_update, options_.learning_rate)
             : options_.learning_rate;
}

double Optimizer::learning_rate() const { return RateOf(num_update_ + 1); }

void Optimizer::CheckUpdate(const ParameterUpdate& update) const {
  const auto& [index, weight, grad] = update;
  if (index < 0) {
    throw InvalidArgument("Optimizer::Update: index ", index, ", expected at least 0");
  }
  if (StorageTypeOf(weight) == StorageType::kCsr || StorageTypeOf(grad) == StorageType::kCsr) {
    throw InvalidArgument("Optimizer::Update: parameter ", index, " has a ", StorageTypeOf(weight),
                          " weight and a ", StorageTypeOf(grad),
                          " gradient, expected each to be default (dense) or row_sparse");
  }
  if (weight.shape() != grad.shape() || weight.dtype() != grad.dtype()) {
    throw InvalidArgument("Optimizer::Update: parameter ", index, " has a weight ", weight.shape(),
                          " of ", weight.dtype(), " and a gradient ", grad.shape(), " of ",
                          grad.dtype(), ", expected the same");
  }
}

void Optimizer::Update(int index, const NDArray& weight, const NDArray& grad) {
  const ParameterUpdate update = {index, weight, grad};
  UpdateAll({&update, 1});
}

void Optimizer::UpdateAll(std::span<const ParameterUpdate> updates) {
  std::set<int> indices;
  for (const ParameterUpdate& update : updates) {
    CheckUpdate(update);
    if (!indices.insert(update.index).second) {
      throw InvalidArgument("Optimizer::UpdateAll: index ", update.index,
                            " occurs twice, expected each once");
    }
  }
  if (indices.empty()) return;
  const auto count = static_cast<size_t>(*indices.rbegin()) + 1;
  if (count > parameters_.size()) parameters_.resize(count);
  std::vector<ParameterUpdate> wanted;
  for (const ParameterUpdate& update : updates) {
    if (!At(update.index).fixed) wanted.push_back(update);
  }
  if (wanted.empty()) return;
  double factor = 1;
  if (options_.loss_scaler != nullptr) {
    factor = 1 / options_.loss_scaler->scale();
    std::vector<NDArray> grads;
    for (const ParameterUpdate& update : wanted) grads.push_back(update.grad);
    if (!options_.loss_scaler->Check(grads)) return;
  }
  if (options_.accumulate_steps > 1) {
    wanted = Accumulate(wanted, factor);
    factor = 1.0 / options_.accumulate_steps;
  }
  if (wanted.empty()) return;
  if (rule_ != nullptr && (!options_.lazy_update || rule_->uses_norms())) {
    for (ParameterUpdate& update : wanted) update.grad = Dense(update.grad);
  }
  TakeSteps(wanted, factor);
  if (ndarray_internal::ChecksFinite()) AwaitSteps(wanted);
}

void Optimizer::AwaitSteps(const std::vector<ParameterUpdate>& updates) const {
  try {
    for (const ParameterUpdate& update : updates) update.weight.WaitToRead();
  } catch (const Error& error) {
    throw error.WithMessage("update " + std::to_string(num_update_) + ": " + error.what());
  }
}

void Optimizer::CheckUpdatesOneByOne(std::string_view what) const {
  const bool clips = options_.clip_global_norm >= 0;
  if (!clips && options_.loss_scaler == nullptr) return;
  throw Unimplemented(what, ": the optimizer has ", clips ? "clip_global_norm" : "a loss_scaler",
                      ", which needs all gradients of a step, expected none with a store");
}

std::vector<ParameterUpdate> Optimizer::Accumulate(const std::vector<ParameterUpdate>& updates,
                                                   double factor) {
  std::vector<ParameterUpdate> sums, complete;
  for (const ParameterUpdate& update : updates) {
    Parameter& parameter = At(update.index);
    const NDArray& weight = update.weight;
    const DType dtype = Has16Bits(weight.dtype()) ? DType::kFloat32 : weight.dtype();
    NDArray& sum = parameter.accumulator;
    if (!Fits(sum, weight.shape(), dtype) || sum.device() != weight.device()) {
      // Sums in host memory come from LoadState.
      sum = Fits(sum, weight.shape(), dtype) ? sum.Copy(weight.device())
                                             : Zeros(weight.shape(), weight.device(), dtype);
    }
    sums.push_back({update.index, sum, update.grad});
    if (++parameter.accumulated < options_.accumulate_steps) continue;
    parameter.accumulated = 0;
    complete.push_back({update.index, weight, sum});
  }
  const std::vector<StepRates> rates(
      sums.size(), StepRates{.lr = 0, .wd = 0, .rescale_grad = factor, .clip_gradient = -1});
  const std::vector<std::vector<NDArray>> no_states(sums.size());
  FindOrMake(AccumulationRule(), sums, no_states, &accumulation_plans_).Push(rates);
  return complete;
}

void Optimizer::PrepareStates(const ParameterUpdate& update) {
  Parameter& parameter = At(update.index);
  const NDArray& weight = update.weight;
  const bool master = options_.multi_precision && Has16Bits(weight.dtype());
  const DType dtype = master ? DType::kFloat32 : weight.dtype();
  const auto num_states = static_cast<size_t>(rule_->num_states()) + (master ? 1 : 0);
  std::vector<NDArray>& states = parameter.states;
  const bool fit = states.size() == num_states &&
                   std::all_of(states.begin(), states.end(), [&](const NDArray& state) {
                     return Fits(state, weight.shape(), dtype);
                   });
  if (parameter.is_loaded) {
    if (!fit) {
      throw InvalidArgument("Optimizer::Update: the loaded state of parameter ", update.index,
                            " does not fit its weight, expected ", num_states, " arrays of ",
                            weight.shape(), " of ", dtype);
    }
    for (NDArray& state : states) state = state.Copy(weight.device());
    parameter.is_loaded = false;
    return;
  }
  if (fit && (states.empty() || states[0].device() == weight.device())) return;
  states.clear();
  for (int k = 0; k < rule_->num_states(); ++k) {
    states.push_back(Zeros(weight.shape(), weight.device(), dtype));
  }
  if (master) states.push_back(Dense(weight).AsType(DType::kFloat32));
}

StepRates Optimizer::NextRates(int index, double factor) {
  Parameter& parameter = At(index);
  num_update_ = std::max(num_update_, options_.begin_num_update + ++parameter.updates);
  const double rate = RateOf(num_update_);
  const double before = num_update_ > 1 ? RateOf(num_update_ - 1) : rate;
  return {.lr = rate * parameter.lr_mult,
          .wd = options_.wd * parameter.wd_mult,
          .rescale_grad = options_.rescale_grad.value_or(1) * factor,
          .clip_gradient = options_.clip_gradient,
          .t = parameter.updates,
          .lr_change = before == 0 ? 1 : rate / before,
          .is_weight = parameter.is_weight};
}

void Optimizer::TakeSteps(const std::vector<ParameterUpdate>& updates, double factor) {
  const bool clips = options_.clip_global_norm >= 0;
  if (rule_ == nullptr) {
    if (clips) throw Unimplemented("Optimizer: clip_global_norm for an optimizer without a rule");
    for (const ParameterUpdate& update : updates) {
      Step(update.index, update.weight, update.grad, NextRates(update.index, factor));
    }
  } else {
    std::vector<NDArray> squares;
    if (clips) squares = SumsOfSquares(updates);
    std::vector<std::vector<NDArray>> states;
    for (const ParameterUpdate& update : updates) {
      PrepareStates(update);
      states.push_back(At(update.index).states);
    }
    std::vector<StepRates> rates;
    for (const ParameterUpdate& update : updates) rates.push_back(NextRates(update.index, factor));
    FindOrMake(rule_, updates, states, &plans_).Push(rates, squares, options_.clip_global_norm);
  }
  if (options_.accumulate_steps == 1) return;
  for (const ParameterUpdate& update : updates) At(update.index).accumulator = 0.0f;
}

void Optimizer::Step(int, const NDArray&, const NDArray&, const Rates&) {
  throw Unimplemented("Optimizer::Step: the optimizer has neither a rule nor a step of its own");
}

TrainingState Optimizer::SaveState() const {
  TrainingState state;
  state.texts["kind"] = rule_ != nullptr ? rule_->name() : "Optimizer";
  state.integers["num_update"] = {num_update_};
  state.integers["begin_num_update"] = {options_.begin_num_update};
  std::vector<int64_t>& updates = state.integers["updates"];
  std::vector<int64_t>& accumulated = state.integers["accumulated"];
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    updates.push_back(parameter.updates);
    accumulated.push_back(parameter.accumulated);
    for (size_t k = 0; k < parameter.states.size(); ++k) {
      state.arrays[StateName(i, k)] = Saved(parameter.states[k]);
    }
    if (parameter.accumulated > 0) {
      state.arrays[AccumulatorName(i)] = Saved(parameter.accumulator);
    }
  }
  if (options_.loss_scaler != nullptr) {
    state.Add("loss_scaler", options_.loss_scaler->SaveState());
  }
  if (options_.lr_scheduler != nullptr) {
    state.Add("lr_scheduler", options_.lr_scheduler->SaveState());
  }
  return state;
}

void Optimizer::LoadState(const TrainingState& state) {
  const std::string kind = rule_ != nullptr ? rule_->name() : "Optimizer";
  if (state.Text("kind") != kind) {
    throw InvalidArgument("Optimizer::LoadState: the state is that of ", state.Text("kind"),
                          ", expected ", kind);
  }
  if (options_.lr_scheduler != nullptr) {
    options_.lr_scheduler->CheckState(state.Part("lr_scheduler"));
  }
  const int64_t num_update = state.Integer("num_update");
  const int64_t begin_num_update = state.Integer("begin_num_update");
  const std::vector<int64_t>& updates = state.Integers("updates");
  const std::vector<int64_t>& accumulated = state.Integers("accumulated");
  if (updates.size() != accumulated.size()) {
    throw DataLoss("Optimizer::LoadState: ", updates.size(), " updates and ", accumulated.size(),
                   " accumulated, expected one of each for a parameter");
  }
  std::vector<Parameter> parameters(std::max(updates.size(), parameters_.size()));
  for (size_t i = 0; i < parameters_.size(); ++i) parameters[i].name = parameters_[i].name;
  for (size_t i = 0; i < updates.size(); ++i) {
    Parameter& parameter = parameters[i];
    parameter.updates = updates[i];
    parameter.accumulated = static_cast<int>(accumulated[i]);
    while (state.arrays.contains(StateName(i, parameter.states.size()))) {
      parameter.states.push_back(state.Array(StateName(i, parameter.states.size())));
    }
    parameter.is_loaded = !parameter.states.empty();
    if (accumulated[i] == 0) continue;
    // A copy, because the state's own array is not to change.
    parameter.accumulator = state.Array(AccumulatorName(i)).Copy(Device::Cpu());
  }
  if (options_.loss_scaler != nullptr) options_.loss_scaler->LoadState(state.Part("loss_scaler"));
  parameters_ = std::move(parameters);
  num_update_ = num_update;
  options_.begin_num_update = begin_num_update;
  plans_.clear();
  accumulation_plans_.clear();
  ApplyFactors();
}

}  // namespace tessera
