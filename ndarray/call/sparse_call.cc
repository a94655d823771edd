#include "tessera/ndarray/call/sparse_call.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/graph/backward_property.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/autograd/tape.h"
#include "tessera/ndarray/call/push_call.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/memory/sparse_store.h"
#include "tessera/ndarray/recorded_function.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/loops/sparse/sparse_parts.h"

namespace tessera::ndarray_internal {
namespace {

using base_internal::At;

/// The blobs of arrays in an operation, with new parts for sparse arrays that may be written.
class Blobs {
 public:
  /// Adds an array. The flags tell whether the operation may read it and whether it may write it.
  void Add(const NDArray& array, bool is_read, bool is_written) {
    if (array.is_none()) {
      blobs_.emplace_back();
      return;
    }
    SparseStore* const store = ArrayAccess::Sparse(array);
    if (store == nullptr) {
      const TBlob dense = ArrayAccess::Data(array);
      blobs_.push_back({.shape = dense.shape_, .values = dense});
      return;
    }
    blobs_.push_back(is_read ? store->Blob() : store->UncheckedBlob());
    if (!is_written) return;
    new_parts_.push_back(std::make_unique<NewSparseParts>(store));
    blobs_.back().allocator = new_parts_.back().get();
  }

  std::span<SparseBlob> blobs() { return blobs_; }

  /// Lets the arrays have the parts that were written.
  void Commit() {
    for (const auto& parts : new_parts_) parts->Commit();
  }

 private:
  std::vector<SparseBlob> blobs_;
  std::vector<std::unique_ptr<NewSparseParts>> new_parts_;
};

std::string Describe(const NDArray& array) {
  std::string text;
  const StorageType storage = StorageTypeOf(array);
  if (storage != StorageType::kDefault) text = std::string(StorageTypeName(storage)) + " ";
  return text + std::string(DTypeName(array.dtype())) + array.shape().ToString();
}

/// Runs the operation in the engine.
void Run(const BlobCall& call) {
  try {
    Blobs inputs, outputs;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const bool changes =
          std::binary_search(call.mutated.begin(), call.mutated.end(), static_cast<int>(i));
      inputs.Add(call.inputs[i], /*is_read=*/true, changes);
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      outputs.Add(call.outputs[i], /*is_read=*/call.req[i] != kWriteTo, /*is_written=*/true);
    }
    call.run(inputs.blobs(), outputs.blobs());
    inputs.Commit();
    outputs.Commit();
  } catch (const Error& error) {
    std::string where = call.name;
    const char* separator = " of ";
    for (const NDArray& input : call.inputs) {
      if (input.is_none()) continue;
      where += std::exchange(separator, ", ") + Describe(input);
    }
    throw error.WithMessage(where + ": " + error.what());
  }
}

StorageTypes TypesOf(std::span<const NDArray> arrays) {
  StorageTypes types;
  for (const NDArray& array : arrays) types.push_back(StorageTypeOf(array));
  return types;
}

bool AllDense(const StorageTypes& types) {
  return std::all_of(types.begin(), types.end(),
                     [](StorageType type) { return type == StorageType::kDefault; });
}

/// States once for each operator that it has no sparse form for its arrays, if a setting asks.
void NoteFallback(const std::string& op, std::span<const NDArray> inputs) {
  static const bool is_asked = EnvironmentBool("TESSERA_LOG_STORAGE_FALLBACK", false) ||
                               EnvironmentBool("MXNET_STORAGE_FALLBACK_LOG_VERBOSE", false);
  if (!is_asked) return;
  static std::mutex mutex;
  static auto* const noted = new std::set<std::string>();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!noted->insert(op).second) return;
  }
  std::string text = "tessera: " + op + " has no sparse form for ";
  const char* separator = "";
  for (const NDArray& input : inputs) text += std::exchange(separator, ", ") + Describe(input);
  text += "; it computes on dense copies\n";
  std::fputs(text.c_str(), stderr);
}

/// Calls the operator on dense copies of its sparse arrays, then writes sparse outputs and inputs
/// that change.
std::vector<NDArray> CallOnDense(const std::shared_ptr<const CallPlan>& plan,
                                 std::span<const NDArray> inputs, std::span<const NDArray> outputs,
                                 OpReqType req) {
  RequireOffTape(plan->name(), outputs);
  NoteFallback(plan->name(), inputs);
  std::vector<NDArray> dense;
  for (const NDArray& input : inputs) dense.push_back(AsDense(input));
  const bool converts_outputs = AnySparse(outputs);
  std::vector<NDArray> results =
      CallOperator(plan, dense, converts_outputs ? std::span<const NDArray>() : outputs,
                   converts_outputs ? kWriteTo : req);
  if (!converts_outputs && plan->mutated().empty()) return results;
  const autograd::Pause pause(autograd::IsTraining());
  for (const int changed : plan->mutated()) {
    const NDArray& input = inputs[At(changed)];
    if (ArrayAccess::Sparse(input) != nullptr) CopyFromTo(dense[At(changed)], input);
  }
  for (size_t i = 0; converts_outputs && i < std::min(results.size(), outputs.size()); ++i) {
    CopySparse(results[i].Detach(), outputs[i], req);
    if (NodeOf(results[i]) != nullptr) {
      ArrayAccess::Entry(outputs[i]) = ArrayAccess::Entry(results[i]);
    }
    results[i] = outputs[i];
  }
  return results;
}

