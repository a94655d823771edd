#include "tessera/ndarray/call/push_call.h"

#include <utility>

#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd/tape.h"
#include "tessera/ndarray/call/sparse_call.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera::ndarray_internal {
namespace {

using Blobs = absl::InlinedVector<TBlob, 4>;

Blobs BlobsOf(const CallArrays& arrays) {
  Blobs blobs;
  for (const NDArray& array : arrays) {
    blobs.push_back(array.is_none() ? TBlob() : ArrayAccess::Data(array));
  }
  return blobs;
}

}  // namespace

void ArrayCall::Run(CallMode run_mode) const {
  const Blobs input_blobs = BlobsOf(inputs), output_blobs = BlobsOf(outputs);
  RunOnDevice(device,
              [&](void* stream) { call->Run(run_mode, stream, input_blobs, output_blobs); });
}

CallVariables::CallVariables(const ArrayCall& call, std::span<const OpReqType> requests,
                             std::span<const int> mutated) {
  for (const int input : mutated) {
    updates.push_back(ArrayAccess::Var(call.inputs[static_cast<size_t>(input)]));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].is_none()) continue;
    const ArrayMemory memory = ArrayAccess::Memory(call.outputs[i]);
    (requests[i] != kWriteTo || memory.IsPart() ? updates : writes).push_back(memory.var);
  }
  for (const NDArray& input : call.inputs) reads.push_back(ArrayAccess::Var(input));
  for (Variable* const var : call.call->resource_vars()) writes.push_back(var);
}

void PushCall(ArrayCall call, std::span<const OpReqType> requests, std::span<const int> mutated) {
  const CallVariables variables(call, requests, mutated);
  const std::string& name = call.call->op_name();
  const FnProperty property = call.call->fn_property();
  Engine::Get()->PushSync(
      [call = std::move(call)](const RunContext&) { call.Run(call.mode); }, Device::Cpu(),
      variables.reads, variables.writes,
      {.property = property, .name = name, .updates = variables.updates, .merge_duplicates = true});
}

namespace {

/// Returns the device of a call's new arrays: the first input's, whose number the host ignores.
/// `outputs` are the caller's.
Device OutputDevice(const CallPlan& plan, std::span<const NDArray> inputs,
                    std::span<const NDArray> outputs) {
  if (inputs.empty()) return outputs.empty() ? plan.created_on() : plan.signature().device;
  const Device device = inputs[0].device();
  return device.type == DeviceType::kCpu ? device : plan.signature().device;
}

}  // namespace

std::vector<NDArray> CallOperator(const std::shared_ptr<const CallPlan>& plan,
                                  std::span<const NDArray> inputs, std::span<const NDArray> outputs,
                                  OpReqType req) {
  if (auto results = CallSparse(plan, inputs, outputs, req)) return std::move(*results);
  const bool records = ShouldRecord(inputs);
  RequireOffTape(plan->name(), outputs);
  const CallSignature& signature = plan->signature();
  ArrayCall call{.plan = plan,
                 .call = nullptr,
                 .device = signature.device,
                 .mode = {.is_train = Modes().training, .needs_gradient = records},
                 .inputs = {inputs.begin(), inputs.end()},
                 .outputs = {outputs.begin(), outputs.end()}};
  const Device device = OutputDevice(*plan, inputs, outputs);
  for (size_t i = outputs.size(); i < plan->num_outputs(); ++i) {
    call.outputs.emplace_back(signature.out_shape[i], device, signature.out_type[i],
                              /*delay_alloc=*/true, plan->name());
  }
  std::vector<NDArray> results(call.outputs.begin(), call.outputs.end());
  const CallMode mode = call.mode;
  if (outputs.empty() && plan->mutated().empty()) {
    call.call = &plan->Call(plan->write_requests());
    PushCall(std::move(call), plan->write_requests(), {});
  } else {
    const std::vector<OpReqType> requests = plan->Requests(inputs, results, outputs.size(), req);
    call.call = &plan->Call(requests);
    PushCall(std::move(call), requests, plan->mutated());
  }
  if (records) RecordOperator(plan, mode, inputs, results);
  results.resize(plan->num_visible_outputs());
  return results;
}

}  // namespace tessera::ndarray_internal
