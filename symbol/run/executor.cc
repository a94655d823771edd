#include "tessera/symbol/executor.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer_storage.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/symbol/run/fixed_values.h"
#include "tessera/symbol/run/node_executor.h"
#include "tessera/symbol/run/prepared_program.h"
#include "tessera/symbol/run/step_runner.h"

namespace tessera {

using base_internal::At;
using graph::CompiledGraph;
using graph::Program;
using graph::Step;
using graph::Value;
using graph::ValueKind;
using symbol_internal::Arena;
using symbol_internal::Binding;
using symbol_internal::BoundProgram;
using symbol_internal::FixedValues;
using symbol_internal::MemoryBudget;
using symbol_internal::NodeExecutor;
using symbol_internal::PreparedInputs;
using symbol_internal::PreparedProgram;
using symbol_internal::SegmentSize;
using symbol_internal::VariableSet;

namespace {

std::map<std::string, NDArray> Dictionary(const std::vector<std::string>& names,
                                          const std::vector<NDArray>& arrays) {
  std::map<std::string, NDArray> dictionary;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!arrays[i].is_none()) dictionary.emplace(names[i], arrays[i]);
  }
  return dictionary;
}

bool IsSparse(const NDArray& array) {
  return !array.is_none() && StorageTypeOf(array) != StorageType::kDefault;
}

/// Returns an array of that shape in the first part of another one's memory, which is large enough.
NDArray FirstPart(const NDArray& array, const TShape& shape) {
  return array.Reshape(TShape{array.shape().Size()}).Slice(0, shape.Size()).Reshape(shape);
}

}  // namespace

std::map<std::string, Device> Executor::Arrays::Devices() const {
  std::map<std::string, Device> devices;
  for (size_t i = 0; i < arguments.size(); ++i) {
    devices.emplace(argument_names[i], arguments[i].device());
  }
  for (size_t i = 0; i < aux_states.size(); ++i) {
    devices.emplace(aux_names[i], aux_states[i].device());
  }
  return devices;
}

Executor::Executor(const Symbol& symbol, Placement placement, MemoryLimits limits,
                   CompiledGraph compiled, Arrays arrays, const Executor* shared,
                   const std::vector<NDArray>& outputs)
    : symbol_(symbol),
      placement_(std::move(placement)),
      limits_(limits),
      arrays_(std::move(arrays)),
      has_gradient_(std::any_of(arrays_.grad_requests.begin(), arrays_.grad_requests.end(),
                                [](OpReqType request) { return request != kNullOp; })) {
  if (BindNodes(compiled.program)) return;
  BindPlanned(ModeOf(/*is_train=*/false), std::move(compiled),
              shared == nullptr ? Arenas() : shared->Arenas(), outputs);
}

Executor::~Executor() = default;

CompiledGraph Executor::Compile(graph::CompileOptions options) const {
  options.device = placement_.device;
  options.recomputes = limits_.recomputes;
  options.groups = placement_.group2ctx;
  options.variables = arrays_.Devices();
  std::map<std::string, TShape> shapes;
  std::map<std::string, DType> types;
  const auto know = [&](const std::vector<std::string>& names, const std::vector<NDArray>& arrays) {
    for (size_t i = 0; i < names.size(); ++i) {
      shapes.emplace(names[i], arrays[i].shape());
      types.emplace(names[i], arrays[i].dtype());
    }
  };
  know(arrays_.argument_names, arrays_.arguments);
  know(arrays_.aux_names, arrays_.aux_states);
  return graph::Compile(symbol_.outputs(), shapes, types, arrays_.grad_requests, options);
}

void Executor::MakeArrays(const Program& program, const std::vector<NDArray>& outputs) {
  for (size_t i = 0; i < program.head_values.size(); ++i) {
    const Value& value = program.values[At(program.head_values[i])];
    const Device device = program.devices[At(value.device)];
    if (value.kind == ValueKind::kOutput && At(value.index) == i) {
      const bool is_reused = i < outputs.size() && !outputs[i].is_none() &&
                             outputs[i].dtype() == value.dtype && outputs[i].device() == device &&
                             outputs[i].shape().Size() >= value.shape.Size();
      outputs_.push_back(is_reused ? FirstPart(outputs[i], value.shape)
                                   : NDArray(value.shape, device, value.dtype));
    } else {
      // A variable, or an output that is listed twice, whose handles name one array.
      outputs_.push_back(ArrayOf(value));
    }
  }
  MakeHeadGradients(program);
}