/// Returns the outputs that the form writes: the caller's where they have the storage type, and
/// otherwise new ones.
std::vector<NDArray> OutputsFor(const CallPlan& plan, std::span<const NDArray> inputs,
                                std::span<const NDArray> given, const StorageTypes& types) {
  const CallSignature& signature = plan.signature();
  const Device device = !inputs.empty()  ? inputs[0].device()
                        : !given.empty() ? given[0].device()
                                         : plan.created_on();
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < plan.num_outputs(); ++i) {
    const bool fits = i < given.size() && StorageTypeOf(given[i]) == types[i];
    outputs.push_back(
        fits ? given[i]
        : types[i] == StorageType::kDefault
            ? NDArray(signature.out_shape[i], device, signature.out_type[i],
                      /*delay_alloc=*/true, plan.name())
            : sparse::Zeros(types[i], signature.out_shape[i], device, signature.out_type[i]));
  }
  return outputs;
}

}  // namespace

bool AnySparse(std::span<const NDArray> arrays) {
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const NDArray& array) { return ArrayAccess::Sparse(array) != nullptr; });
}

void PushBlobCall(BlobCall call) {
  std::vector<Variable*> reads, writes, updates;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i].is_none()) continue;
    const bool changes =
        std::binary_search(call.mutated.begin(), call.mutated.end(), static_cast<int>(i));
    (changes ? updates : reads).push_back(ArrayAccess::Var(call.inputs[i]));
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i].is_none()) continue;
    const ArrayMemory memory = ArrayAccess::Memory(call.outputs[i]);
    (call.req[i] != kWriteTo || memory.IsPart() ? updates : writes).push_back(memory.var);
  }
  const std::string name = call.name;
  const int priority = call.priority;
  Engine::Get()->PushSync(
      [call = std::move(call)](const RunContext&) { Run(call); }, Device::Cpu(), reads, writes,
      {.priority = priority, .name = name, .updates = updates, .merge_duplicates = true});
}

std::optional<std::vector<NDArray>> CallSparse(const std::shared_ptr<const CallPlan>& plan,
                                               std::span<const NDArray> inputs,
                                               std::span<const NDArray> outputs, OpReqType req) {
  const bool any = AnySparse(inputs) || AnySparse(outputs);
  if (!any && !plan->makes_sparse()) return std::nullopt;
  const SparseForm* const form = plan->sparse_form();
  std::optional<StorageTypes> types;
  if (form != nullptr) {
    StorageTypes wanted = TypesOf(outputs);
    wanted.resize(plan->num_outputs(), StorageType::kUndefined);
    types = form->Infer(*plan->property(), TypesOf(inputs), wanted);
    for (size_t i = 0; any && types && i < types->size(); ++i) {
      const bool is_matrix = plan->signature().out_shape[i].ndim() == 2;
      if ((*types)[i] == StorageType::kCsr && !is_matrix) types = std::nullopt;
    }
  }
  if (!any && (!types || AllDense(*types))) return std::nullopt;
  if (!types) return CallOnDense(plan, inputs, outputs, req);

  const bool records = ShouldRecord(inputs);
  RequireOffTape(plan->name(), outputs);
  std::vector<NDArray> written = OutputsFor(*plan, inputs, outputs, *types);
  const auto is_given = [&](size_t i) {
    return i < outputs.size() && StorageTypeOf(outputs[i]) == (*types)[i];
  };
  size_t num_given = outputs.size();
  // What is converted or added afterwards is computed in a new array.
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_given(i) || (req == kAddTo && (*types)[i] != StorageType::kDefault)) num_given = 0;
  }
  if (num_given == 0) written = OutputsFor(*plan, inputs, {}, *types);
  BlobCall call{.name = plan->name(),
                .inputs = {inputs.begin(), inputs.end()},
                .mutated = plan->mutated(),
                .outputs = written,
                .req = plan->Requests(inputs, written, num_given, req)};
  call.run = [plan, form, requests = call.req](std::span<SparseBlob> in,
                                               std::span<SparseBlob> out) {
    form->Forward(*plan->property(), in, requests, out);
  };
  PushBlobCall(std::move(call));
  for (size_t i = 0; num_given == 0 && i < outputs.size(); ++i) {
    CopySparse(written[i], outputs[i], req);
    written[i] = outputs[i];
  }
  if (records) {
    RecordOperator(plan, {.is_train = Modes().training, .needs_gradient = true}, inputs, written);
  }
  written.resize(plan->num_visible_outputs());
  return written;
}

