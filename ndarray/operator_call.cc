#include "tessera/ndarray/operator_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/ndarray/finite_check.h"
#include "tessera/ops/registry.h"
#include "tessera/resource/resource_manager.h"

namespace tessera {
namespace {

using graph::BackwardProperty;

size_t At(int index) { return static_cast<size_t>(index); }

}  // namespace

OperatorCall::OperatorCall(std::string node, const OperatorProperty& property, Device device,
                           std::span<const TShape> in_shape, std::span<const DType> in_type,
                           std::vector<OpReqType> req)
    : node_(std::move(node)),
      op_name_(property.TypeString()),
      device_(device),
      req_(std::move(req)),
      checks_finite_(ndarray_internal::ChecksFinite()) {
  if (checks_finite_) {
    input_names_ = property.ListArguments();
    output_names_ = property.ListOutputs();
    output_names_.resize(At(property.NumVisibleOutputs()));
    mutated_ = property.MutatedInputs();
  }
  const auto* const backward = dynamic_cast<const BackwardProperty*>(&property);
  const OperatorProperty& forward = backward == nullptr ? property : *backward->forward();
  is_backward_ = backward != nullptr;
  operator_ = forward.CreateOperator(device, in_shape, in_type);
  for (const ResourceRequest request :
       is_backward_ ? forward.BackwardResource(in_shape) : forward.ForwardResource(in_shape)) {
    const ResourceHandle resource = ResourceManager::Get()->Request(device, request);
    resources_.push_back(resource.resource);
    resource_vars_.push_back(resource.var);
  }
  in_data_.resize(in_shape.size());
  if (backward == nullptr) {
    for (size_t i = 0; i < in_shape.size(); ++i) places_.push_back({&in_data_, i});
    return;
  }
  out_grad_.resize(forward.ListOutputs().size());
  out_data_.resize(out_grad_.size());
  for (const auto& [role, index] : backward->sources()) {
    switch (role) {
      case BackwardProperty::Role::kOutGrad:
        places_.push_back({&out_grad_, At(index)});
        break;
      case BackwardProperty::Role::kInData:
        places_.push_back({&in_data_, At(index)});
        break;
      case BackwardProperty::Role::kOutData:
        places_.push_back({&out_data_, At(index)});
        break;
    }
  }
}

void OperatorCall::SetMemory(std::span<const TBlob> inputs, std::span<const TBlob> outputs) {
  TESSERA_DCHECK(inputs.size() == places_.size());
  for (size_t i = 0; i < inputs.size(); ++i) (*places_[i].list)[places_[i].index] = inputs[i];
  targets_.assign(outputs.begin(), outputs.end());
  has_memory_ = true;
  workspaces_.clear();
  adders_.clear();
  if (operator_->AcceptsAddTo()) return;
  const auto copy = OperatorRegistry::Get().Create("_copy", {});
  for (size_t i = 0; i < targets_.size(); ++i) {
    if (req_[i] != kAddTo) continue;
    const TBlob& target = targets_[i];
    workspaces_.emplace_back(target.shape_, device_, target.type_flag_, /*delay_alloc=*/true,
                             op_name_);
    const std::vector<TShape> shape = {target.shape_};
    const std::vector<DType> type = {target.type_flag_};
    adders_.push_back(copy->CreateOperator(device_, shape, type));
  }
}

void OperatorCall::Run(CallMode mode, void* stream) {
  const OpContext context{.is_train = mode.is_train,
                          .needs_gradient = mode.needs_gradient,
                          .stream = stream,
                          .requested = resources_};
  try {
    if (workspaces_.empty()) {
      RunOperator(context, req_, targets_);
    } else {
      RunAndAdd(context);
    }
    if (checks_finite_) CheckOutputs(stream);
  } catch (const Error& error) {
    throw Error(error.code(), Where() + ": " + error.what());
  }
}

void OperatorCall::RunOperator(const OpContext& context, std::span<const OpReqType> req,
                               std::span<const TBlob> targets) {
  if (is_backward_) {
    operator_->Backward(context, out_grad_, in_data_, out_data_, req, targets);
  } else {
    operator_->Forward(context, in_data_, req, targets);
  }
}

void OperatorCall::RunAndAdd(const OpContext& context) {
  std::vector<OpReqType> req = req_;
  std::vector<TBlob> targets = targets_;
  std::vector<size_t> added;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (req[i] != kAddTo) continue;
    req[i] = kWriteTo;
    targets[i] = workspaces_[added.size()].data();
    added.push_back(i);
  }
  RunOperator(context, req, targets);
  const OpReqType add[] = {kAddTo};
  for (size_t k = 0; k < added.size(); ++k) {
    adders_[k]->Forward({.stream = context.stream}, {&targets[added[k]], 1}, add,
                        {&targets_[added[k]], 1});
  }
}

void OperatorCall::CheckOutputs(void* stream) const {
  std::vector<ndarray_internal::NamedBlob> inputs, outputs;
  for (size_t i = 0; i < places_.size(); ++i) {
    inputs.push_back({input_names_[i], (*places_[i].list)[places_[i].index]});
  }
  for (size_t i = 0; i < output_names_.size(); ++i) {
    if (req_[i] != kNullOp) outputs.push_back({output_names_[i], targets_[i]});
  }
  for (size_t i = 0; i < mutated_.size(); ++i) {
    if (req_[targets_.size() + i] != kNullOp) outputs.push_back(inputs[At(mutated_[i])]);
  }
  CheckFinite(inputs, outputs, stream);
}

std::string OperatorCall::Where() const {
  std::string text = node_.empty() ? op_name_ : "node \"" + node_ + "\" (" + op_name_;
  text += " of";
  const char* separator = " ";
  for (const auto* list : {&out_grad_, &in_data_, &out_data_}) {
    for (const TBlob& blob : *list) {
      if (blob.dptr_ == nullptr) continue;
      text += separator;
      text += DTypeName(blob.type_flag_);
      text += blob.shape_.ToString();
      separator = ", ";
    }
  }
  return node_.empty() ? text : text + ")";
}

}  // namespace tessera