void Executor::MakeHeadGradients(const Program& program) {
  head_gradients_.resize(program.head_values.size());
  for (const Value& value : program.values) {
    if (value.kind != ValueKind::kHeadGradient) continue;
    const Device device = program.devices[At(value.device)];
    const StorageType type = StorageTypeOf(outputs_[At(value.index)]);
    head_gradients_[At(value.index)] = type == StorageType::kDefault
                                           ? NDArray(value.shape, device, value.dtype)
                                           : sparse::Zeros(type, value.shape, device, value.dtype);
  }
}

bool Executor::BindNodes(const Program& program) {
  std::map<std::string, NDArray> arrays = Dictionary(arrays_.argument_names, arrays_.arguments);
  arrays.merge(Dictionary(arrays_.aux_names, arrays_.aux_states));
  std::map<std::string, StorageType> known;
  for (const auto& [name, array] : arrays) known.emplace(name, StorageTypeOf(array));
  const graph::IndexedGraph graph(symbol_.outputs());
  const graph::GraphStorage storage = graph::InferStorage(graph, known);
  const std::vector<NDArray>& gradients = arrays_.gradients;
  if (!storage.HasSparseEntry() && std::none_of(gradients.begin(), gradients.end(), IsSparse)) {
    return false;
  }
  if (!placement_.group2ctx.empty()) {
    throw Unimplemented(
        "Bind: the graph has sparse arrays and devices of groups (group2ctx); "
        "expected one device");
  }
  for (size_t i = 0; i < program.head_values.size(); ++i) {
    const Value& value = program.values[At(program.head_values[i])];
    const graph::NodeEntry& head = symbol_.outputs()[i];
    if (head.node->is_variable()) {
      outputs_.push_back(arrays.at(head.node->name));
      continue;
    }
    // A call whose csr result is no matrix computes on dense copies.
    StorageType type = storage.entries[At(graph.EntryId(head))];
    if (type == StorageType::kCsr && value.shape.ndim() != 2) type = StorageType::kDefault;
    outputs_.push_back(sparse::Zeros(type, value.shape, placement_.device, value.dtype));
  }
  MakeHeadGradients(program);
  std::map<std::string, NodeExecutor::Gradient> wanted;
  for (size_t i = 0; i < gradients.size(); ++i) {
    wanted[arrays_.argument_names[i]] = {gradients[i], arrays_.grad_requests[i]};
  }
  nodes_ = std::make_unique<NodeExecutor>(symbol_, arrays, wanted);
  return true;
}

NDArray Executor::ArrayOf(const Value& value) const {
  switch (value.kind) {
    case ValueKind::kArgument:
      return arrays_.arguments[At(value.index)];
    case ValueKind::kAuxState:
      return arrays_.aux_states[At(value.index)];
    case ValueKind::kGradient:
      return arrays_.gradients[At(value.index)];
    case ValueKind::kHeadGradient:
      return head_gradients_[At(value.index)];
    case ValueKind::kOutput:
      return outputs_[At(value.index)];
    case ValueKind::kIntermediate:
    case ValueKind::kFixed:
      break;
  }
  return NDArray();
}

std::shared_ptr<Binding> Executor::BindArrays(const PreparedProgram& program,
                                              const FixedValues* fixed) const {
  auto binding = std::make_shared<Binding>(program);
  for (int i = 0; i < program.program().num_values(); ++i) {
    const Value& value = program.program().values[At(i)];
    const NDArray array =
        value.kind == ValueKind::kFixed ? fixed->array(At(value.index)) : ArrayOf(value);
    if (!array.is_none()) binding->SetArray(i, array);
  }
  return binding;
}

std::vector<std::shared_ptr<Arena>> Executor::Arenas() const {
  std::vector<std::shared_ptr<Arena>> arenas;
  for (const auto& planned : planned_) {
    if (planned == nullptr) continue;
    const auto& own = planned->binding().arenas;
    arenas.insert(arenas.end(), own.begin(), own.end());
  }
  return arenas;
}

