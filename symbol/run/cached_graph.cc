#include "tessera/symbol/run/cached_graph.h"

#include <algorithm>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/quote.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/infer_storage.h"
#include "tessera/graph/loop_property.h"
#include "tessera/graph/mask_property.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
#include "tessera/graph/text.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/boolean_mask.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/ndarray/recorded_function.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/run/recorded_graph.h"

namespace tessera::symbol_internal {

using base_internal::At;
using graph::FixedValue;
using graph::IndexedGraph;
using graph::kNoValue;
using graph::Node;
using graph::NodeEntry;
using graph::Program;
using graph::Step;
using graph::Value;
using graph::ValueKind;

namespace {

// States beyond this number are freed after a call. They serve calls that overlap.
constexpr size_t kMaxIdleStates = 8;

/// Returns the node with other variables as inputs, as a graph of its own.
Symbol Alone(const Node& node) {
  const auto alone = std::make_shared<Node>(node);
  for (size_t i = 0; i < alone->inputs.size(); ++i) {
    alone->inputs[i] = graph::MakeVariable("input" + std::to_string(i));
  }
  std::vector<NodeEntry> outputs;
  for (int i = 0; i < node.property->NumVisibleOutputs(); ++i) outputs.push_back({alone, i});
  return Symbol(std::move(outputs));
}

bool IsSparse(const NDArray& array) {
  const StorageType storage = StorageTypeOf(array);
  return storage == StorageType::kRowSparse || storage == StorageType::kCsr;
}

/// Returns whether an input is sparse, or waits for a sparse gradient. Programs have no place for
/// arrays whose size only values tell.
bool UsesSparse(std::span<const NDArray> inputs) {
  const bool records = autograd::IsRecording();
  return std::any_of(inputs.begin(), inputs.end(), [records](const NDArray& input) {
    return IsSparse(input) || (records && !input.is_none() && IsSparse(input.grad()));
  });
}

}  // namespace

CallSignature::CallSignature(std::span<const NDArray> inputs, const std::vector<std::string>& names,
                             std::vector<bool> needs_gradient, bool is_train)
    : needs_gradient_(std::move(needs_gradient)),
      is_recorded_(!needs_gradient_.empty()),
      is_train_(is_train),
      engine_(Engine::Get()) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Device device = ComputeDevice(inputs[i].device());
    if (i == 0) device_ = device;
    if (device != device_) {
      throw InvalidArgument("CachedOp: input ", i, " (", Excerpt(names[i]), ") lies on ", device,
                            ", but ", Excerpt(names[0]), " on ", device_,
                            "; expected all on one device");
    }
    inputs_.push_back({inputs[i].shape(), inputs[i].dtype()});
  }
}

CallSignature::CallSignature(std::vector<Input> inputs, Device device)
    : inputs_(std::move(inputs)), device_(device), engine_(Engine::Get()) {}

bool CallSignature::Matches(std::span<const NDArray> inputs,
                            const std::vector<bool>& needs_gradient, bool is_train) const {
  if (is_train != is_train_ || needs_gradient != needs_gradient_) return false;
  if (engine_ != Engine::Get()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NDArray& input = inputs[i];
    if (input.dtype() != inputs_[i].dtype || input.shape() != inputs_[i].shape ||
        ComputeDevice(input.device()) != device_) {
      return false;
    }
  }
  return true;
}

graph::KnownVariables CallSignature::Variables() const {
  graph::KnownVariables variables;
  for (const Input& input : inputs_) {
    variables.shapes.push_back(input.shape);
    variables.types.push_back(input.dtype);
  }
  return variables;
}

