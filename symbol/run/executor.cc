#include "tessera/symbol/run/graph_executor.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/passes.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/passes/placement.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ops/parameter.h"

namespace tessera::symbol_internal {

using base_internal::At;
using graph::GraphShapes;
using graph::GraphTypes;
using graph::IndexedGraph;
using graph::kNoValue;
using graph::NodeEntry;
using graph::Program;
using graph::Step;
using graph::Value;
using graph::ValueKind;

namespace {

std::vector<std::string> NamesOf(const IndexedGraph& graph, const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int id : nodes) names.push_back(graph.node(id).name);
  return names;
}

std::map<std::string, NDArray> Dictionary(const std::vector<std::string>& names,
                                          const std::vector<NDArray>& arrays) {
  std::map<std::string, NDArray> dictionary;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!arrays[i].is_none()) dictionary.emplace(names[i], arrays[i]);
  }
  return dictionary;
}

/// Returns an array of that shape in the first part of another one's memory, which is large enough.
NDArray FirstPart(const NDArray& array, const TShape& shape) {
  return array.Reshape(TShape{array.shape().Size()}).Slice(0, shape.Size()).Reshape(shape);
}

}  // namespace

std::map<std::string, Device> ExecutorDevices::OfVariables(const IndexedGraph& graph,
                                                           const Symbol& symbol) const {
  std::unordered_map<const graph::Node*, Device> placed;
  if (!group2ctx.empty()) {
    placed = PlaceDevices(symbol.outputs(), {.groups = group2ctx, .device = device}).devices;
  }
  std::map<std::string, Device> devices;
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      const auto found = placed.find(&graph.node(id));
      devices.emplace(graph.node(id).name, found == placed.end() ? device : found->second);
    }
  }
  return devices;
}

GraphExecutor::GraphExecutor(const Symbol& symbol, const IndexedGraph& graph, GraphShapes shapes,
                             GraphTypes types, ExecutorDevices devices, ExecutorArrays arrays,
                             const Executor* shared, const std::vector<NDArray>& outputs)
    : symbol_(symbol),
      shapes_(std::move(shapes)),
      types_(std::move(types)),
      devices_(std::move(devices)),
      arrays_(std::move(arrays)),
      has_gradient_(std::any_of(arrays_.grad_requests.begin(), arrays_.grad_requests.end(),
                                [](OpReqType request) { return request != kNullOp; })),
      argument_names_(NamesOf(graph, graph.arguments())),
      aux_names_(NamesOf(graph, graph.aux_states())) {
  const auto* const other = dynamic_cast<const GraphExecutor*>(shared);
  BindPlanned(has_gradient_, other == nullptr ? Arenas() : other->Arenas(), outputs);
}

graph::PreparedGraph GraphExecutor::RunPasses(const std::vector<NodeEntry>& heads,
                                              const std::vector<NodeEntry>& wanted, bool training,
                                              std::unique_ptr<FixedValues>* fixed) const {
  const auto all_arrays = [this] {
    std::map<std::string, NDArray> arrays = Dictionary(argument_names_, arrays_.arguments);
    arrays.merge(Dictionary(aux_names_, arrays_.aux_states));
    return arrays;
  };
  graph::PassOptions options{
      .training = training,
      .wanted = wanted,
      .splits = fixed != nullptr,
      .placement = {.groups = devices_.group2ctx, .device = devices_.device}};
  if (!devices_.group2ctx.empty()) {
    for (const auto& [name, array] : all_arrays()) {
      options.placement.variables.emplace(name, array.device());
    }
  }
  const IndexedGraph graph(heads);
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      const size_t entry = At(graph.EntryId(id, 0));
      options.shapes[graph.node(id).name] = shapes_.entries[entry];
      options.types[graph.node(id).name] = types_.entries[entry];
    }
  }
  graph::PreparedGraph prepared = graph::RunPasses(heads, options);
  if (!prepared.constants.empty() || !prepared.parameters.empty()) {
    *fixed = std::make_unique<FixedValues>(
        prepared.constants, prepared.parameters, devices_.device,
        [arrays = all_arrays()](const std::string& name) { return arrays.at(name); });
  }
  return prepared;
}