size_t Executor::ModeOf(bool is_train, bool single_steps) const {
  return (is_train || has_gradient_ ? 1 : 0) + (single_steps ? 2 : 0);
}

void Executor::BindPlanned(size_t mode, CompiledGraph compiled,
                           std::vector<std::shared_ptr<Arena>> reused,
                           const std::vector<NDArray>& outputs) {
  std::unique_ptr<FixedValues> fixed;
  if (!compiled.constants.empty() || !compiled.parameters.empty()) {
    std::map<std::string, NDArray> arrays = Dictionary(arrays_.argument_names, arrays_.arguments);
    arrays.merge(Dictionary(arrays_.aux_names, arrays_.aux_states));
    fixed = std::make_unique<FixedValues>(
        compiled.constants, compiled.parameters, placement_.device,
        [&arrays](const std::string& name) { return arrays.at(name); });
  }
  const auto prepared = std::make_shared<const PreparedProgram>(
      std::move(compiled.program), graph::MemorySharing::kAll, SegmentSize::kManySteps,
      MemoryBudget{limits_.budget_bytes, "Executor"});
  if (outputs_.empty()) MakeArrays(prepared->program(), outputs);
  const std::shared_ptr<Binding> binding = BindArrays(*prepared, fixed.get());
  std::vector<std::shared_ptr<Arena>> arenas;
  AddArenas(*prepared, /*backward=*/false, std::move(reused), &arenas);
  binding->SetArenas(
      *prepared, std::move(arenas),
      std::make_shared<const VariableSet>(prepared->intermediate_variables().size()));
  binding->blobs = prepared->MakeBlobs(binding->pointers);
  prepared_inputs_[mode] = std::make_unique<PreparedInputs>(prepared, binding);
  planned_[mode] = std::make_unique<BoundProgram>(prepared, binding);
  fixed_[mode] = std::move(fixed);
}

void Executor::BindMonitored() {
  CompiledGraph compiled = Compile({.training = true, .keeps_unread = true});
  const auto prepared = std::make_shared<const PreparedProgram>(
      std::move(compiled.program), graph::MemorySharing::kNone, SegmentSize::kOneStep);
  const std::shared_ptr<Binding> binding = BindArrays(*prepared, nullptr);
  // Calls allocate their workspace, since all workspaces together may be larger than the results.
  std::unordered_set<int> workspaces;
  for (const Step& step : prepared->program().steps) workspaces.insert(step.workspace);
  for (int i = 0; i < prepared->program().num_values(); ++i) {
    const Value& value = prepared->program().values[At(i)];
    if (value.kind != ValueKind::kIntermediate || workspaces.contains(i)) continue;
    binding->SetArray(
        i, NDArray(value.shape, prepared->program().devices[At(value.device)], value.dtype));
  }
  binding->blobs = prepared->MakeBlobs(binding->pointers);
  monitored_ = std::make_unique<BoundProgram>(prepared, binding);
}

const PreparedProgram& Executor::prepared() const {
  return planned_[ModeOf(/*is_train=*/false)]->program();
}

BoundProgram* Executor::Planned(bool is_train, bool single_steps) {
  const size_t mode = ModeOf(is_train, single_steps);
  if (planned_[mode] == nullptr) {
    const bool fuses = !single_steps && !OperatorCall::ChecksOutputs();
    BindPlanned(mode, Compile({.training = is_train, .splits = true, .fuses = fuses}), Arenas());
  }
  if (fixed_[mode] != nullptr) fixed_[mode]->Update();
  prepared_inputs_[mode]->Update();
  return planned_[mode].get();
}

BoundProgram* Executor::Runner(bool is_train, bool single_steps) {
  if (monitor_ == nullptr) {
    BoundProgram* const planned = Planned(is_train, /*single_steps=*/false);
    const bool has_fused = planned->program().program().num_fused_steps > 0;
    return single_steps && has_fused ? Planned(is_train, /*single_steps=*/true) : planned;
  }
  if (monitored_ == nullptr) BindMonitored();
  return monitored_.get();
}