GraphPart::GraphPart(const std::vector<FixedValue>& values, Device device,
                     SharedDerivedArrays* shared, std::map<std::string, PartInput>* known) {
  if (values.empty()) return;
  std::vector<NodeEntry> heads;
  for (const FixedValue& value : values) heads.push_back(value.value);
  const IndexedGraph graph(heads);
  std::vector<CallSignature::Input> inputs;
  for (const Node* const node : graph.nodes()) {
    if (!node->is_variable()) continue;
    const PartInput& read = known->at(node->name);
    inputs_.push_back(read.position);
    inputs.push_back(read.input);
  }
  graph_ = std::make_shared<CompiledCall>(CallSignature(std::move(inputs), device),
                                          CachedOpOptions(), nullptr);
  graph_->Compile(heads, graph);
  arrays_ = shared->Get(device.ToString() + "\n" + graph::ToText(heads));
  for (const FixedValue& value : values) {
    known->emplace(value.variable.node->name,
                   PartInput{static_cast<int>(known->size()), {value.shape, value.dtype}});
  }
}

void GraphPart::AppendTo(std::vector<NDArray>* arrays) const {
  if (graph_ == nullptr) return;
  std::vector<NDArray> inputs;
  for (const int position : inputs_) inputs.push_back((*arrays)[At(position)]);
  std::optional<std::vector<NDArray>> values = arrays_->Find(inputs);
  if (!values) {
    auto contents = ContentsOf(inputs);
    values = graph_->Call(inputs);
    arrays_->Keep(std::move(contents), *values);
  }
  arrays->insert(arrays->end(), values->begin(), values->end());
}

void CompiledCall::Compile(const std::vector<NodeEntry>& heads, const IndexedGraph& graph) {
  // Acquire: pairs with the release store of the thread that has compiled.
  if (is_compiled_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(compile_mutex_);
  if (is_compiled_.load(std::memory_order_relaxed)) return;
  const std::vector<int>& variables = graph.variables();
  const auto position = [&variables](int node) {
    return static_cast<int>(std::lower_bound(variables.begin(), variables.end(), node) -
                            variables.begin());
  };
  input_of_argument_.clear();
  input_of_aux_state_.clear();
  for (const int node : graph.arguments()) input_of_argument_.push_back(position(node));
  for (const int node : graph.aux_states()) input_of_aux_state_.push_back(position(node));
  graph::CompiledGraph compiled = CompileGraph(heads);
  if (compiled.complete) {
    TakeParts(compiled, graph);
    TakeProgram(std::move(compiled));
  }
  is_compiled_.store(true, std::memory_order_release);
}

graph::CompiledGraph CompiledCall::CompileGraph(const std::vector<NodeEntry>& heads) {
  const bool training = signature_.is_train() || signature_.is_recorded();
  const graph::CompileOptions options{.caller = "CachedOp",
                                      .device = signature_.device(),
                                      .training = training,
                                      .splits = derived_ != nullptr && !training,
                                      .may_be_incomplete = true,
                                      .fuses = !OperatorCall::ChecksOutputs(),
                                      .recomputes = options_.recomputes,
                                      // Other calls may train before the gradient of this one.
                                      .repeats_mutating = signature_.is_train()};
  gradient_error_.reset();
  std::vector<OpReqType> requests(input_of_argument_.size(), kNullOp);
  const graph::KnownVariables known = signature_.Variables();
  if (!signature_.is_recorded()) return graph::Compile(heads, known, requests, options);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (signature_.needs_gradient(At(input_of_argument_[i]))) requests[i] = kWriteTo;
  }
  try {
    return graph::Compile(heads, known, requests, options);
  } catch (const Error& error) {
    // Only Backward needs the gradient to exist, as on the tape.
    gradient_error_ = error;
    requests.assign(requests.size(), kNullOp);
    return graph::Compile(heads, known, requests, options);
  }
}

void CompiledCall::TakeParts(const graph::CompiledGraph& compiled, const IndexedGraph& graph) {
  value_of_fixed_.assign(compiled.constants.size() + compiled.parameters.size(), kNoValue);
  constants_ = parameters_ = GraphPart();
  if (value_of_fixed_.empty()) return;
  std::map<std::string, PartInput> known;
  for (const int node : graph.variables()) {
    const size_t position = known.size();
    known.emplace(graph.node(node).name,
                  PartInput{static_cast<int>(position), signature_.input(position)});
  }
  constants_ = GraphPart(compiled.constants, signature_.device(), derived_.get(), &known);
  parameters_ = GraphPart(compiled.parameters, signature_.device(), derived_.get(), &known);
}

