#include "tessera/train/optimizer/step_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/call/finite_check.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"
#include "tessera/ops/sparse.h"

namespace tessera::train_internal {
namespace {

using base_internal::At;
using ndarray_internal::ArrayAccess;
using ndarray_internal::NewSparseParts;
using ndarray_internal::SparseStore;
using ops_internal::StepArguments;

// A weight of more elements has an operation of its own: the engine's share in its time is small,
// and it need not wait for other gradients.
constexpr index_t kMostOfSmall = index_t{1} << 16;

/// Returns whether both name the same elements. Parts of one dense array share its variable.
bool IsSame(const NDArray& a, const NDArray& b) {
  if (a.var() != b.var() || a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  return ArrayAccess::Sparse(a) != nullptr || a.data().dptr_ == b.data().dptr_;
}

/// The elements of a weight in an operation that changes them. A row_sparse weight stores all of
/// its rows from then on.
class WeightValues {
 public:
  explicit WeightValues(const NDArray& weight) {
    SparseStore* const store = ArrayAccess::Sparse(weight);
    if (store == nullptr) {
      values_ = weight.data();
      return;
    }
    parts_ = std::make_unique<NewSparseParts>(store);
    SparseBlob rows = store->Blob();
    rows.allocator = parts_.get();
    ops_internal::StoreAllRows(&rows);
    values_ = rows.values;
  }

  const TBlob& blob() const { return values_; }
  /// Lets the weight have the elements, if they have new memory.
  void Commit() {
    if (parts_ != nullptr) parts_->Commit();
  }

 private:
  TBlob values_;
  std::unique_ptr<NewSparseParts> parts_;  // null for a dense weight
};

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
    std::vector<WeightValues> values;
    std::vector<TBlob> gradients;
    std::vector<StepArguments> steps;
    std::vector<StepRates> rates_of_steps;
    for (size_t i = 0; i < weights.size(); ++i) {
      values.emplace_back(weights[i]);
      gradients.push_back(AddSteps(i, values.back().blob(), &steps));
      rates_of_steps.resize(steps.size(), rates[i]);
    }
    RunOnDevice(device, [&](void* stream) {
      const OpContext context{.is_train = true, .stream = stream};
      if (!steps.empty()) rule->Run(device.type, rates_of_steps, steps, master, context);
      if (ndarray_internal::ChecksFinite()) Check(values, gradients, stream);
    });
    for (WeightValues& each : values) each.Commit();
  }

  /// Adds the steps of update i: one of the whole weight or, with a row_sparse gradient, one of
  /// each run of consecutive rows that it stores. Returns the gradient's elements.
  TBlob AddSteps(size_t i, const TBlob& weight, std::vector<StepArguments>* steps) const {
    const auto part = [](const TBlob& blob, index_t begin) {
      char* const data = static_cast<char*>(blob.dptr_);
      const index_t begin_bytes = begin * DTypeSizeBytes(blob.type_flag_);
      return ops_internal::StepArray{begin == 0 ? data : data + begin_bytes, blob.type_flag_};
    };
    // A step of `size` elements from `begin` on, whose gradients begin at `grad_begin`.
    const auto add = [&](index_t begin, const TBlob& grad, index_t grad_begin, index_t size) {
      StepArguments step;
      step.size = size;
      step.weight = step.out = part(weight, begin);
      step.grad = part(grad, grad_begin);
      step.req = kWriteInplace;
      for (size_t k = 0; k < states[i].size(); ++k) {
        step.states[k] = part(states[i][k].data(), begin);
        step.keeps[k] = true;
      }
      steps->push_back(step);
    };
    SparseStore* const store = ArrayAccess::Sparse(grads[i]);
    if (store == nullptr) {
      const TBlob grad = grads[i].data();
      add(0, grad, 0, weight.Size());
      return grad;
    }
    const SparseBlob grad = store->Blob();
    const index_t width = grad.width();
    for (index_t k = 0; k < grad.count();) {
      const index_t first = k;
      const int64_t row = grad.indices[At(first)];
      while (k < grad.count() && grad.indices[At(k)] == row + (k - first)) ++k;
      add(row * width, grad.values, first * width, (k - first) * width);
    }
    return grad.values;
  }

  /// Throws Error(kOutOfRange) that names the optimizer and the parameter, if a step has left a
  /// weight or a state that is not finite.
  void Check(std::span<const WeightValues> values, std::span<const TBlob> gradients,
             void* stream) const {
    for (size_t i = 0; i < weights.size(); ++i) {
      std::vector<ndarray_internal::NamedBlob> written = {{"weight", values[i].blob()}};
      for (size_t k = 0; k < states[i].size(); ++k) {
        written.push_back({"state " + std::to_string(k), states[i][k].data()});
      }
      const ndarray_internal::NamedBlob grad = {"gradient", gradients[i]};
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
