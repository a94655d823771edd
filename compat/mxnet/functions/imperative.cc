// Calls of operators on arrays. Functions of MXNet's C API; see types.h.
#include "tessera/ndarray/imperative.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/failed_draws.h"
#include "tessera/compat/mxnet/core/image_calls.h"
#include "tessera/compat/mxnet/core/operators.h"
#include "tessera/compat/mxnet/core/shapes_by_values.h"
#include "tessera/compat/mxnet/quirks/quirks.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/overlaps.h"
#include "tessera/ndarray/recorded_function.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/registry.h"

namespace tessera::mxnet {
namespace {

using ndarray_internal::ArrayAccess;
using ndarray_internal::ArrayMemory;
using ndarray_internal::Overlaps;

/// A call as the client has written it.
struct Call {
  const ApiOperator& op;
  std::vector<NDArray> inputs;
  ParameterMap parameters;

  std::shared_ptr<const OperatorProperty> property() const {
    return OperatorRegistry::Get().FindOrCreate(op.name, parameters);
  }
};

/// Returns the output of an operator without inputs whose parameter shape is () or has an extent of
/// 0: with NumPy's shapes these are the output's extents, and unknown otherwise. Returns nothing
/// for other calls.
std::optional<NDArray> CreatedWithNumpyShape(const Call& call) {
  if (!NumpyShape() || !call.inputs.empty()) return std::nullopt;
  const auto text = call.parameters.find("shape");
  if (text == call.parameters.end()) return std::nullopt;
  const TShape shape = TShape::Parse(text->second);
  const bool is_special = shape.ndim() == 0 || (shape.known() && shape.Size() == 0);
  if (!is_special) return std::nullopt;
  const auto property = call.property();
  std::vector<DType> none, type(1, DType::kUnknown);
  if (property->ListOutputs().size() != 1 || !property->InferType(&none, &type)) {
    return std::nullopt;
  }
  const auto context = call.parameters.find("ctx");
  const Device device =
      context == call.parameters.end() ? Device() : Device::Parse(context->second);
  return NDArray(shape, device, type[0], /*delay_alloc=*/true, call.op.name);
}

/// Returns the operator that draws the same numbers with parameters of the distribution that it
/// accepts. Throws `error`, that of the given parameters, unless it belongs to the wait.
std::shared_ptr<const OperatorProperty> DrawOfAnyNumbers(const Call& call, const Error& error) {
  const OperatorEntry* const entry = OperatorRegistry::Get().Find(call.op.name);
  if (error.code() != Error::kInvalidArgument || entry == nullptr ||
      !call.op.quirks.Has(Quirk::kFailsAtWait)) {
    throw error;
  }
  ParameterMap parameters;
  for (const char* const name : {"shape", "ctx", "dtype"}) {
    const auto given = call.parameters.find(name);
    if (given != call.parameters.end()) parameters.insert(*given);
  }
  for (const ParameterInfo& info : entry->describe_parameters()) {
    if (info.required) parameters.emplace(info.name, info.name == "high" ? "1" : "0");
  }
  return OperatorRegistry::Get().FindOrCreate(call.op.name, parameters);
}

/// Returns the output of a draw. Throws `error` if shape and type are not known.
NDArray OutputOfDraw(const OperatorProperty& property, std::span<const NDArray> inputs,
                     const Error& error) {
  std::vector<TShape> in_shape, out_shape(1);
  std::vector<DType> in_type, out_type(1, DType::kUnknown);
  for (const NDArray& input : inputs) {
    in_shape.push_back(input.shape());
    in_type.push_back(input.dtype());
  }
  if (inputs.size() != property.ListArguments().size() ||
      !property.InferShape(&in_shape, &out_shape) || !property.InferType(&in_type, &out_type)) {
    throw error;
  }
  return NDArray(out_shape[0], Device::Cpu(), out_type[0], /*delay_alloc=*/true);
}

/// Lets a draw whose distribution does not exist, such as one of a negative variance, throw `error`
/// at the wait for its output: MXNet checks the numbers while it draws, and its clients expect the
/// error there. Throws the errors of other calls at once. `given` are the client's outputs.
std::vector<NDArray> FailAtWait(const Call& call, std::span<const NDArray> given,
                                const Error& error) {
  const auto property = DrawOfAnyNumbers(call, error);
  const NDArray output = given.empty() ? OutputOfDraw(*property, call.inputs, error) : given[0];
  Variable* const chain[] = {FailedDraws()};
  Engine::Get()->PushSync([error](const RunContext&) { throw error; }, Device::Cpu(), {},
                          {output.var()}, {.name = call.op.name, .updates = chain});
  return {output};
}

std::vector<NDArray> ComputeNew(const Call& call) {
  try {
    if (std::optional<NDArray> output = CreatedWithNumpyShape(call)) {
      Invoke(call.op.name, {}, {&*output, 1}, call.parameters);
      return {*output};
    }
    if (auto results = InvokeByValues(call.op, call.inputs, call.parameters)) return *results;
    if (call.op.quirks.Has(Quirk::kImageCall)) {
      return {InvokeImageCall(call.op, call.inputs, call.parameters)};
    }
    return Invoke(call.op.name, call.inputs, call.parameters);
  } catch (const Error& error) {
    return FailAtWait(call, {}, error);
  }
}

/// Replaces inputs by copies that share memory with an output, unless the operator works in place
/// there or changes the input.
void CopyOverlapping(std::span<const NDArray> outputs, Call* call) {
  std::set<std::pair<int, int>> in_place;
  std::vector<int> mutated;
  bool is_known = false;
  const auto learn = [&] {
    if (std::exchange(is_known, true)) return;
    const auto property = call->property();
    std::vector<int> in(call->inputs.size()), out(property->ListOutputs().size());
    std::iota(in.begin(), in.end(), 0);
    std::iota(out.begin(), out.end(), 0);
    if (in.size() == property->ListArguments().size()) {
      for (const auto& [source, target] : property->ForwardInplaceOption(in, out)) {
        in_place.emplace(source, target);
      }
    }
    mutated = property->MutatedInputs();
  };
  const Overlaps written(outputs);
  for (size_t i = 0; i < call->inputs.size(); ++i) {
    NDArray& input = call->inputs[i];
    if (input.is_none()) continue;
    const int position = static_cast<int>(i);
    const ArrayMemory memory = ArrayAccess::Memory(input);
    bool is_lost = false;
    written.ForEach(memory, [&](size_t k) {
      learn();
      const bool is_kept = (memory.IsSame(ArrayAccess::Memory(outputs[k])) &&
                            in_place.contains({position, static_cast<int>(k)})) ||
                           std::binary_search(mutated.begin(), mutated.end(), position);
      is_lost |= !is_kept;
    });
    if (is_lost) input = input.Copy(input.device());
  }
}

/// Throws if the tape would lose a value that the call overwrites.
void RefuseInPlaceWhileRecording(std::span<const NDArray> outputs, const Call& call) {
  if (!autograd::IsRecording() || !ShouldRecord(call.inputs)) return;
  const Overlaps written(outputs);
  for (const NDArray& input : call.inputs) {
    if (input.is_none() || !written.Any(ArrayAccess::Memory(input))) continue;
    // Clients look for these words.
    throw FailedPrecondition(call.op.name,
                             ": Inplace operations (+=, -=, x[:]=, etc) are not supported when "
                             "recording with autograd; expected a new array for the result");
  }
}

/// Computes into the client's arrays. Those that are none become the results.
void ComputeInto(Call call, std::span<const NDArrayHandle> handles) {
  std::vector<std::shared_ptr<NDArray>> targets;
  std::vector<NDArray> outputs;
  // An image's shape is known when the call has been computed.
  bool is_copied = call.op.quirks.Has(Quirk::kImageCall);
  for (const NDArrayHandle handle : handles) {
    targets.push_back(Arrays().Get(handle));
    outputs.push_back(*targets.back());
    is_copied |= outputs.back().is_none();
  }
  if (is_copied) {
    const std::vector<NDArray> made = ComputeNew(call);
    for (size_t i = 0; i < targets.size() && i < made.size(); ++i) {
      if (targets[i]->is_none()) {
        Arrays().Replace(handles[i], targets[i], made[i]);
      } else {
        CopyFromTo(made[i], *targets[i]);
      }
    }
    return;
  }
  RefuseInPlaceWhileRecording(outputs, call);
  CopyOverlapping(outputs, &call);
  try {
    Invoke(call.op.name, call.inputs, outputs, call.parameters);
  } catch (const Error& error) {
    FailAtWait(call, outputs, error);
  }
}

/// Returns the storage types of the arrays array_at(0), array_at(1), …, in memory that lives as
/// long as the process or until the thread's next call.
template <typename ArrayAt>
const int* StorageTypesOf(size_t count, const ArrayAt& array_at) {
  static constexpr int kDense[64] = {};
  size_t num_dense = 0;
  while (num_dense < count && StorageTypeOf(array_at(num_dense)) == StorageType::kDefault) {
    ++num_dense;
  }
  if (num_dense == count && count <= std::size(kDense)) return kDense;
  std::vector<int> types;
  for (size_t i = 0; i < count; ++i) {
    types.push_back(static_cast<int>(StorageTypeOf(array_at(i))));
  }
  return Results::OfThread().Keep(std::move(types));
}

/// Throws for an input without elements if the operator needs some.
void RefuseNoElements(const Call& call) {
  if (!call.op.quirks.Has(Quirk::kNeedsElements)) return;
  if (call.inputs.size() != 1 || call.inputs[0].is_none()) return;
  const TShape& shape = call.inputs[0].shape();
  if (shape.Size() != 0) return;
  throw InvalidArgument(call.op.name, ": an array of shape ", shape,
                        " has no elements; expected one at least");
}

void InvokeOperator(const void* creator, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                    NDArrayHandle** outputs, int num_params, const char** param_keys,
                    const char** param_vals, const int** out_stypes) {
  const ApiOperator& op = OperatorOf(creator);
  NotNull(num_outputs, "num_outputs");
  NotNull(outputs, "outputs");
  if (num_inputs < 0 || num_params < 0 || *num_outputs < 0) {
    throw InvalidArgument(op.name, ": the number of inputs, outputs or parameters is negative");
  }
  Call call = {.op = op,
               .inputs = ArraysOf(inputs, static_cast<size_t>(num_inputs), "inputs"),
               .parameters = ParametersOf(static_cast<size_t>(num_params), param_keys, param_vals)};
  // Attributes of nodes, which mean nothing to a call.
  std::erase_if(call.parameters, [&op](const auto& parameter) {
    return !op.takes_parameters ||
           (parameter.first.starts_with("__") && parameter.first.ends_with("__"));
  });
  if (!op.key_var_num_args.empty()) {
    call.parameters.try_emplace(op.key_var_num_args, std::to_string(num_inputs));
  }
  RefuseNoElements(call);
  if (*outputs == nullptr || *num_outputs == 0) {
    const std::vector<NDArray> made = ComputeNew(call);
    *num_outputs = static_cast<int>(made.size());
    *outputs = KeepHandles(made);
    if (out_stypes != nullptr) {
      *out_stypes =
          StorageTypesOf(made.size(), [&](size_t i) -> const NDArray& { return made[i]; });
    }
    return;
  }
  const std::span<const NDArrayHandle> handles(*outputs, static_cast<size_t>(*num_outputs));
  ComputeInto(std::move(call), handles);
  if (out_stypes != nullptr) {
    *out_stypes = StorageTypesOf(handles.size(), [&](size_t i) { return ArrayOf(handles[i]); });
  }
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXImperativeInvoke(AtomicSymbolCreator creator, int num_inputs,
                                         NDArrayHandle* inputs, int* num_outputs,
                                         NDArrayHandle** outputs, int num_params,
                                         const char** param_keys, const char** param_vals) {
  return ApiCall([&] {
    InvokeOperator(creator, num_inputs, inputs, num_outputs, outputs, num_params, param_keys,
                   param_vals, nullptr);
  });
}

TESSERA_MXNET_API int MXImperativeInvokeEx(AtomicSymbolCreator creator, int num_inputs,
                                           NDArrayHandle* inputs, int* num_outputs,
                                           NDArrayHandle** outputs, int num_params,
                                           const char** param_keys, const char** param_vals,
                                           const int** out_stypes) {
  return ApiCall([&] {
    InvokeOperator(creator, num_inputs, inputs, num_outputs, outputs, num_params, param_keys,
                   param_vals, out_stypes);
  });
}
