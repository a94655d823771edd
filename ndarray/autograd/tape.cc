#include "tessera/ndarray/autograd/tape.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"

namespace tessera {
namespace ndarray_internal {
namespace {

/// The property of a recorded call that no operator of the registry makes. Its inputs and outputs
/// are numbered, and its gradient reads the outputs' gradients alone.
class FunctionProperty final : public OperatorProperty {
 public:
  FunctionProperty(std::string name, size_t num_inputs, size_t num_outputs, bool has_gradient)
      : name_(std::move(name)),
        num_inputs_(num_inputs),
        num_outputs_(num_outputs),
        has_gradient_(has_gradient) {}

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  std::vector<std::string> ListArguments() const override { return Names("input", num_inputs_); }
  std::vector<std::string> ListOutputs() const override { return Names("output", num_outputs_); }
  bool InferShape(std::vector<TShape>*, std::vector<TShape>*) const override { return false; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad.begin(), out_grad.end()};
  }
  bool HasGradient() const override { return has_gradient_; }
  const std::string& TypeString() const override { return name_; }

 private:
  static std::vector<std::string> Names(const std::string& prefix, size_t count) {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
    return names;
  }

  const std::string name_;
  const size_t num_inputs_;
  const size_t num_outputs_;
  const bool has_gradient_;
};

std::shared_ptr<const CallSignature> SignatureOf(std::span<const NDArray> inputs,
                                                 std::span<const NDArray> outputs) {
  auto signature = std::make_shared<CallSignature>();
  signature->device = (outputs.empty() ? inputs : outputs)[0].device();
  for (const NDArray& input : inputs) {
    signature->in_shape.push_back(input.shape());
    signature->in_type.push_back(input.dtype());
  }
  for (const NDArray& output : outputs) {
    signature->out_shape.push_back(output.shape());
    signature->out_type.push_back(output.dtype());
  }
  return signature;
}

/// Returns the array's value on the tape; of an array that is not on it, a variable without
/// gradient, whose value only a trace reads.
graph::NodeEntry EntryOrConstant(const NDArray& array) {
  if (NodeOf(array) != nullptr) return ArrayAccess::Entry(array);
  return {IsTracing() ? NewVariableNode(array) : std::make_shared<RecordedNode>(), 0};
}

void SetEntries(const std::shared_ptr<RecordedNode>& node, std::span<const NDArray> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    ArrayAccess::Entry(outputs[i]) = {node, static_cast<int>(i)};
  }
}

std::shared_ptr<RecordedNode> NewCallNode(std::shared_ptr<const OperatorProperty> property,
                                          std::span<const NDArray> inputs) {
  auto node = std::make_shared<RecordedNode>();
  node->property = std::move(property);
  node->inputs.reserve(inputs.size());
  for (const NDArray& input : inputs) node->inputs.push_back(EntryOrConstant(input));
  if (IsTracing()) Modes().trace->calls.insert(node.get());
  return node;
}

}  // namespace

ThreadModes& Modes() {
  thread_local ThreadModes modes;
  return modes;
}

bool IsTracing() { return Modes().recording && Modes().trace != nullptr; }

std::shared_ptr<RecordedNode> NewVariableNode(const NDArray& array) {
  auto node = std::make_shared<RecordedNode>();
  node->outputs_saved = {SavedArray::Of(array)};
  return node;
}

SavedArray SavedArray::Of(const NDArray& array) {
  NDArray detached = ArrayAccess::WithEntry(array, {});
  const uint64_t version = ArrayAccess::Var(detached)->version();
  return {std::move(detached), version};
}

RecordedNode* NodeOf(const NDArray& array) {
  auto* const node = static_cast<RecordedNode*>(ArrayAccess::Entry(array).node.get());
  return node == nullptr || node->is_freed ? nullptr : node;
}

void MakeVariable(const NDArray& array, const NDArray& gradient, OpReqType req) {
  static std::atomic<int64_t> count{0};
  const std::shared_ptr<RecordedNode> node = NewVariableNode(array);
  node->name = "var" + std::to_string(count.fetch_add(1, std::memory_order_relaxed));
  node->gradient = gradient;
  node->req = req;
  ArrayAccess::Entry(array) = {node, 0};
}

void RecordOperator(const std::shared_ptr<const CallPlan>& plan, CallMode mode,
                    std::span<const NDArray> inputs, std::span<const NDArray> outputs) {
  const std::shared_ptr<RecordedNode> node = NewCallNode(plan->property(), inputs);
  node->plan = plan;
  node->signature = std::shared_ptr<const CallSignature>(plan, &plan->signature());
  node->mode = mode;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!plan->SavesInput(i)) continue;
    node->inputs_saved.resize(inputs.size());
    node->inputs_saved[i] = SavedArray::Of(inputs[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!plan->SavesOutput(i)) continue;
    node->outputs_saved.resize(outputs.size());
    node->outputs_saved[i] = SavedArray::Of(outputs[i]);
  }
  SetEntries(node, outputs);
}

void RecordBackward(const graph::Node& node, std::span<const NDArray> inputs,
                    std::span<const NDArray> outputs) {
  std::vector<NDArray> given;
  for (const NDArray& output : outputs) {
    if (!output.is_none()) given.push_back(output);
  }
  const std::shared_ptr<RecordedNode> recorded =
      NewCallNode(std::make_shared<FunctionProperty>(node.property->TypeString(), inputs.size(),
                                                     given.size(), /*has_gradient=*/false),
                  inputs);
  recorded->signature = SignatureOf(inputs, given);
  SetEntries(recorded, given);
}

void RequireOffTape(std::string_view op, std::span<const NDArray> outputs) {
  if (!Modes().recording) return;
  for (const NDArray& output : outputs) {
    if (!output.is_none() && NodeOf(output) != nullptr) {
      throw FailedPrecondition(
          op,
          ": it would overwrite an array that is on the tape; while autograd records, expected "
          "a new array for the result, or autograd::Pause around calls that work in place");
    }
  }
}

}  // namespace ndarray_internal

using ndarray_internal::IsTracing;
using ndarray_internal::Modes;
using ndarray_internal::NodeOf;

bool ShouldRecord(std::span<const NDArray> inputs) {
  if (!Modes().recording) return false;
  if (IsTracing()) return true;
  for (const NDArray& input : inputs) {
    if (NodeOf(input) != nullptr) return true;
  }
  return false;
}

void RecordCall(std::shared_ptr<RecordedFunction> function, std::span<const NDArray> inputs,
                std::span<const NDArray> outputs) {
  if (IsTracing()) {
    // Without an input on the tape, the outputs are constants.
    const auto is_off_tape = [](const NDArray& array) { return NodeOf(array) == nullptr; };
    if (std::all_of(inputs.begin(), inputs.end(), is_off_tape)) return;
    throw Unimplemented(function->name(),
                        ": it cannot be traced, because it is no operator of the registry; "
                        "expected operators alone");
  }
  ndarray_internal::RequireOffTape(function->name(), outputs);
  const auto node = ndarray_internal::NewCallNode(
      std::make_shared<ndarray_internal::FunctionProperty>(function->name(), inputs.size(),
                                                           outputs.size(), /*has_gradient=*/true),
      inputs);
  node->signature = ndarray_internal::SignatureOf(inputs, outputs);
  node->function = std::move(function);
  ndarray_internal::SetEntries(node, outputs);
}

}  // namespace tessera
