#include "tessera/ndarray/call/call_plan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/ndarray/overlaps.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/registry.h"

namespace tessera::ndarray_internal {
namespace {

using base_internal::At;

std::string Join(std::span<const std::string> names) {
  std::string joined;
  for (const std::string& name : names) {
    if (!joined.empty()) joined += ", ";
    joined += name;
  }
  return joined;
}

std::vector<int> Ids(size_t count) {
  std::vector<int> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

void AddHash(size_t value, size_t* hash) { *hash = (*hash ^ value) * size_t{0x9E3779B97F4A7C15}; }

void AddHash(const NDArray& array, size_t* hash) {
  const TShape& shape = array.shape();
  AddHash(static_cast<size_t>(array.dtype()) * 16 + static_cast<size_t>(shape.ndim()), hash);
  for (const index_t extent : shape) AddHash(static_cast<size_t>(extent), hash);
}

void AddHash(std::span<const NDArray> inputs, std::span<const NDArray> outputs, size_t* hash) {
  for (const NDArray& input : inputs) AddHash(input, hash);
  for (const NDArray& output : outputs) AddHash(output, hash);
}

/// Notes the inputs and outputs that the graph of a gradient reads.
class ReadValues final : public GradientBuilder {
 public:
  ReadValues(std::vector<bool>* inputs, std::vector<bool>* outputs)
      : inputs_(*inputs), outputs_(*outputs) {}

  Value OutGrad(int) override { return 0; }
  Value Input(int input) override {
    inputs_[At(input)] = true;
    return 0;
  }
  Value Output(int output) override {
    outputs_[At(output)] = true;
    return 0;
  }
  std::vector<Value> Apply(std::string_view op, std::span<const Value>,
                           const ParameterMap& parameters) override {
    const auto property = OperatorRegistry::Get().FindOrCreate(op, parameters);
    return std::vector<Value>(At(property->NumVisibleOutputs()), 0);
  }
  void SetInGrad(int, Value) override {}

 private:
  std::vector<bool>& inputs_;
  std::vector<bool>& outputs_;
};

}  // namespace

CallPlan::CallPlan(std::shared_ptr<const OperatorProperty> property, std::string implementation,
                   std::span<const NDArray> inputs, std::span<const NDArray> outputs)
    : property_(std::move(property)),
      implementation_(std::move(implementation)),
      engine_(Engine::Get()),
      sparse_form_(FindSparseForm(property_->RegisteredName())),
      makes_sparse_(sparse_form_ != nullptr && sparse_form_->MakesSparse(*property_)),
      mutated_(property_->MutatedInputs()),
      num_visible_(At(property_->NumVisibleOutputs())) {
  TakeInputs(inputs);
  if (inputs.empty() && outputs.empty()) TakeContext();
  InferOutputs(outputs);
  write_requests_.assign(num_outputs(), kWriteTo);
  write_requests_.insert(write_requests_.end(), mutated_.size(), kWriteInplace);
}

std::shared_ptr<const CallPlan>& CallPlan::Recent(size_t hash) {
  // A power of two that holds the different calls of a large network. It lies on the heap, because
  // a shared library that is loaded late has little thread-local memory.
  using RecentPlans = std::array<std::shared_ptr<const CallPlan>, 1024>;
  thread_local const auto recent = std::make_unique<RecentPlans>();
  return (*recent)[(hash >> 32) % recent->size()];
}

std::shared_ptr<CallPlan> CallPlan::Make(size_t hash,
                                         std::shared_ptr<const OperatorProperty> property,
                                         std::string implementation,
                                         std::span<const NDArray> inputs,
                                         std::span<const NDArray> outputs) {
  auto plan =
      std::make_shared<CallPlan>(std::move(property), std::move(implementation), inputs, outputs);
  plan->hash_ = hash;
  for (const NDArray& output : outputs) {
    plan->asked_outputs_.emplace_back(output.shape(), output.dtype());
  }
  return plan;
}

std::shared_ptr<const CallPlan> CallPlan::Find(std::string_view op, const ParameterMap& parameters,
                                               std::span<const NDArray> inputs,
                                               std::span<const NDArray> outputs) {
  const std::hash<std::string_view> text_hash;
  size_t hash = text_hash(op);
  for (const auto& [name, text] : parameters) {
    AddHash(text_hash(name), &hash);
    AddHash(text_hash(text), &hash);
  }
  AddHash(inputs, outputs, &hash);
  std::shared_ptr<const CallPlan>& recent = Recent(hash);
  if (recent != nullptr && recent->Matches(hash, inputs, outputs) && recent->asked_op_ == op &&
      recent->asked_parameters_ == parameters) {
    return recent;
  }
  ParameterMap own = parameters;
  const auto named = own.extract(kImplementationAttribute);
  const std::shared_ptr<CallPlan> plan = Make(hash, OperatorRegistry::Get().FindOrCreate(op, own),
                                              named.empty() ? "" : named.mapped(), inputs, outputs);
  plan->asked_op_ = op;
  plan->asked_parameters_ = parameters;
  if (plan->property_->purity() != Purity::kSynchronous) recent = plan;
  return plan;
}

std::shared_ptr<const CallPlan> CallPlan::Find(
    const std::shared_ptr<const OperatorProperty>& property, std::string_view implementation,
    std::span<const NDArray> inputs, std::span<const NDArray> outputs) {
  // A plan keeps its property, whose address therefore is no other property's.
  size_t hash = 0;
  AddHash(std::hash<const OperatorProperty*>()(property.get()), &hash);
  AddHash(std::hash<std::string_view>()(implementation), &hash);
  AddHash(inputs, outputs, &hash);
  std::shared_ptr<const CallPlan>& recent = Recent(hash);
  if (recent != nullptr && recent->Matches(hash, inputs, outputs) && recent->asked_op_.empty() &&
      recent->property_ == property && recent->implementation_ == implementation) {
    return recent;
  }
  if (property->RegisteredName().empty()) {
    throw OperatorRegistry::Get().UnknownOperator(property->TypeString());
  }
  const std::shared_ptr<CallPlan> plan =
      Make(hash, property, std::string(implementation), inputs, outputs);
  if (property->purity() != Purity::kSynchronous) recent = plan;
  return plan;
}

bool CallPlan::Matches(size_t hash, std::span<const NDArray> inputs,
                       std::span<const NDArray> outputs) const {
  if (hash != hash_ || engine_ != Engine::Get()) return false;
  if (inputs.size() != num_inputs() || outputs.size() != asked_outputs_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_none() || inputs[i].dtype() != signature_.in_type[i] ||
        inputs[i].shape() != signature_.in_shape[i] ||
        ComputeDevice(inputs[i].device()) != signature_.device) {
      return false;
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_none() || outputs[i].dtype() != asked_outputs_[i].second ||
        outputs[i].shape() != asked_outputs_[i].first ||
        ComputeDevice(outputs[i].device()) != signature_.device) {
      return false;
    }
  }
  return true;
}

void CallPlan::TakeInputs(std::span<const NDArray> inputs) {
  const std::vector<std::string> names = property_->ListArguments();
  if (inputs.size() != names.size()) {
    throw InvalidArgument(name(), ": ", inputs.size(), " inputs given, expected ", names.size(),
                          " (", Join(names), ")");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_none()) {
      throw InvalidArgument(name(), ": input ", names[i], " is no array (is_none())");
    }
    const Device device = ComputeDevice(inputs[i].device());
    if (i == 0) signature_.device = device;
    if (device != signature_.device) {
      throw InvalidArgument(name(), ": input ", names[i], " lies on ", device, ", but ", names[0],
                            " on ", signature_.device, "; expected all on one device");
    }
    signature_.in_shape.push_back(inputs[i].shape());
    signature_.in_type.push_back(inputs[i].dtype());
  }
}