Program GraphExecutor::BuildProgram(bool training, std::unique_ptr<FixedValues>* fixed,
                                    bool keeps_unread) const {
  return graph::BuildProgram(
      symbol_.outputs(), shapes_, types_, arrays_.grad_requests,
      {.device = devices_.device,
       .passes =
           [&](const std::vector<NodeEntry>& heads, const std::vector<NodeEntry>& wanted) {
             return RunPasses(heads, wanted, training, fixed);
           },
       .keeps_unread = keeps_unread});
}

void GraphExecutor::MakeArrays(const Program& program, const std::vector<NDArray>& outputs) {
  head_gradients_.resize(program.head_values.size());
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
  for (const Value& value : program.values) {
    if (value.kind != ValueKind::kHeadGradient) continue;
    head_gradients_[At(value.index)] =
        NDArray(value.shape, program.devices[At(value.device)], value.dtype);
  }
}

NDArray GraphExecutor::ArrayOf(const Value& value) const {
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

std::shared_ptr<Binding> GraphExecutor::BindArrays(const PreparedProgram& program,
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

std::vector<std::shared_ptr<Arena>> GraphExecutor::Arenas() const {
  std::vector<std::shared_ptr<Arena>> arenas;
  for (const auto& planned : planned_) {
    if (planned == nullptr) continue;
    const auto& own = planned->binding().arenas;
    arenas.insert(arenas.end(), own.begin(), own.end());
  }
  return arenas;
}

void GraphExecutor::BindPlanned(bool training, std::vector<std::shared_ptr<Arena>> reused,
                                const std::vector<NDArray>& outputs) {
  std::unique_ptr<FixedValues> fixed;
  Program program = BuildProgram(training, &fixed);
  graph::MemoryPlan plan = PlanMemory(&program);
  const auto prepared =
      std::make_shared<const PreparedProgram>(std::move(program), std::move(plan));
  if (outputs_.empty()) MakeArrays(prepared->program(), outputs);
  const std::shared_ptr<Binding> binding = BindArrays(*prepared, fixed.get());
  std::vector<std::shared_ptr<Arena>> arenas;
  AddArenas(*prepared, /*backward=*/false, std::move(reused), &arenas);
  binding->SetArenas(
      *prepared, std::move(arenas),
      std::make_shared<const VariableSet>(prepared->intermediate_variables().size()));
  binding->blobs = prepared->MakeBlobs(binding->pointers);
  planned_[training ? 1 : 0] = std::make_unique<BoundProgram>(prepared, binding);
  fixed_[training ? 1 : 0] = std::move(fixed);
}

void GraphExecutor::BindMonitored() {
  // Every node of the symbol is to be seen, so no pass changes the graph.
  Program program =
      devices_.group2ctx.empty()
          ? graph::BuildProgram(symbol_.outputs(), shapes_, types_, arrays_.grad_requests,
                                {.device = devices_.device, .keeps_unread = true})
          : BuildProgram(/*training=*/true, nullptr, /*keeps_unread=*/true);
  graph::MemoryPlan plan = PlanMemory(&program, graph::MemorySharing::kNone);
  const auto prepared = std::make_shared<const PreparedProgram>(std::move(program), std::move(plan),
                                                                SegmentSize::kOneStep);
  const std::shared_ptr<Binding> binding = BindArrays(*prepared, nullptr);
  for (int i = 0; i < prepared->program().num_values(); ++i) {
    const Value& value = prepared->program().values[At(i)];
    if (value.kind != ValueKind::kIntermediate) continue;
    binding->SetArray(
        i, NDArray(value.shape, prepared->program().devices[At(value.device)], value.dtype));
  }
  binding->blobs = prepared->MakeBlobs(binding->pointers);
  monitored_ = std::make_unique<BoundProgram>(prepared, binding);
}

BoundProgram* GraphExecutor::Planned(bool is_train) {
  const size_t mode = is_train || has_gradient_ ? 1 : 0;
  if (planned_[mode] == nullptr) BindPlanned(is_train, Arenas());
  if (fixed_[mode] != nullptr) fixed_[mode]->Update();
  return planned_[mode].get();
}

BoundProgram* GraphExecutor::Runner(bool is_train) {
  if (monitor_ == nullptr) return Planned(is_train);
  if (monitored_ == nullptr) BindMonitored();
  return monitored_.get();
}

CallMode GraphExecutor::ForwardMode(bool is_train) const {
  return {.is_train = is_train, .needs_gradient = has_gradient_};
}

void GraphExecutor::Forward(bool is_train) {
  results_ = Results::kNone;
  next_step_ = 0;
  last_ = Runner(is_train);
  last_is_train_ = is_train;
  if (last_ != monitored_.get()) {
    last_->PushForward(ForwardMode(is_train));
  } else {
    RunMonitored(last_, 0, last_->program().program().num_forward_steps, ForwardMode(is_train));
  }
  results_ = Results::kKept;
}

int GraphExecutor::PartialForward(bool is_train, int step) {
  if (step < 0) {
    throw OutOfRange("Executor::PartialForward: step ", step, ", expected 0 or more");
  }
  BoundProgram* const runner = Runner(is_train);
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

void GraphExecutor::RequireResults() const {
  constexpr const char* kOnce =
      "; expected Forward before each call, since gradients overwrite the results that Forward "
      "keeps";
  if (results_ == Results::kNone) {
    throw FailedPrecondition("Executor::Backward: call Forward first");
  }
  if (results_ == Results::kUsed) {
    throw FailedPrecondition("Executor::Backward: it was called already", kOnce);
  }
  if (!last_->HoldsArenas()) {
    throw FailedPrecondition(
        "Executor::Backward: an executor that shares the memory has run since "
        "Forward",
        kOnce);
  }
}

void GraphExecutor::Backward(const std::vector<NDArray>& head_grads) {
  RequireResults();
  TakeHeadGradients(head_grads);
  results_ = Results::kUsed;
  const CallMode mode{.is_train = last_is_train_};
  if (last_ != monitored_.get()) {
    last_->PushBackward(mode);
  } else {
    const Program& program = last_->program().program();
    RunMonitored(last_, program.num_forward_steps, program.num_steps(), mode);
  }
}

void GraphExecutor::TakeHeadGradients(const std::vector<NDArray>& given) {
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

void GraphExecutor::SetMonitorCallback(MonitorCallback callback, bool monitor_all,
                                       MonitorNames names) {
  monitor_ = std::move(callback);
  monitor_all_ = monitor_all;
  monitor_names_ = std::move(names);
}

void GraphExecutor::RunMonitored(BoundProgram* runner, int begin, int end, CallMode mode) {
  for (int i = begin; i < end; ++i) {
    const Step& step = runner->program().program().steps[At(i)];
    if (monitor_ != nullptr && monitor_all_) ReportInputs(*runner, step);
    runner->PushStep(i, mode);
    if (monitor_ != nullptr) ReportOutputs(*runner, step);
  }
}

void GraphExecutor::ReportInputs(const BoundProgram& runner, const Step& step) const {
  const std::vector<std::string> names = monitor_names_.inputs(*step.node->property);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const NDArray& array = runner.binding().arrays[At(step.inputs[i])];
    const graph::Node& input = *step.node->inputs[i].node;
    if (input.is_variable()) monitor_(input.name, array);
    monitor_(step.node->name + "_" + names[i], array);
  }
}

void GraphExecutor::ReportOutputs(const BoundProgram& runner, const Step& step) const {
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

std::map<std::string, NDArray> GraphExecutor::arg_dict() const {
  return Dictionary(argument_names_, arrays_.arguments);
}
std::map<std::string, NDArray> GraphExecutor::grad_dict() const {
  return Dictionary(argument_names_, arrays_.gradients);
}
std::map<std::string, NDArray> GraphExecutor::aux_dict() const {
  return Dictionary(aux_names_, arrays_.aux_states);
}

void GraphExecutor::CopyParamsFrom(const std::map<std::string, NDArray>& arguments,
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
  match("argument", argument_names_, arrays_.arguments, arguments);
  match("aux state", aux_names_, arrays_.aux_states, aux_states);
  for (const auto& [from, to] : copies) CopyFromTo(from, to);
}

NDArray GraphExecutor::Reshaped(const std::string& name, const NDArray& array, const TShape& shape,
                                bool is_stated, const ReshapeOptions& options) const {
  if (array.is_none() || array.shape() == shape) return array;
  if (!is_stated && !options.partial_shaping) {
    throw InvalidArgument("Executor::Reshape: the shape of \"", Excerpt(name), "\" changes from ",
                          array.shape(), " to ", shape,
                          ", but was not stated; set partial_shaping to allow this");
  }
  if (shape.Size() <= array.shape().Size()) return FirstPart(array, shape);
  if (!options.allow_up_sizing) {
    throw InvalidArgument("Executor::Reshape: \"", Excerpt(name), "\" grows from ", array.shape(),
                          " to ", shape,
                          "; set allow_up_sizing to allow this, or bind the largest shape first");
  }
  NDArray larger(shape, array.device(), array.dtype());
  larger = 0.0f;
  return larger;
}

std::unique_ptr<Executor> GraphExecutor::Reshape(const ReshapeOptions& options) const {
  const IndexedGraph graph(symbol_.outputs());
  std::map<std::string, DType> types;
  for (size_t i = 0; i < argument_names_.size(); ++i) {
    types[argument_names_[i]] = arrays_.arguments[i].dtype();
  }
  const GraphShapes new_shapes = InferShapes(graph, options.shapes);
  if (!new_shapes.complete) {
    throw InvalidArgument("Executor::Reshape: the shapes given do not determine all others");
  }
  const auto shape_of = [&](int node) { return new_shapes.entries[At(graph.EntryId(node, 0))]; };
  ExecutorArrays arrays{.grad_requests = arrays_.grad_requests};
  for (size_t i = 0; i < argument_names_.size(); ++i) {
    const std::string& name = argument_names_[i];
    const TShape shape = shape_of(graph.arguments()[i]);
    const bool is_stated = options.shapes.contains(name);
    arrays.arguments.push_back(Reshaped(name, arrays_.arguments[i], shape, is_stated, options));
    arrays.gradients.push_back(Reshaped(name, arrays_.gradients[i], shape, is_stated, options));
  }
  for (size_t i = 0; i < aux_names_.size(); ++i) {
    arrays.aux_states.push_back(Reshaped(aux_names_[i], arrays_.aux_states[i],
                                         shape_of(graph.aux_states()[i]),
                                         options.shapes.contains(aux_names_[i]), options));
  }
  return std::make_unique<GraphExecutor>(symbol_, graph, new_shapes, InferTypes(graph, types),
                                         devices_, std::move(arrays), this, outputs_);
}

MemoryPlanSummary GraphExecutor::memory_plan() const {
  const graph::MemoryPlan& plan = prepared().plan();
  const auto in_arrays = std::count(plan.value_arena.begin(), plan.value_arena.end(), kNoValue);
  return {.values = static_cast<int>(plan.value_arena.size()) - static_cast<int>(in_arrays),
          .inplace = plan.inplace,
          .planned_bytes = plan.SizeBytes(),
          .unplanned_bytes = plan.unplanned_bytes};
}

std::string GraphExecutor::DebugString() const {
  const Program& program = prepared().program();
  std::string text;
  for (int i = 0; i < program.num_steps(); ++i) {
    const Step& step = program.steps[At(i)];
    text += std::to_string(i) + " " + step.node->name;
    const std::string& implementation = prepared().calls()[At(i)]->op()->implementation();
    if (!implementation.empty()) text += " by " + implementation;
    if (program.devices.size() > 1) text += " on " + program.devices[At(step.device)].ToString();
    text += " ->";
    for (const int value : step.Writes()) text += " " + Describe(value);
    text += "\n";
  }
  const MemoryPlanSummary plan = memory_plan();
  return text + std::to_string(plan.values) + " intermediate values, " +
         std::to_string(plan.inplace) + " in place: " + std::to_string(plan.planned_bytes) +
         " bytes, unplanned " + std::to_string(plan.unplanned_bytes) + "\n";
}

std::string GraphExecutor::Describe(int id) const {
  const Value& value = prepared().program().values[At(id)];
  std::string text;
  switch (value.kind) {
    case ValueKind::kIntermediate:
      text = "offset " + std::to_string(prepared().plan().value_offset[At(id)]);
      break;
    case ValueKind::kArgument:
      text = argument_names_[At(value.index)];
      break;
    case ValueKind::kAuxState:
      text = aux_names_[At(value.index)];
      break;
    case ValueKind::kGradient:
      text = "gradient of " + argument_names_[At(value.index)];
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

}  // namespace tessera::symbol_internal