CallMode Executor::ForwardMode(bool is_train) const {
  return {.is_train = is_train, .needs_gradient = has_gradient_};
}

void Executor::Forward(bool is_train) {
  results_ = Results::kNone;
  if (nodes_ != nullptr) {
    nodes_->Forward(is_train, outputs_);
    results_ = Results::kKept;
    return;
  }
  next_step_ = 0;
  last_ = Runner(is_train, /*single_steps=*/false);
  last_is_train_ = is_train;
  if (last_ != monitored_.get()) {
    last_->PushForward(ForwardMode(is_train));
  } else {
    RunMonitored(last_, 0, last_->program().program().num_forward_steps, ForwardMode(is_train));
  }
  results_ = Results::kKept;
}

int Executor::PartialForward(bool is_train, int step) {
  if (step < 0) {
    throw OutOfRange("Executor::PartialForward: step ", step, ", expected 0 or more");
  }
  if (nodes_ != nullptr) {
    throw Unimplemented(
        "Executor::PartialForward: the graph has sparse arrays, and so no steps; expected Forward");
  }
  BoundProgram* const runner = Runner(is_train, /*single_steps=*/true);
  const int num_steps = runner->program().program().num_forward_steps;
  if (step >= num_steps) return 0;
  results_ = Results::kNone;
  last_ = runner;
  last_is_train_ = is_train;
  next_step_ = step == 0 || step == next_step_ ? step + 1 : 0;
  if (last_ != monitored_.get()) {
    last_->PushStep(step, ForwardMode(is_train));
  } else {
    RunMonitored(last_, step, step + 1, ForwardMode(is_train));
  }
  if (next_step_ == num_steps) results_ = Results::kKept;
  return num_steps - step - 1;
}

void Executor::RequireResults() const {
  constexpr const char* kOnce =
      "; expected Forward before each call, since gradients overwrite the results that Forward "
      "keeps";
  if (results_ == Results::kNone) {
    throw FailedPrecondition("Executor::Backward: call Forward first");
  }
  if (results_ == Results::kUsed) {
    throw FailedPrecondition("Executor::Backward: it was called already", kOnce);
  }
  if (nodes_ == nullptr && !last_->HoldsArenas()) {
    throw FailedPrecondition(
        "Executor::Backward: an executor that shares the memory has run since "
        "Forward",
        kOnce);
  }
}

void Executor::Backward(const std::vector<NDArray>& head_grads) {
  RequireResults();
  TakeHeadGradients(head_grads);
  results_ = Results::kUsed;
  if (nodes_ != nullptr) {
    nodes_->Backward(head_gradients_);
    return;
  }
  // Steps that are repeated belong to the forward run.
  const CallMode mode{.is_train = last_is_train_, .needs_gradient = true};
  if (last_ != monitored_.get()) {
    last_->PushBackward(mode);
  } else {
    const Program& program = last_->program().program();
    RunMonitored(last_, program.num_forward_steps, program.num_steps(), mode);
  }
}

void Executor::TakeHeadGradients(const std::vector<NDArray>& given) {
  if (!given.empty() && given.size() != head_gradients_.size()) {
    throw InvalidArgument("Executor::Backward: ", given.size(), " head gradients were given for ",
                          head_gradients_.size(), " outputs");
  }
  for (size_t i = 0; i < head_gradients_.size(); ++i) {
    if (head_gradients_[i].is_none()) continue;
    if (given.empty() || given[i].is_none()) {
      throw InvalidArgument("Executor::Backward: output ", i, " (",
                            Excerpt(symbol_.ListOutputs()[i]),
                            ") is no loss and needs a head gradient");
    }
    CopyFromTo(given[i], head_gradients_[i]);
  }
}

void Executor::SetMonitorCallback(MonitorCallback callback, bool monitor_all, MonitorNames names) {
  monitor_ = std::move(callback);
  monitor_all_ = monitor_all;
  monitor_names_ = std::move(names);
  if (nodes_ == nullptr) return;
  CachedOp::Monitor report;
  if (monitor_ != nullptr) {
    report = [this](const std::string& name, const std::string&, const NDArray& value) {
      monitor_(name, value);
    };
  }
  nodes_->SetMonitor(std::move(report), monitor_all_, monitor_names_);
}

