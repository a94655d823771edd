#include "tessera/train/optimizer/step_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/call/finite_check.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera::train_internal {
namespace {

using ops_internal::StepArguments;

// A weight of more elements has an operation of its own: the engine's share in its time is small,
// and it need not wait for other gradients.
constexpr index_t kMostOfSmall = index_t{1} << 16;

/// Returns whether both name the same elements. Parts of one array share its variable.
bool IsSame(const NDArray& a, const NDArray& b) {
  return a.var() == b.var() && a.shape() == b.shape() && a.dtype() == b.dtype() &&
         a.data().dptr_ == b.data().dptr_;
}

/// Returns the factor of gradients whose squares add up to the sum of all elements of `squares`.
double ClippingFactor(std::span<const NDArray> squares, double rescale_grad, double clip_norm) {
  double sum = 0;
  for (const NDArray& each : squares) {
    const TBlob blob = each.data();
    const auto* const elements = static_cast<const float*>(blob.dptr_);
    for (index_t i = 0; i < blob.Size(); ++i) sum += static_cast<double>(elements[i]);
  }
  const double norm = std::abs(rescale_grad) * std::sqrt(sum);
  return norm > clip_norm ? clip_norm / norm : 1;
}

}  // namespace

/// The steps of one operation.
struct StepPlan::Group {
  std::shared_ptr<const Rule> rule;
  Device device;
  bool master = false;
  std::vector<size_t> positions;  // in the plan's updates
  std::vector<int> indices;       // of the parameters
  std::vector<NDArray> weights;
  std::vector<NDArray> grads;
  std::vector<std::vector<NDArray>> states;
  std::vector<Variable*> reads;    // of gradients
  std::vector<Variable*> updates;  // of weights and states

  void Run(std::span<const StepRates> rates) const {
    std::vector<StepArguments> arguments(weights.size());
    const auto array = [](const NDArray& from) {
      const TBlob blob = from.data();
      return ops_internal::StepArray{blob.dptr_, blob.type_flag_};
    };
    for (size_t i = 0; i < weights.size(); ++i) {
      StepArguments& step = arguments[i];
      step.size = weights[i].shape().Size();
      step.weight = step.out = array(weights[i]);
      step.grad = array(grads[i]);
      step.req = kWriteInplace;
      for (size_t k = 0; k < states[i].size(); ++k) {
        step.states[k] = array(states[i][k]);
        step.keeps[k] = true;
      }
    }
    RunOnDevice(device, [&](void* stream) {
      rule->Run(device.type, rates, arguments, master, {.is_train = true, .stream = stream});
      if (ndarray_internal::ChecksFinite()) Check(stream);
    });
  }

  /// Throws Error(kOutOfRange) that names the optimizer and the parameter, if a step has left a
  /// weight or a state that is not finite.
  void Check(void* stream) const {
    for (size_t i = 0; i < weights.size(); ++i) {
      std::vector<ndarray_internal::NamedBlob> written = {{"weight", weights[i].data()}};
      for (size_t k = 0; k < states[i].size(); ++k) {
        written.push_back({"state " + std::to_string(k), states[i][k].data()});
      }
      const ndarray_internal::NamedBlob grad = {"gradient", grads[i].data()};
      try {
        ndarray_internal::CheckFinite({&grad, 1}, written, stream);
      } catch (const Error& error) {
        throw error.WithMessage(std::string(rule->name()) + " of parameter " +
                                std::to_string(indices[i]) + ": " + error.what());
      }
    }
  }
};

StepPlan::StepPlan(std::shared_ptr<const Rule> rule, std::span<const ParameterUpdate> updates,
                   std::span<const std::vector<NDArray>> states)
    : updates_(updates.begin(), updates.end()) {
  using Kind = std::tuple<int, int, DType, bool>;
  std::map<Kind, std::shared_ptr<Group>> small;
  for (size_t i = 0; i < updates_.size(); ++i) {
    const ParameterUpdate& update = updates_[i];
    const Device device = ComputeDevice(update.weight.device());
    const bool master = states[i].size() > static_cast<size_t>(rule->num_states());
    std::shared_ptr<Group> group;
    if (update.weight.shape().Size() <= kMostOfSmall) {
      std::shared_ptr<Group>& known =
          small[Kind(static_cast<int>(device.type), device.id, update.weight.dtype(), master)];
      group = known;
      if (known == nullptr) known = group = std::make_shared<Group>();
    } else {
      group = std::make_shared<Group>();
    }
    if (group->positions.empty()) {
      group->rule = rule;
      group->device = device;
      group->master = master;
      groups_.push_back(group);
    }
    group->positions.push_back(i);
    group->indices.push_back(update.index);
    group->weights.push_back(update.weight);
    group->grads.push_back(update.grad);
    group->states.push_back(states[i]);
    group->reads.push_back(update.grad.var());
    group->updates.push_back(update.weight.var());
    for (const NDArray& state : states[i]) group->updates.push_back(state.var());
  }
}

bool StepPlan::IsFor(std::span<const ParameterUpdate> updates) const {
  return std::equal(updates.begin(), updates.end(), updates_.begin(), updates_.end(),
                    [](const ParameterUpdate& a, const ParameterUpdate& b) {
                      return a.index == b.index && IsSame(a.weight, b.weight) &&
                             IsSame(a.grad, b.grad);
                    });
}

void StepPlan::Push(std::span<const StepRates> rates, std::span<const NDArray> squares,
                    double clip_norm) const {
  for (const std::shared_ptr<const Group>& group : groups_) {
    std::vector<StepRates> own;
    own.reserve(group->positions.size());
    for (const size_t position : group->positions) own.push_back(rates[position]);
    std::vector<Variable*> reads = group->reads;
    for (const NDArray& each : squares) reads.push_back(each.var());
    Engine::Get()->PushSync(
        [group, clip_norm, own = std::move(own),
         squares = std::vector<NDArray>(squares.begin(), squares.end())](RunContext) {
          if (squares.empty()) return group->Run(own);
          const double factor = ClippingFactor(squares, own[0].rescale_grad, clip_norm);
          std::vector<StepRates> clipped = own;
          for (StepRates& each : clipped) each.rescale_grad *= factor;
          group->Run(clipped);
        },
        Device::Cpu(), reads, {},
        {.name = group->rule->name(), .updates = group->updates, .merge_duplicates = true});
  }
}

}  // namespace tessera::train_internal