void CompiledCall::TakeProgram(graph::CompiledGraph compiled) {
  // Memory for the gradient is taken when it runs, since a network may have many calls on the tape.
  program_ = std::make_shared<const PreparedProgram>(
      std::move(compiled.program),
      signature_.is_recorded() ? graph::MemorySharing::kForwardFirst : graph::MemorySharing::kAll,
      SegmentSize::kManySteps, MemoryBudget{options_.memory_budget_bytes, "CachedOp"});
  const Program& program = program_->program();
  saved_.assign(program.values.size(), false);
  for (int i = program.num_forward_steps; i < program.num_steps(); ++i) {
    for (const int value : program.steps[At(i)].inputs) saved_[At(value)] = true;
  }
  value_of_input_.assign(input_of_argument_.size() + input_of_aux_state_.size(), kNoValue);
  for (int i = 0; i < program.num_values(); ++i) {
    const Value& value = program.values[At(i)];
    if (value.kind == ValueKind::kArgument) {
      value_of_input_[At(input_of_argument_[At(value.index)])] = i;
    } else if (value.kind == ValueKind::kAuxState) {
      value_of_input_[At(input_of_aux_state_[At(value.index)])] = i;
    } else if (value.kind == ValueKind::kFixed) {
      value_of_fixed_[At(value.index)] = i;
    }
  }
  forms_.clear();
  if (derived_ == nullptr) return;
  for (const PreparedInput& input : program_->prepared_inputs()) {
    forms_.push_back(derived_->Get(signature_.device().ToString() + " " + input.name));
  }
}

std::vector<NDArray> CompiledCall::MakeOutputs(std::span<const NDArray> inputs) const {
  const Program& program = program_->program();
  std::vector<NDArray> outputs;
  for (size_t i = 0; i < program.head_values.size(); ++i) {
    const Value& value = program.values[At(program.head_values[i])];
    if (value.kind == ValueKind::kArgument) {
      outputs.push_back(inputs[At(input_of_argument_[At(value.index)])].Detach());
    } else if (value.kind == ValueKind::kAuxState) {
      outputs.push_back(inputs[At(input_of_aux_state_[At(value.index)])].Detach());
    } else if (At(value.index) == i) {
      outputs.emplace_back(value.shape, signature_.device(), value.dtype);
    } else {
      outputs.push_back(outputs[At(value.index)].Detach());
    }
  }
  return outputs;
}

void CompiledCall::BindFixedValues(std::span<const NDArray> inputs, Binding* binding) const {
  if (value_of_fixed_.empty()) return;
  std::vector<NDArray> arrays(inputs.begin(), inputs.end());
  constants_.AppendTo(&arrays);
  parameters_.AppendTo(&arrays);
  for (size_t i = 0; i < value_of_fixed_.size(); ++i) {
    const int value = value_of_fixed_[i];
    if (value != kNoValue) binding->SetArray(value, arrays[inputs.size() + i]);
  }
}

void CompiledCall::BindForms(Binding* binding) const {
  for (size_t i = 0; i < forms_.size(); ++i) {
    const PreparedInput& input = program_->prepared_inputs()[i];
    const NDArray& source = binding->arrays[At(input.value)];
    const std::span<const NDArray> sources(&source, 1);
    std::optional<std::vector<NDArray>> form = forms_[i]->Find(sources);
    if (!form) {
      // An input that each call changes costs nothing: the second call with an array prepares it.
      forms_[i]->Keep(ContentsOf(sources), {});
      continue;
    }
    if (form->empty()) {
      auto contents = ContentsOf(sources);
      form->push_back(MakeForm(input, signature_.device()));
      if (AllocateForm(form->front()) == nullptr) continue;
      PushForm(program_, i, source, form->front());
      forms_[i]->Keep(std::move(contents), *form);
    }
    binding->SetForm(*program_, i, form->front());
    binding->prepared[input.blob] = ndarray_internal::ArrayAccess::Data(form->front()).dptr_;
  }
}