void Executor::RunMonitored(BoundProgram* runner, int begin, int end, CallMode mode) {
  for (int i = begin; i < end; ++i) {
    const Step& step = runner->program().program().steps[At(i)];
    if (monitor_ != nullptr && monitor_all_) ReportInputs(*runner, step);
    runner->PushStep(i, mode);
    if (monitor_ != nullptr) ReportOutputs(*runner, step);
  }
}

void Executor::ReportInputs(const BoundProgram& runner, const Step& step) const {
  const std::vector<std::string> names = monitor_names_.inputs(*step.node->property);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const NDArray& array = runner.binding().arrays[At(step.inputs[i])];
    const graph::Node& input = *step.node->inputs[i].node;
    if (input.is_variable()) monitor_(input.name, array);
    monitor_(step.node->name + "_" + names[i], array);
  }
}

void Executor::ReportOutputs(const BoundProgram& runner, const Step& step) const {
  const std::vector<std::string> names = monitor_names_.outputs(*step.node->property);
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    NDArray array;
    if (step.req[k] != kNullOp) {
      array = runner.binding().arrays[At(step.outputs[k])];
    } else {
      // The gradient of an input that has none. It is like the input.
      array = NDArray(step.in_shapes[k], runner.program().program().devices[At(step.device)],
                      step.in_types[k]);
      array = 0.0f;
    }
    monitor_(step.node->name + "_" + names[k], array);
  }
}

std::map<std::string, NDArray> Executor::arg_dict() const {
  return Dictionary(arrays_.argument_names, arrays_.arguments);
}
std::map<std::string, NDArray> Executor::grad_dict() const {
  return Dictionary(arrays_.argument_names, arrays_.gradients);
}
std::map<std::string, NDArray> Executor::aux_dict() const {
  return Dictionary(arrays_.aux_names, arrays_.aux_states);
}

void Executor::CopyParamsFrom(const std::map<std::string, NDArray>& arguments,
                              const std::map<std::string, NDArray>& aux_states,
                              bool allow_extra_params) {
  std::vector<std::pair<NDArray, NDArray>> copies;
  const auto match = [&](const char* kind, const std::vector<std::string>& names,
                         const std::vector<NDArray>& own,
                         const std::map<std::string, NDArray>& given) {
    const std::map<std::string, NDArray> targets = Dictionary(names, own);
    for (const auto& [name, array] : given) {
      const auto target = targets.find(name);
      if (target == targets.end()) {
        if (allow_extra_params) continue;
        const std::string nearest = NearestName(name, names);
        throw InvalidArgument(
            "Executor::CopyParamsFrom: there is no ", kind, " \"", Excerpt(name), "\"",
            nearest.empty() ? "" : "; did you mean \"" + Excerpt(nearest) + "\"?");
      }
      if (array.is_none() || array.shape() != target->second.shape()) {
        throw InvalidArgument("Executor::CopyParamsFrom: ", kind, " \"", Excerpt(name), "\" is ",
                              array.is_none() ? "no array" : array.shape().ToString(),
                              ", expected shape ", target->second.shape());
      }
      copies.emplace_back(array, target->second);
    }
  };
  match("argument", arrays_.argument_names, arrays_.arguments, arguments);
  match("aux state", arrays_.aux_names, arrays_.aux_states, aux_states);
  for (const auto& [from, to] : copies) CopyFromTo(from, to);
}

NDArray Executor::Reshaped(const std::string& name, const NDArray& array, const TShape& shape,
                           const ReshapeOptions& options) const {
  if (array.is_none() || array.shape() == shape) return array;
  if (!options.shapes.contains(name) && !options.partial_shaping) {
    throw InvalidArgument("Executor::Reshape: the shape of \"", Excerpt(name), "\" changes from ",
                          array.shape(), " to ", shape,
                          ", but was not stated; set partial_shaping to allow this");
  }
  const bool grows = shape.Size() > array.shape().Size();
  if (!grows && !IsSparse(array)) return FirstPart(array, shape);
  if (grows && !options.allow_up_sizing) {
    throw InvalidArgument("Executor::Reshape: \"", Excerpt(name), "\" grows from ", array.shape(),
                          " to ", shape,
                          "; set allow_up_sizing to allow this, or bind the largest shape first");
  }
  return sparse::Zeros(StorageTypeOf(array), shape, array.device(), array.dtype());
}

