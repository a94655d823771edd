#include "tessera/ndarray/imperative.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/device_runtime.h"
#include "tessera/ndarray/operator_call.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ndarray_internal::ArrayMemory;

/// An operator with the arrays that it runs on, with all shapes and types inferred and checked. One
/// engine operation at a time calls Run, because every operator writes an array. The operation is
/// one of the host for every device; RunOnDevice provides streams.
class Call {
 public:
  Call(const OperatorProperty& property, std::span<const NDArray> inputs,
       std::span<const NDArray> outputs, OpReqType req);

  const std::string& name() const { return name_; }
  const std::vector<NDArray>& outputs() const { return outputs_; }
  const std::vector<Variable*>& reads() const { return reads_; }
  const std::vector<Variable*>& writes() const { return writes_; }

  void Run(const RunContext& context, bool is_train);

 private:
  void TakeInputs(const OperatorProperty& property, std::span<const NDArray> inputs);
  void InferOutputs(const OperatorProperty& property, std::span<const NDArray> outputs);
  void SetRequests(const OperatorProperty& property, size_t num_given, OpReqType req);
  void ListVariables();
  bool IsMutated(size_t input) const;

  const std::string name_;
  Device device_;
  std::vector<NDArray> inputs_;
  std::vector<NDArray> outputs_;
  std::vector<int> mutated_;
  std::vector<OpReqType> requests_;  // of the outputs, then of the mutated inputs
  std::unique_ptr<OperatorCall> call_;

  std::vector<Variable*> reads_;
  std::vector<Variable*> writes_;
  /// The written variables whose old contents the operation also uses or keeps.
  std::vector<Variable*> kept_;
};

void AddOnce(Variable* var, std::vector<Variable*>* list) {
  if (std::find(list->begin(), list->end(), var) == list->end()) list->push_back(var);
}

bool Contains(const std::vector<Variable*>& list, Variable* var) {
  return std::find(list.begin(), list.end(), var) != list.end();
}

std::vector<TBlob> Blobs(const std::vector<NDArray>& arrays) {
  std::vector<TBlob> blobs;
  blobs.reserve(arrays.size());
  for (const NDArray& array : arrays) blobs.push_back(array.data());
  return blobs;
}

std::string Join(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) {
    if (!joined.empty()) joined += ", ";
    joined += name;
  }
  return joined;
}

Call::Call(const OperatorProperty& property, std::span<const NDArray> inputs,
           std::span<const NDArray> outputs, OpReqType req)
    : name_(property.TypeString()), mutated_(property.MutatedInputs()) {
  TakeInputs(property, inputs);
  InferOutputs(property, outputs);
  SetRequests(property, outputs.size(), req);
  std::vector<TShape> shapes;
  std::vector<DType> types;
  for (const NDArray& input : inputs_) {
    shapes.push_back(input.shape());
    types.push_back(input.dtype());
  }
  call_ = std::make_unique<OperatorCall>("", property, device_, shapes, types, requests_);
  ListVariables();
}

bool Call::IsMutated(size_t input) const {
  return std::find(mutated_.begin(), mutated_.end(), static_cast<int>(input)) != mutated_.end();
}

void Call::TakeInputs(const OperatorProperty& property, std::span<const NDArray> inputs) {
  const std::vector<std::string> names = property.ListArguments();
  if (inputs.size() != names.size()) {
    throw InvalidArgument(name_, ": ", inputs.size(), " inputs given, expected ", names.size(),
                          " (", Join(names), ")");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_none()) {
      throw InvalidArgument(name_, ": input ", names[i], " is no array (is_none())");
    }
    const Device device = ComputeDevice(inputs[i].device());
    if (i == 0) device_ = device;
    if (device != device_) {
      throw InvalidArgument(name_, ": input ", names[i], " lies on ", device, ", but ", names[0],
                            " on ", device_, "; expected all on one device");
    }
    inputs_.push_back(inputs[i]);
  }
}