std::optional<std::vector<NDArray>> CallSparseBackward(const CallPlan& plan,
                                                       std::span<const NDArray> inputs,
                                                       std::span<const StorageType> targets,
                                                       std::span<const OpReqType> req) {
  const SparseForm* const form = plan.sparse_form();
  if (form == nullptr) return std::nullopt;
  using graph::BackwardProperty;
  const BackwardProperty backward(plan.property());
  StorageTypes out_grad(plan.num_outputs(), StorageType::kUndefined), out_data = out_grad;
  StorageTypes in_data(plan.num_inputs(), StorageType::kUndefined);
  const std::vector<BackwardProperty::Source> sources = backward.sources();
  for (size_t i = 0; i < sources.size(); ++i) {
    StorageTypes& types = sources[i].role == BackwardProperty::Role::kOutGrad  ? out_grad
                          : sources[i].role == BackwardProperty::Role::kInData ? in_data
                                                                               : out_data;
    types[At(sources[i].index)] = StorageTypeOf(inputs[i]);
  }
  const std::optional<StorageTypes> types = form->InferBackward(
      *plan.property(),
      {.out_grad = out_grad, .in_data = in_data, .out_data = out_data, .in_grad = targets});
  if (!types || (AllDense(*types) && !AnySparse(inputs))) return std::nullopt;
  const CallSignature& signature = plan.signature();
  std::vector<NDArray> gradients;
  std::vector<OpReqType> requests;
  for (size_t i = 0; i < plan.num_inputs(); ++i) {
    const bool is_wanted = req[i] != kNullOp;
    requests.push_back(is_wanted ? kWriteTo : kNullOp);
    gradients.push_back(!is_wanted ? NDArray()
                        : (*types)[i] == StorageType::kDefault
                            ? NDArray(signature.in_shape[i], signature.device, signature.in_type[i],
                                      /*delay_alloc=*/true, "gradient")
                            : sparse::Zeros((*types)[i], signature.in_shape[i], signature.device,
                                            signature.in_type[i]));
  }
  const size_t num_inputs = plan.num_inputs(), num_outputs = plan.num_outputs();
  PushBlobCall({.name = "_backward_" + plan.name(),
                .inputs = {inputs.begin(), inputs.end()},
                .outputs = gradients,
                .req = requests,
                .run = [property = plan.property(), form, sources, num_inputs, num_outputs,
                        requests](std::span<SparseBlob> in, std::span<SparseBlob> out) {
                  std::vector<SparseBlob> head(num_outputs), data(num_inputs), value(num_outputs);
                  for (size_t i = 0; i < sources.size(); ++i) {
                    std::vector<SparseBlob>& list =
                        sources[i].role == BackwardProperty::Role::kOutGrad  ? head
                        : sources[i].role == BackwardProperty::Role::kInData ? data
                                                                             : value;
                    list[At(sources[i].index)] = in[i];
                  }
                  form->Backward(*property, {.out_grad = head, .in_data = data, .out_data = value},
                                 requests, out);
                }});
  return gradients;
}

NDArray AsDense(const NDArray& array) {
  return ArrayAccess::Sparse(array) == nullptr ? array : sparse::Cast(array, StorageType::kDefault);
}

void CopySparse(const NDArray& from, const NDArray& to, OpReqType req, int priority) {
  const StorageType source = StorageTypeOf(from), target = StorageTypeOf(to);
  if (source == StorageType::kDefault && target == StorageType::kDefault) {
    Invoke("_copy", {&from, 1}, {&to, 1}, {}, req);
    return;
  }
  if (!ops_internal::CanCopyParts(source, target)) {
    CopySparse(AsDense(from.Detach()), to, req, priority);
    return;
  }
  PushBlobCall({.name = "CopyFromTo",
                .inputs = {from},
                .outputs = {to},
                .req = {req},
                .priority = priority,
                .run = [req](std::span<SparseBlob> in, std::span<SparseBlob> out) {
                  ops_internal::CopyParts(in[0], req, &out[0]);
                }});
}

void FillSparse(const NDArray& array, const Number& value) {
  const bool is_zero = value == Number(0);
  if (!is_zero && StorageTypeOf(array) != StorageType::kRowSparse) {
    throw Unimplemented("NDArray::operator=: ", StorageTypeOf(array), " array of shape ",
                        array.shape(), ": expected 0, for which nothing is stored");
  }
  PushBlobCall({.name = "NDArray::operator=",
                .inputs = {},
                .outputs = {array},
                .req = {kWriteTo},
                .run = [is_zero, value](std::span<SparseBlob>, std::span<SparseBlob> out) {
                  SparseBlob& to = out[0];
                  if (is_zero) return ops_internal::ClearParts(&to);
                  to.Allocate(to.shape[0]);
                  std::iota(to.indices.begin(), to.indices.end(), int64_t{0});
                  VisitDType(to.values.type_flag_, [&](auto tag) {
                    using T = typename decltype(tag)::type;
                    std::fill_n(to.values.template dptr<T>(), to.values.Size(), value.Element<T>());
                  });
                }});
}

}  // namespace tessera::ndarray_internal
