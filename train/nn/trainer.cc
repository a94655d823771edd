#include "tessera/train/nn/trainer.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/ndarray/autograd.h"

namespace tessera::nn {

Trainer::Trainer(const std::vector<NamedParameter>& parameters,
                 std::shared_ptr<Optimizer> optimizer, TrainerOptions options)
    : optimizer_(std::move(optimizer)), options_(std::move(options)) {
  if (optimizer_ == nullptr) throw InvalidArgument("Trainer: the optimizer is null");
  for (const NamedParameter& named : parameters) {
    const auto is_known = [&named](const NamedParameter& other) {
      return other.parameter == named.parameter;
    };
    if (named.parameter.grad_req() == kNullOp ||
        std::any_of(parameters_.begin(), parameters_.end(), is_known)) {
      continue;
    }
    parameters_.push_back(named);
  }
  if (parameters_.empty()) {
    throw InvalidArgument("Trainer: no parameter has a gradient, expected at least one");
  }
  divides_by_batch_ = !optimizer_->has_rescale_grad();
  std::vector<std::string> names;
  std::map<std::string, double> lr_mult, wd_mult;
  for (const NamedParameter& named : parameters_) {
    names.push_back(named.name);
    lr_mult[named.name] = named.parameter.lr_mult();
    wd_mult[named.name] = named.parameter.wd_mult();
  }
  optimizer_->SetParameterNames(std::move(names));
  optimizer_->SetNetworkFactors(lr_mult, wd_mult);
}

std::vector<Trainer::Arrays> Trainer::CollectArrays() const {
  std::vector<Arrays> all;
  const std::vector<Device> devices = parameters_[0].parameter.devices();
  for (const NamedParameter& named : parameters_) {
    if (named.parameter.devices() != devices) {
      throw FailedPrecondition("Trainer::Step: parameter ", Excerpt(named.name),
                               " lies on other devices than ", Excerpt(parameters_[0].name),
                               ", expected the same for all");
    }
    Arrays arrays;
    bool is_fresh = true;
    for (const Device device : devices) {
      arrays.weights.push_back(named.parameter.Data(device));
      arrays.gradients.push_back(arrays.weights.back().grad());
      is_fresh = is_fresh && autograd::IsGradientFresh(arrays.weights.back());
    }
    if (arrays.weights.empty()) named.parameter.Data();  // throws
    if (!is_fresh && !options_.ignore_stale_grad) {
      throw FailedPrecondition("Trainer::Step: the gradient of parameter ", Excerpt(named.name),
                               " was not computed since the last step; expected Backward of a loss "
                               "that depends on it, on each device, or ignore_stale_grad");
    }
    if (!is_fresh) arrays.gradients.clear();
    all.push_back(std::move(arrays));
  }
  return all;
}

void Trainer::UseStore(const std::vector<Arrays>& arrays) {
  if (has_store_) return;
  optimizer_->CheckUpdatesOneByOne("Trainer::Step");
  const std::shared_ptr<KVStore>& store = options_.kvstore;
  store->set_updater(
      [optimizer = optimizer_](const KVKey& key, const NDArray& received, const NDArray& stored) {
        optimizer->Update(std::get<int>(key), stored, received);
      });
  for (size_t i = 0; i < arrays.size(); ++i) {
    store->Init(static_cast<int>(i), arrays[i].weights[0]);
  }
  if (store->num_workers() > 1) {
    for (size_t i = 0; i < arrays.size(); ++i) {
      store->Pull(static_cast<int>(i), arrays[i].weights);
    }
  }
  has_store_ = true;
}

void Trainer::Step(index_t batch_size) {
  if (batch_size < 1) {
    throw InvalidArgument("Trainer::Step: batch_size is ", batch_size, ", expected 1 or more");
  }
  const std::vector<Arrays> arrays = CollectArrays();
  // Updates are no part of what a thread may record meanwhile.
  const autograd::Pause pause(autograd::IsTraining());
  if (divides_by_batch_) {
    const int workers = options_.kvstore != nullptr ? options_.kvstore->num_workers() : 1;
    optimizer_->set_rescale_grad(1.0 / (static_cast<double>(batch_size) * workers));
  }
  if (options_.kvstore == nullptr && arrays[0].weights.size() > 1) {
    options_.kvstore = KVStore::Create("local");
  }
  if (options_.kvstore != nullptr) UseStore(arrays);
  std::vector<ParameterUpdate> updates;  // without a store
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].gradients.empty()) continue;
    const int key = static_cast<int>(i);
    if (options_.kvstore == nullptr) {
      updates.push_back({key, arrays[i].weights[0], arrays[i].gradients[0]});
    } else {
      // What the next step needs first is sent first.
      options_.kvstore->Push(key, arrays[i].gradients, -key);
      options_.kvstore->Pull(key, arrays[i].weights, -key);
    }
    for (const NDArray& weight : arrays[i].weights) autograd::SetGradientFresh(weight, false);
  }
  optimizer_->UpdateAll(updates);
}

}  // namespace tessera::nn