// Completes outputs_ with the caller's outputs, which it checks, and new arrays for the others.
void Call::InferOutputs(const OperatorProperty& property, std::span<const NDArray> outputs) {
  const std::vector<std::string> names = property.ListOutputs();
  const size_t visible = static_cast<size_t>(property.NumVisibleOutputs());
  if (!outputs.empty() && outputs.size() != visible && outputs.size() != names.size()) {
    throw InvalidArgument(name_, ": ", outputs.size(), " outputs given, expected ", visible, " (",
                          Join({names.begin(), names.begin() + static_cast<ptrdiff_t>(visible)}),
                          ")");
  }
  std::vector<TShape> in_shape, out_shape(names.size());
  std::vector<DType> in_type, out_type(names.size(), DType::kUnknown);
  for (const NDArray& input : inputs_) {
    in_shape.push_back(input.shape());
    in_type.push_back(input.dtype());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].is_none()) {
      throw InvalidArgument(name_, ": output ", names[i], " is no array (is_none())");
    }
    const Device device = ComputeDevice(outputs[i].device());
    // The outputs determine the device if there are no inputs.
    if (inputs_.empty() && i == 0) device_ = device;
    if (device != device_) {
      throw InvalidArgument(name_, ": output ", names[i], " lies on ", device,
                            ", but the operator runs on ", device_);
    }
    out_shape[i] = outputs[i].shape();
    out_type[i] = outputs[i].dtype();
  }
  if (!property.InferShape(&in_shape, &out_shape)) {
    throw InvalidArgument(name_, ": the inputs' shapes do not determine all shapes");
  }
  if (!property.InferType(&in_type, &out_type)) {
    throw InvalidArgument(name_, ": the inputs' element types do not determine all types");
  }
  const auto require = [this](const char* kind, const NDArray& array, const std::string& name,
                              const TShape& shape, DType type) {
    if (array.shape() != shape || array.dtype() != type) {
      throw InvalidArgument(name_, ": ", kind, " ", name, " is ", array.shape(), " of ",
                            array.dtype(), ", expected ", shape, " of ", type);
    }
  };
  const std::vector<std::string> input_names = property.ListArguments();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    require("input", inputs_[i], input_names[i], in_shape[i], in_type[i]);
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (i < outputs.size()) {
      require("output", outputs[i], names[i], out_shape[i], out_type[i]);
      outputs_.push_back(outputs[i]);
    } else {
      outputs_.emplace_back(out_shape[i], device_, out_type[i], /*delay_alloc=*/true, name_);
    }
  }
}

// Sets requests_. Throws for outputs that overlap an array that the operator still needs.
void Call::SetRequests(const OperatorProperty& property, size_t num_given, OpReqType req) {
  std::vector<int> in_ids(inputs_.size());
  for (size_t i = 0; i < in_ids.size(); ++i) in_ids[i] = static_cast<int>(i);
  std::vector<int> out_ids(outputs_.size());
  for (size_t i = 0; i < out_ids.size(); ++i) out_ids[i] = static_cast<int>(i);
  const std::vector<InplacePair> pairs = property.ForwardInplaceOption(in_ids, out_ids);
  const auto may_replace = [&pairs](size_t in, size_t out) {
    return std::any_of(pairs.begin(), pairs.end(), [in, out](const InplacePair& pair) {
      return pair.source == static_cast<int>(in) && pair.target == static_cast<int>(out);
    });
  };
  const std::vector<std::string> names = property.ListArguments();
  // An input that changes overlaps neither another input nor an output.
  for (const int mutated : mutated_) {
    const auto m = static_cast<size_t>(mutated);
    for (size_t in = 0; in < inputs_.size(); ++in) {
      if (in == m || !ArrayMemory::Of(inputs_[in]).Overlaps(ArrayMemory::Of(inputs_[m]))) continue;
      throw InvalidArgument(name_, ": input ", names[in], " shares memory with input ", names[m],
                            ", which the operator changes");
    }
  }
  std::vector<ArrayMemory> written;
  for (const int mutated : mutated_) {
    written.push_back(ArrayMemory::Of(inputs_[static_cast<size_t>(mutated)]));
  }
  for (size_t out = 0; out < outputs_.size(); ++out) {
    const ArrayMemory output = ArrayMemory::Of(outputs_[out]);
    for (const ArrayMemory& other : written) {
      if (output.Overlaps(other)) {
        throw InvalidArgument(name_, ": two of its outputs and changing inputs share memory");
      }
    }
    written.push_back(output);
    // A new array is overwritten.
    OpReqType request = out < num_given ? req : kWriteTo;
    for (size_t in = 0; in < inputs_.size(); ++in) {
      const ArrayMemory input = ArrayMemory::Of(inputs_[in]);
      if (!output.Overlaps(input)) continue;
      if (!output.IsSame(input) || !may_replace(in, out)) {
        throw InvalidArgument(name_, ": output ", property.ListOutputs()[out],
                              " shares memory with input ", names[in],
                              ", over which the operator cannot work");
      }
      if (request == kWriteTo) request = kWriteInplace;
    }
    requests_.push_back(request);
  }
  requests_.insert(requests_.end(), mutated_.size(), kWriteInplace);
}