std::vector<NDArray> CompiledCall::Call(std::span<const NDArray> inputs) {
  const Program& program = program_->program();
  std::vector<NDArray> outputs = MakeOutputs(inputs);
  const auto binding = std::make_shared<Binding>(*program_);
  for (size_t i = 0; i < inputs.size(); ++i) binding->SetArray(value_of_input_[i], inputs[i]);
  BindFixedValues(inputs, binding.get());
  BindForms(binding.get());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const int value = program.head_values[i];
    // The tape's entry of an output holds what runs here, so its array must not hold the entry.
    if (program.values[At(value)].kind == ValueKind::kOutput) {
      binding->SetArray(value, signature_.is_recorded() ? outputs[i].Detach() : outputs[i]);
    }
  }
  CallState state = TakeState();
  AddArenas(*program_, /*backward=*/false, {}, &state.arenas);
  binding->SetArenas(*program_, state.arenas, state.variables);
  PushSegments({program_,
                binding,
                nullptr,
                {.is_train = signature_.is_train(), .needs_gradient = signature_.is_recorded()}},
               program_->forward());
  if (signature_.is_recorded()) {
    RecordCall(std::make_shared<RecordedGraph>(shared_from_this(), *binding, std::move(state)),
               inputs, outputs);
  } else {
    GiveState(std::move(state));
  }
  return outputs;
}

CallState CompiledCall::TakeState() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      CallState state = std::move(idle_.back());
      idle_.pop_back();
      return state;
    }
  }
  return {.variables =
              std::make_shared<const VariableSet>(program_->intermediate_variables().size())};
}

void CompiledCall::GiveState(CallState state) {
  if (!options_.static_alloc) {
    state.arenas.clear();
    state.retained_arenas.clear();
  }
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMaxIdleStates) idle_.push_back(std::move(state));
}

GradientRun CompiledCall::Gradient(std::span<const OpReqType> requests, bool is_last) {
  std::vector<OpReqType> of_arguments;
  for (const int input : input_of_argument_) of_arguments.push_back(requests[At(input)]);
  const std::lock_guard lock(mutex_);
  if (!is_last && retaining_program_ == nullptr) {
    retaining_program_ = std::make_shared<const PreparedProgram>(
        program_->program(), graph::MemorySharing::kWithinDirection);
  }
  GradientRun& run = gradients_[{is_last, of_arguments}];
  if (run.program == nullptr) {
    std::shared_ptr<const PreparedProgram> program = is_last ? program_ : retaining_program_;
    run.calls = std::make_shared<const StepCalls>(program->CallsFor(of_arguments));
    run.program = std::move(program);
  }
  return run;
}

CachedGraph::CachedGraph(const Symbol& symbol, CachedOpOptions options, NodeCalls node_calls)
    : symbol_(symbol),
      graph_(symbol.outputs()),
      options_(options),
      node_calls_(node_calls),
      calls_nodes_(options.node_by_node || (node_calls == NodeCalls::kAllowed &&
                                            graph::InferStorage(graph_, {}).HasSparseEntry())) {
  if (options.max_signatures < 1) {
    throw InvalidArgument("CachedOp: max_signatures is ", options.max_signatures,
                          ", expected 1 or more");
  }
  implementations_.resize(At(graph_.num_nodes()));
  loops_.resize(At(graph_.num_nodes()));
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    const Node& node = graph_.node(i);
    if (!node.is_variable()) {
      // Each call has its own operator, which may keep something for its gradient.
      calls_nodes_ |=
          node_calls == NodeCalls::kAllowed && node.property->purity() == Purity::kSynchronous;
      implementations_[At(i)] = graph::NamedImplementation(node);
      if (node_calls == NodeCalls::kAllowed &&
          dynamic_cast<const graph::LoopProperty*>(node.property.get()) != nullptr) {
        loops_[At(i)] =
            std::make_unique<CachedGraph>(Alone(node), CachedOpOptions(), NodeCalls::kRefused);
      }
      continue;
    }
    input_nodes_.push_back(i);
    input_names_.push_back(node.name);
  }
}