std::unique_ptr<Executor> Executor::Reshape(const ReshapeOptions& options) const {
  std::map<std::string, DType> types;
  for (size_t i = 0; i < arrays_.arguments.size(); ++i) {
    types[arrays_.argument_names[i]] = arrays_.arguments[i].dtype();
  }
  CompiledGraph compiled =
      graph::Compile(symbol_.outputs(), options.shapes, types, arrays_.grad_requests,
                     {.caller = "Executor::Reshape",
                      .device = placement_.device,
                      .groups = placement_.group2ctx,
                      .variables = arrays_.Devices(),
                      .splits = true,
                      .fuses = !OperatorCall::ChecksOutputs(),
                      .recomputes = limits_.recomputes});
  auto value = compiled.program.values.begin();  // of the arguments, then of the aux states
  Arrays arrays{.argument_names = arrays_.argument_names,
                .aux_names = arrays_.aux_names,
                .grad_requests = arrays_.grad_requests};
  for (size_t i = 0; i < arrays_.arguments.size(); ++i, ++value) {
    const std::string& name = arrays_.argument_names[i];
    arrays.arguments.push_back(Reshaped(name, arrays_.arguments[i], value->shape, options));
    arrays.gradients.push_back(Reshaped(name, arrays_.gradients[i], value->shape, options));
  }
  for (size_t i = 0; i < arrays_.aux_states.size(); ++i, ++value) {
    arrays.aux_states.push_back(
        Reshaped(arrays_.aux_names[i], arrays_.aux_states[i], value->shape, options));
  }
  return std::unique_ptr<Executor>(new Executor(symbol_, placement_, limits_, std::move(compiled),
                                                std::move(arrays), this, outputs_));
}

MemoryPlanSummary Executor::memory_plan() const {
  return nodes_ != nullptr ? MemoryPlanSummary() : prepared().MemorySummary();
}

std::string Executor::DebugString() const {
  if (nodes_ != nullptr) return "operators are called one by one, for sparse arrays\n";
  const Program& program = prepared().program();
  std::string text;
  for (int i = 0; i < program.num_steps(); ++i) {
    const Step& step = program.steps[At(i)];
    text += std::to_string(i) + " " + step.node->name;
    const std::string& implementation = prepared().calls()[At(i)]->op()->implementation();
    if (!implementation.empty()) text += " by " + implementation;
    if (program.devices.size() > 1) text += " on " + program.devices[At(step.device)].ToString();
    text += " ->";
    for (const int value : step.Writes()) {
      text += (value == step.workspace ? " workspace at " : " ") + Describe(value);
    }
    text += "\n";
  }
  const MemoryPlanSummary plan = memory_plan();
  return text + std::to_string(plan.values) + " intermediate values, " +
         std::to_string(plan.inplace) + " in place: " + std::to_string(plan.planned_bytes) +
         " bytes, unplanned " + std::to_string(plan.unplanned_bytes) + "\n";
}

std::string Executor::Describe(int id) const {
  const Value& value = prepared().program().values[At(id)];
  std::string text;
  switch (value.kind) {
    case ValueKind::kIntermediate:
      text = "offset " + std::to_string(prepared().plan().value_offset[At(id)]);
      break;
    case ValueKind::kArgument:
      text = arrays_.argument_names[At(value.index)];
      break;
    case ValueKind::kAuxState:
      text = arrays_.aux_names[At(value.index)];
      break;
    case ValueKind::kGradient:
      text = "gradient of " + arrays_.argument_names[At(value.index)];
      break;
    case ValueKind::kHeadGradient:
      text = "head gradient " + std::to_string(value.index);
      break;
    case ValueKind::kOutput:
      text = "output " + std::to_string(value.index);
      break;
    case ValueKind::kFixed:
      text = "fixed value " + std::to_string(value.index);
      break;
  }
  return text + " " + std::string(DTypeName(value.dtype)) + value.shape.ToString();
}

}  // namespace tessera
