#include "tessera/ndarray/autograd.h"

#include <utility>

#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd/tape.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/recorded_function.h"

namespace tessera {
namespace autograd {

using ndarray_internal::ArrayAccess;
using ndarray_internal::Modes;

bool IsRecording() { return Modes().recording; }
bool IsTraining() { return Modes().training; }
bool SetRecording(bool recording) { return std::exchange(Modes().recording, recording); }
bool SetTraining(bool training) { return std::exchange(Modes().training, training); }

Scope::Scope(std::optional<bool> recording, std::optional<bool> training)
    : recording_(IsRecording()), training_(IsTraining()) {
  if (recording) SetRecording(*recording);
  if (training) SetTraining(*training);
}

Scope::~Scope() {
  SetRecording(recording_);
  SetTraining(training_);
}

void MarkVariables(std::span<const NDArray> variables, std::span<const NDArray> gradients,
                   std::span<const OpReqType> requests) {
  if (gradients.size() != variables.size() || requests.size() != variables.size()) {
    throw InvalidArgument("autograd::MarkVariables: ", variables.size(), " variables, ",
                          gradients.size(), " gradients and ", requests.size(),
                          " requests were given; expected as many of each");
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].is_none()) {
      throw InvalidArgument("autograd::MarkVariables: variable ", i, " is no array (is_none())");
    }
    if (requests[i] == kNullOp) continue;
    if (gradients[i].is_none()) {
      throw InvalidArgument("autograd::MarkVariables: gradient ", i, " is no array (is_none())");
    }
    if (gradients[i].shape() != variables[i].shape() ||
        gradients[i].dtype() != variables[i].dtype()) {
      throw InvalidArgument("autograd::MarkVariables: gradient ", i, " is ", gradients[i].shape(),
                            " of ", gradients[i].dtype(), ", expected ", variables[i].shape(),
                            " of ", variables[i].dtype(), " as its variable");
    }
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    const bool wanted = requests[i] != kNullOp;
    ndarray_internal::MakeVariable(variables[i],
                                   wanted ? ArrayAccess::WithEntry(gradients[i], {}) : NDArray(),
                                   requests[i] == kWriteInplace ? kWriteTo : requests[i]);
  }
}

namespace {

class CalledFunction final : public RecordedFunction {
 public:
  CalledFunction(std::shared_ptr<Function> function, std::vector<NDArray> inputs)
      : function_(std::move(function)), name_(function_->name()) {
    for (const NDArray& input : inputs) inputs_.push_back({input.shape(), input.dtype()});
  }

  const std::string& name() const override { return name_; }

  void Backward(std::span<const NDArray> out_grads, std::span<const OpReqType> req,
                std::span<const NDArray> in_grads, bool /*is_last*/) override {
    const std::vector<NDArray> gradients =
        function_->Backward({out_grads.begin(), out_grads.end()});
    if (gradients.size() != inputs_.size()) {
      throw InvalidArgument(name_, ": Backward returned ", gradients.size(),
                            " gradients, expected ", inputs_.size(), ", one for each input");
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (req[i] == kNullOp) continue;
      NDArray target = in_grads[i];
      if (gradients[i].is_none()) {
        if (req[i] != kAddTo) target = 0.0f;
        continue;
      }
      if (gradients[i].shape() != inputs_[i].first || gradients[i].dtype() != inputs_[i].second) {
        throw InvalidArgument(name_, ": Backward returned gradient ", i, " of shape ",
                              gradients[i].shape(), " of ", gradients[i].dtype(), ", expected ",
                              inputs_[i].first, " of ", inputs_[i].second);
      }
      Invoke("_copy", {&gradients[i], 1}, {&target, 1}, {}, req[i]);
    }
  }

 private:
  const std::shared_ptr<Function> function_;
  const std::string name_;
  std::vector<std::pair<TShape, DType>> inputs_;
};

}  // namespace

std::vector<NDArray> Call(std::shared_ptr<Function> function, const std::vector<NDArray>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_none()) {
      throw InvalidArgument(function->name(), ": input ", i, " is no array (is_none())");
    }
  }
  std::vector<NDArray> outputs;
  {
    const Pause pause(IsTraining());
    outputs = function->Forward(inputs);
  }
  if (!ShouldRecord(inputs) || outputs.empty()) return outputs;
  // An input that is returned as it is becomes another array, with another place on the tape.
  for (NDArray& output : outputs) output = output.Detach();
  RecordCall(std::make_shared<CalledFunction>(std::move(function), inputs), inputs, outputs);
  return outputs;
}

bool IsGradientFresh(const NDArray& variable) {
  const ndarray_internal::RecordedNode* const node = ndarray_internal::NodeOf(variable);
  return node != nullptr && node->gradient_is_fresh;
}

void SetGradientFresh(const NDArray& variable, bool fresh) {
  ndarray_internal::RecordedNode* const node = ndarray_internal::NodeOf(variable);
  if (node == nullptr || !node->is_variable()) {
    throw FailedPrecondition(
        "autograd::SetGradientFresh: the array has no gradient; expected "
        "AttachGrad before");
  }
  node->gradient_is_fresh = fresh;
}

}  // namespace autograd

NDArray NDArray::Detach() const {
  RequireBody("Detach");
  // In a traced call, the value depends on the inputs, although the gradient does not.
  if (ndarray_internal::IsTracing() && ndarray_internal::NodeOf(*this) != nullptr) {
    return Invoke("BlockGrad", {this, 1})[0];
  }
  return ndarray_internal::ArrayAccess::WithEntry(*this, {});
}

void NDArray::AttachGrad(OpReqType req) {
  RequireBody("AttachGrad");
  NDArray gradient;
  if (req != kNullOp) {
    gradient = NDArray(shape(), device(), dtype());
    gradient = 0.0f;
  }
  autograd::MarkVariables({this, 1}, {&gradient, 1}, {&req, 1});
}

NDArray NDArray::grad() const {
  RequireBody("grad");
  const ndarray_internal::RecordedNode* const node = ndarray_internal::NodeOf(*this);
  return node == nullptr ? NDArray() : node->gradient;
}

void NDArray::Backward(const NDArray& head_grad, autograd::BackwardOptions options) const {
  RequireBody("Backward");
  const std::span<const NDArray> head_grads =
      head_grad.is_none() ? std::span<const NDArray>() : std::span<const NDArray>(&head_grad, 1);
  autograd::Backward({this, 1}, head_grads, options);
}

}  // namespace tessera