void CachedGraph::SetMonitor(CachedOp::Monitor monitor, bool all, MonitorNames names) {
  std::shared_ptr<const Monitoring> monitoring;
  if (monitor != nullptr) {
    monitoring =
        std::make_shared<const Monitoring>(Monitoring{std::move(monitor), all, std::move(names)});
  }
  const std::lock_guard lock(mutex_);
  monitoring_.swap(monitoring);
}

std::shared_ptr<const CachedGraph::Monitoring> CachedGraph::GetMonitoring() {
  const std::lock_guard lock(mutex_);
  return monitoring_;
}

void CachedGraph::Report(const Monitoring& monitoring, const Node& node,
                         const std::vector<std::string>& names,
                         const std::vector<NDArray>& arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    monitoring.monitor(node.name + "_" + names[i], node.property->TypeString(), arrays[i]);
  }
}

int CachedGraph::num_signatures() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(compiled_.size());
}

std::shared_ptr<CompiledCall> CachedGraph::Find(std::span<const NDArray> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_none()) continue;
    throw InvalidArgument("CachedOp: input ", i, " (", Excerpt(input_names_[i]),
                          ") is no array (is_none())");
  }
  const bool is_train = autograd::IsTraining();
  std::vector<bool> needs_gradient;
  if (ShouldRecord(inputs)) {
    for (const NDArray& input : inputs) needs_gradient.push_back(ShouldRecord({&input, 1}));
  }
  const std::lock_guard lock(mutex_);
  auto found = std::find_if(compiled_.begin(), compiled_.end(), [&](const auto& compiled) {
    return compiled->signature().Matches(inputs, needs_gradient, is_train);
  });
  if (found == compiled_.end()) {
    auto compiled = std::make_shared<CompiledCall>(
        CallSignature(inputs, input_names_, std::move(needs_gradient), is_train), options_,
        derived_);
    if (compiled_.size() == static_cast<size_t>(options_.max_signatures)) compiled_.pop_back();
    found = compiled_.insert(compiled_.end(), std::move(compiled));
  }
  std::rotate(compiled_.begin(), found, found + 1);
  return compiled_.front();
}

void CachedGraph::RequireCount(std::span<const NDArray> inputs) const {
  if (inputs.size() == input_names_.size()) return;
  throw InvalidArgument("CachedOp: ", inputs.size(), " inputs were given, expected ",
                        input_names_.size(), " (", ListNames(input_names_), ")");
}

MemoryPlanSummary CachedGraph::MemoryPlan(std::span<const NDArray> inputs) {
  RequireCount(inputs);
  if (calls_nodes_) return {};
  const std::shared_ptr<CompiledCall> compiled = Find(inputs);
  compiled->Compile(symbol_.outputs(), graph_);
  return compiled->is_dynamic() ? MemoryPlanSummary() : compiled->program()->MemorySummary();
}

std::vector<NDArray> CachedGraph::Call(std::span<const NDArray> inputs) {
  RequireCount(inputs);
  const std::shared_ptr<const Monitoring> monitoring = GetMonitoring();
  if (calls_nodes_ || monitoring != nullptr ||
      (node_calls_ == NodeCalls::kAllowed && UsesSparse(inputs))) {
    return CallNodes(inputs, monitoring.get());
  }
  const std::shared_ptr<CompiledCall> compiled = Find(inputs);
  compiled->Compile(symbol_.outputs(), graph_);
  if (!compiled->is_dynamic()) return compiled->Call(inputs);
  if (node_calls_ == NodeCalls::kRefused) {
    throw InvalidArgument(graph_.node(graph_.num_nodes() - 1).property->TypeString(),
                          ": the inputs' shapes do not determine all shapes in its graphs, "
                          "expected shapes that do not depend on values");
  }
  return CallNodes(inputs, nullptr);
}