void Call::ListVariables() {
  for (const int mutated : mutated_) {
    Variable* const var = inputs_[static_cast<size_t>(mutated)].var();
    AddOnce(var, &writes_);
    AddOnce(var, &kept_);
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    AddOnce(outputs_[i].var(), &writes_);
    if (requests_[i] != kWriteTo || ArrayMemory::Of(outputs_[i]).IsPart()) {
      AddOnce(outputs_[i].var(), &kept_);
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (IsMutated(i)) continue;
    Variable* const var = inputs_[i].var();
    AddOnce(var, Contains(writes_, var) ? &kept_ : &reads_);
  }
  for (Variable* const var : call_->resource_vars()) AddOnce(var, &writes_);
}

void Call::Run(const RunContext& context, bool is_train) {
  // The engine names a variable once, as written, and assumes that a write replaces everything.
  // Errors of earlier operations must therefore be checked here.
  for (Variable* const var : kept_) context.engine->Throw(var);
  // The first run may allocate the memory.
  if (!call_->has_memory()) call_->SetMemory(Blobs(inputs_), Blobs(outputs_));
  RunOnDevice(device_, [&](void* stream) { call_->Run({.is_train = is_train}, stream); });
}

/// Pushes a call once, and returns its visible outputs.
std::vector<NDArray> RunOnce(std::string_view op, std::span<const NDArray> inputs,
                             std::span<const NDArray> outputs, const ParameterMap& parameters,
                             OpReqType req) {
  const std::shared_ptr<const OperatorProperty> property =
      OperatorRegistry::Get().FindOrCreate(op, parameters);
  const auto call = std::make_shared<Call>(*property, inputs, outputs, req);
  Engine::Get()->PushSync(
      [call](const RunContext& context) { call->Run(context, /*is_train=*/false); }, Device::Cpu(),
      call->reads(), call->writes(), {.name = call->name()});
  std::vector<NDArray> results = call->outputs();
  results.resize(static_cast<size_t>(property->NumVisibleOutputs()));
  return results;
}

}  // namespace

std::vector<NDArray> Invoke(std::string_view op, std::span<const NDArray> inputs,
                            const ParameterMap& parameters) {
  return RunOnce(op, inputs, {}, parameters, kWriteTo);
}

void Invoke(std::string_view op, std::span<const NDArray> inputs, std::span<const NDArray> outputs,
            const ParameterMap& parameters, OpReqType req) {
  if (outputs.empty()) throw InvalidArgument(op, ": no outputs given");
  RunOnce(op, inputs, outputs, parameters, req);
}

struct BoundOperator::State {
  State(const OperatorProperty& property, std::span<const NDArray> inputs,
        std::span<const NDArray> outputs, OpReqType req)
      : call(std::make_shared<Call>(property, inputs, outputs, req)) {
    inference = NewOperator(/*is_train=*/false);
    try {
      training = NewOperator(/*is_train=*/true);
    } catch (...) {
      engine->DeleteOperator(inference);
      throw;
    }
  }
  ~State() {
    try {
      engine->DeleteOperator(inference);
      engine->DeleteOperator(training);
    } catch (...) {
      // The engine accepts no more work, because the process is ending.
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  EngineOperator* NewOperator(bool is_train) const {
    return engine->NewOperator(SyncFn([call = call, is_train](const RunContext& context) {
                                 call->Run(context, is_train);
                               }),
                               call->reads(), call->writes(), {.name = call->name()});
  }

  // The child of a fork has another default engine. This one then says that it is of the parent.
  Engine* const engine = Engine::Get();
  // The engine's operators share the call, which therefore outlives pushed runs.
  const std::shared_ptr<Call> call;
  EngineOperator* inference = nullptr;
  EngineOperator* training = nullptr;
};

BoundOperator::BoundOperator(const OperatorProperty& property, std::span<const NDArray> inputs,
                             std::span<const NDArray> outputs, OpReqType req) {
  if (outputs.empty()) throw InvalidArgument(property.TypeString(), ": no outputs given");
  state_ = std::make_shared<State>(property, inputs, outputs, req);
}

BoundOperator::~BoundOperator() = default;
BoundOperator::BoundOperator(BoundOperator&&) noexcept = default;
BoundOperator& BoundOperator::operator=(BoundOperator&&) noexcept = default;

void BoundOperator::Run(bool is_train, int priority) const {
  if (state_ == nullptr) throw FailedPrecondition("BoundOperator::Run: moved from");
  state_->engine->Push(is_train ? state_->training : state_->inference, Device::Cpu(), priority);
}

}  // namespace tessera