void CallPlan::TakeContext() {
  const ParameterMap parameters = property_->GetParams();
  const auto context = parameters.find("ctx");
  if (context == parameters.end() || context->second.empty()) return;
  try {
    created_on_ = Device::Parse(context->second);
  } catch (const Error& error) {
    throw InvalidArgument(name(), ": parameter ctx: ", error.what());
  }
  signature_.device = ComputeDevice(created_on_);
}

void CallPlan::InferOutputs(std::span<const NDArray> outputs) {
  const std::vector<std::string> names = property_->ListOutputs();
  if (!outputs.empty() && outputs.size() != num_visible_ && outputs.size() != names.size()) {
    throw InvalidArgument(name(), ": ", outputs.size(), " outputs given, expected ", num_visible_,
                          " (", Join({names.data(), num_visible_}), ")");
  }
  const CallSignature given = signature_;
  signature_.out_shape.resize(names.size());
  signature_.out_type.resize(names.size(), DType::kUnknown);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_none()) {
      throw InvalidArgument(name(), ": output ", names[i], " is no array (is_none())");
    }
    const Device device = ComputeDevice(outputs[i].device());
    // The outputs determine the device if there are no inputs.
    if (num_inputs() == 0 && i == 0) signature_.device = device;
    if (device != signature_.device) {
      throw InvalidArgument(name(), ": output ", names[i], " lies on ", device,
                            ", but the operator runs on ", signature_.device);
    }
    signature_.out_shape[i] = outputs[i].shape();
    signature_.out_type[i] = outputs[i].dtype();
  }
  if (!property_->InferShape(&signature_.in_shape, &signature_.out_shape)) {
    throw InvalidArgument(name(), ": the inputs' shapes do not determine all shapes");
  }
  if (!property_->InferType(&signature_.in_type, &signature_.out_type)) {
    throw InvalidArgument(name(), ": the inputs' element types do not determine all types");
  }
  const auto require = [this](const char* kind, const std::string& argument, const TShape& shape,
                              DType type, const TShape& expected_shape, DType expected_type) {
    if (shape == expected_shape && type == expected_type) return;
    throw InvalidArgument(name(), ": ", kind, " ", argument, " is ", shape, " of ", type,
                          ", expected ", expected_shape, " of ", expected_type);
  };
  const std::vector<std::string> input_names = property_->ListArguments();
  for (size_t i = 0; i < num_inputs(); ++i) {
    require("input", input_names[i], given.in_shape[i], given.in_type[i], signature_.in_shape[i],
            signature_.in_type[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    require("output", names[i], outputs[i].shape(), outputs[i].dtype(), signature_.out_shape[i],
            signature_.out_type[i]);
  }
}

std::vector<OpReqType> CallPlan::Requests(std::span<const NDArray> inputs,
                                          std::span<const NDArray> outputs, size_t num_given,
                                          OpReqType req) const {
  const auto order = [](const InplacePair& pair) { return std::pair(pair.source, pair.target); };
  std::vector<InplacePair> replaceable =
      property_->ForwardInplaceOption(Ids(num_inputs()), Ids(num_outputs()));
  std::ranges::sort(replaceable, {}, order);
  const auto may_replace = [&](size_t in, size_t out) {
    const std::pair pair(static_cast<int>(in), static_cast<int>(out));
    return std::ranges::binary_search(replaceable, pair, {}, order);
  };
  const auto input_name = [this](size_t i) { return property_->ListArguments()[i]; };
  const auto refuse_shared = [this](size_t) {
    throw InvalidArgument(name(), ": two of its outputs and changing inputs share memory");
  };
  const Overlaps read(inputs), written(outputs);
  // An input that changes overlaps neither another input nor an output.
  for (const int mutated : mutated_) {
    const ArrayMemory changed = ArrayAccess::Memory(inputs[At(mutated)]);
    read.ForEach(changed, [&](size_t in) {
      if (in == At(mutated)) return;
      throw InvalidArgument(name(), ": input ", input_name(in), " shares memory with input ",
                            input_name(At(mutated)), ", which the operator changes");
    });
    written.ForEach(changed, refuse_shared);
  }
  std::vector<OpReqType> requests;
  for (size_t out = 0; out < outputs.size(); ++out) {
    const ArrayMemory output = ArrayAccess::Memory(outputs[out]);
    written.ForEach(output, [&](size_t other) {
      if (other != out) refuse_shared(other);
    });
    // A new array is overwritten.
    OpReqType request = out < num_given ? req : kWriteTo;
    read.ForEach(output, [&](size_t in) {
      if (!output.IsSame(ArrayAccess::Memory(inputs[in])) || !may_replace(in, out)) {
        throw InvalidArgument(name(), ": output ", property_->ListOutputs()[out],
                              " shares memory with input ", input_name(in),
                              ", over which the operator cannot work");
      }
      if (request == kWriteTo) request = kWriteInplace;
    });
    requests.push_back(request);
  }
  requests.insert(requests.end(), mutated_.size(), kWriteInplace);
  return requests;
}

const OperatorCall& CallPlan::Call(const std::vector<OpReqType>& requests) const {
  const bool writes = &requests == &write_requests_;
  // Acquire: pairs with the release store below.
  if (writes) {
    const OperatorCall* const call = write_call_.load(std::memory_order_acquire);
    if (call != nullptr) return *call;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const OperatorCall& call = FindOrMake(property_, requests, &calls_);
  if (writes) write_call_.store(&call, std::memory_order_release);
  return call;
}

const OperatorCall& CallPlan::BackwardCall(const std::vector<OpReqType>& requests) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (backward_property_ == nullptr) {
    backward_property_ = std::make_shared<graph::BackwardProperty>(property_);
  }
  return FindOrMake(backward_property_, requests, &backward_calls_);
}

const OperatorCall& CallPlan::FindOrMake(const std::shared_ptr<const OperatorProperty>& property,
                                         const std::vector<OpReqType>& requests,
                                         Calls* calls) const {
  for (const auto& [known, call] : *calls) {
    if (known == requests) return *call;
  }
  calls->emplace_back(requests, std::make_unique<OperatorCall>(
                                    "", property, signature_.device, signature_.in_shape,
                                    signature_.in_type, requests, operator_, implementation_));
  const OperatorCall& call = *calls->back().second;
  operator_ = call.op();
  return call;
}

const CallPlan::SavedValues& CallPlan::Saved() const {
  std::call_once(saved_once_, [this] {
    saved_.inputs.resize(num_inputs());
    saved_.outputs.resize(num_outputs());
    const OperatorProperty& property = *property_;
    if (!property.HasGradient()) return;
    if (property.HasBackward()) {
      const graph::BackwardProperty backward(property_);
      for (const auto& [role, index] : backward.sources()) {
        if (role == graph::BackwardProperty::Role::kInData) saved_.inputs[At(index)] = true;
        if (role == graph::BackwardProperty::Role::kOutData) saved_.outputs[At(index)] = true;
      }
    }
    ReadValues builder(&saved_.inputs, &saved_.outputs);
    property.BuildGradient(&builder);
  });
  return saved_;
}

}  // namespace tessera::ndarray_internal