std::shared_ptr<const OperatorProperty> CachedGraph::WithShape(
    int id, const std::vector<NDArray>& values) const {
  const std::shared_ptr<const OperatorProperty>& property = graph_.node(id).property;
  std::vector<TShape> in, out(At(graph_.NumOutputs(id)));
  if (property->InferShape(&in, &out)) return property;
  ParameterMap parameters = property->GetParams();
  const auto shape = parameters.find("shape");
  if (shape == parameters.end()) return property;
  graph::GraphShapes shapes{.entries = std::vector<TShape>(values.size())};
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_none()) shapes.entries[i] = values[i].shape();
  }
  CompleteShapes(graph_, &shapes);
  const TShape& expected = shapes.entries[At(graph_.EntryId(id, 0))];
  if (!expected.known()) return property;
  shape->second = expected.ToString();
  return OperatorRegistry::Get().FindOrCreate(property->TypeString(), parameters);
}

std::vector<NDArray> CachedGraph::CallNode(int id, std::span<const NDArray> arguments,
                                           const std::vector<NDArray>& values) const {
  if (loops_[At(id)] != nullptr) {
    std::vector<NDArray> dense;
    for (const NDArray& argument : arguments) {
      dense.push_back(IsSparse(argument) ? sparse::Cast(argument, StorageType::kDefault)
                                         : argument);
    }
    return loops_[At(id)]->Call(dense);
  }
  const std::shared_ptr<const OperatorProperty>& property = graph_.node(id).property;
  if (const auto* const mask = dynamic_cast<const graph::BooleanMaskProperty*>(property.get())) {
    return {BooleanMask(arguments[0], arguments[1], mask->param().axis)};
  }
  return Invoke(arguments.empty() ? WithShape(id, values) : property, arguments,
                implementations_[At(id)]);
}

std::vector<NDArray> CachedGraph::CallNodes(std::span<const NDArray> inputs,
                                            const Monitoring* monitoring) const {
  std::vector<NDArray> values(At(graph_.num_entries()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[At(graph_.EntryId(input_nodes_[i], 0))] = inputs[i];
  }
  for (int i = 0; i < graph_.num_nodes(); ++i) {
    const Node& node = graph_.node(i);
    if (node.is_variable()) continue;
    std::vector<NDArray> arguments;
    for (const int input : graph_.InputIds(i)) arguments.push_back(values[At(input)]);
    if (monitoring != nullptr && monitoring->all) {
      Report(*monitoring, node, monitoring->names.inputs(*node.property), arguments);
    }
    try {
      const std::vector<NDArray> results = CallNode(i, arguments, values);
      for (size_t k = 0; k < results.size(); ++k) {
        values[At(graph_.EntryId(i, static_cast<int>(k)))] = results[k];
      }
      if (monitoring != nullptr) {
        Report(*monitoring, node, monitoring->names.outputs(*node.property), results);
      }
    } catch (const Error& error) {
      throw Error(error.code(), "node \"" + Excerpt(node.name) + "\": " + error.what());
    }
  }
  std::vector<NDArray> outputs;
  for (const int head : graph_.heads()) outputs.push_back(values[At(head)]);
  return outputs;
}

}  // namespace tessera::symbol_internal

namespace tessera {

CachedOp::CachedOp(const Symbol& symbol, CachedOpOptions options)
    : graph_(std::make_shared<symbol_internal::CachedGraph>(symbol, options)) {}

std::vector<NDArray> CachedOp::operator()(std::span<const NDArray> inputs) const {
  return graph_->Call(inputs);
}

MemoryPlanSummary CachedOp::memory_plan(std::span<const NDArray> inputs) const {
  return graph_->MemoryPlan(inputs);
}

const std::vector<std::string>& CachedOp::input_names() const { return graph_->input_names(); }

void CachedOp::SetMonitor(Monitor monitor, bool all, MonitorNames names) {
  graph_->SetMonitor(std::move(monitor), all, std::move(names));
}

int CachedOp::num_signatures() const { return graph_->num_signatures(); }

}  // namespace tessera
