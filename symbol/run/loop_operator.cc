#include "tessera/symbol/run/loop_operator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/number.h"
#include "tessera/base/quote.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes.h"
#include "tessera/graph/passes/fuse_maps.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/memory/device_runtime.h"
#include "tessera/storage/storage.h"
#include "tessera/symbol/run/step_runner.h"

namespace tessera::symbol_internal {
namespace {

using base_internal::At;
using graph::kNoValue;
using graph::LoopGraph;
using graph::LoopInput;
using graph::LoopKind;
using graph::LoopProperty;
using graph::LoopSaved;
using graph::NodeEntry;
using graph::Value;
using graph::ValueKind;

/// Work on the memory of one device, in the order of a stream, which is null for the host.
class DeviceMemory {
 public:
  DeviceMemory(Device device, void* stream) : device_(device), stream_(stream) {}
  ~DeviceMemory() {
    try {
      Wait();
      for (const Storage::Handle& block : blocks_) Storage::Get()->Free(block);
    } catch (...) {
      // The blocks are lost, which is safe.
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* stream() const { return stream_; }

  /// Returns memory that is freed with the object.
  void* Alloc(int64_t size_bytes) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back(Storage::Get()->Alloc(size_bytes, device_, "loop"));
    return blocks_.back().dptr;
  }
  /// Returns such memory, or null if there is not enough.
  void* TryAlloc(int64_t size_bytes) {
    try {
      return Alloc(size_bytes);
    } catch (const Error& error) {
      if (error.code() != Error::kResourceExhausted) throw;
      return nullptr;
    }
  }
  void Copy(void* to, const void* from, int64_t size_bytes) {
    if (size_bytes == 0 || to == from) return;
    if (stream_ == nullptr) {
      std::memcpy(to, from, At(size_bytes));
    } else {
      RuntimeFor(device_).CopyBytes(to, from, size_bytes, stream_);
    }
  }
  void SetZero(void* to, int64_t size_bytes) {
    if (size_bytes == 0) return;
    if (stream_ == nullptr) {
      std::memset(to, 0, At(size_bytes));
    } else {
      RuntimeFor(device_).Fill(TBlob(to, TShape{size_bytes}, DType::kUint8, device_), Number(0),
                               stream_);
    }
  }
  /// Waits for the work so far, so that the host can use its results.
  void Wait() {
    if (stream_ != nullptr) RuntimeFor(device_).Wait(stream_);
  }

 private:
  const Device device_;
  void* const stream_;
  std::vector<Storage::Handle> blocks_;
};

/// Returns whether an element is another number than zero.
bool IsTrue(const std::array<unsigned char, 8>& element, DType dtype) {
  std::array<unsigned char, 8> bits = element;
  const bool has_sign = dtype == DType::kFloat32 || dtype == DType::kFloat64 ||
                        dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  // -0 is zero. The sign is the highest bit of the last byte.
  if (has_sign) bits[At(DTypeSizeBytes(dtype) - 1)] &= 0x7f;
  return std::any_of(bits.begin(), bits.end(), [](unsigned char byte) { return byte != 0; });
}

/// A value that lies one step after another in memory.
struct Rows {
  int value;
  char* first;
  int64_t stride;
};

char* Bytes(const TBlob& blob) { return static_cast<char*>(blob.dptr_); }

/// Returns the position of a node among the variables of a graph.
size_t VariableAt(const graph::IndexedGraph& graph, int node) {
  const std::vector<int>& variables = graph.variables();
  return static_cast<size_t>(std::lower_bound(variables.begin(), variables.end(), node) -
                             variables.begin());
}

/// Returns the outputs of a body, and behind them the saved values that are neither variables nor
/// outputs.
std::vector<NodeEntry> HeadsToSave(const LoopGraph& graph, int first_saved) {
  std::vector<NodeEntry> heads = graph.heads;
  for (const LoopSaved& saved : graph.saved) {
    if (!saved.entry.node->is_variable() && saved.output >= first_saved) {
      heads.push_back(saved.entry);
    }
  }
  return heads;
}

/// Returns shapes and types of all entries of a graph whose variables are known.
std::pair<graph::GraphShapes, graph::GraphTypes> InferAll(const graph::IndexedGraph& graph,
                                                          const graph::KnownVariables& known,
                                                          const std::string& op) {
  graph::GraphShapes shapes{.entries = std::vector<TShape>(At(graph.num_entries()))};
  graph::GraphTypes types{.entries = std::vector<DType>(At(graph.num_entries()), DType::kUnknown)};
  for (size_t i = 0; i < known.shapes.size(); ++i) {
    const size_t entry = At(graph.EntryId(graph.variables()[i], 0));
    shapes.entries[entry] = known.shapes[i];
    types.entries[entry] = known.types[i];
  }
  CompleteShapes(graph, &shapes);
  CompleteTypes(graph, &types);
  if (!shapes.complete || !types.complete) {
    throw InvalidArgument(op,
                          ": the inputs do not determine all shapes and types of the graph "
                          "that a step runs");
  }
  return {std::move(shapes), std::move(types)};
}

}  // namespace

int64_t LoopProgram::SizeBytes(int value) const {
  return value == kNoValue ? 0 : program->program().values[At(value)].SizeBytes();
}

/// The memory of a program during one call of the operator.
class LoopOperator::Frame {
 public:
  /// Takes memory for one direction. `memory` must outlive the frame.
  Frame(const LoopProgram& graph, DeviceMemory* memory, bool backward)
      : graph_(graph), memory_(*memory) {
    const PreparedProgram& program = *graph.program;
    // The gradient reads no intermediate value of the forward steps.
    AddArenas(program, backward, {}, &arenas_);
    const graph::MemoryPlan& plan = program.plan();
    pointers_.resize(program.program().values.size());
    for (size_t value = 0; value < pointers_.size(); ++value) {
      const int arena = plan.value_arena[value];
      if (arena == kNoValue || arenas_[At(arena)] == nullptr) continue;
      pointers_[value] = static_cast<char*>(arenas_[At(arena)]->data()) + plan.value_offset[value];
    }
    blobs_ = program.MakeBlobs(pointers_);
  }
  ~Frame() {
    try {
      memory_.Wait();  // the arenas are freed now
    } catch (...) {
      // The error is that of the device's next wait, too.
    }
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  const LoopProgram& graph() const { return graph_; }

  /// Gives a value its memory.
  void Bind(int value, void* memory) {
    if (value == kNoValue) return;
    for (const size_t blob : graph_.blobs[At(value)]) blobs_[blob].dptr_ = memory;
  }
  /// Gives a value its part of some rows in each step.
  void Add(int value, char* first) {
    if (value == kNoValue || first == nullptr) return;
    rows_.push_back({value, first, graph_.SizeBytes(value)});
  }
  /// Gives all rows of a step.
  void BindRows(int64_t step) {
    for (const Rows& rows : rows_) Bind(rows.value, rows.first + step * rows.stride);
  }
  /// Binds inputs other than states.
  void BindInputs(const graph::LoopDescription& loop, std::span<const TBlob> in_data) {
    for (size_t i = 0; i < graph_.variables.size(); ++i) {
      const size_t input = At(graph_.graph->inputs[i]);
      if (loop.inputs[input] == LoopInput::kData) {
        Add(graph_.variables[i], Bytes(in_data[input]));
      } else if (loop.inputs[input] == LoopInput::kCaptured) {
        Bind(graph_.variables[i], in_data[input].dptr_);
      }
    }
  }
  /// Binds a state to the memory that it has before a step.
  void BindState(int input, void* memory) {
    for (size_t i = 0; i < graph_.variables.size(); ++i) {
      if (graph_.graph->inputs[i] == input) Bind(graph_.variables[i], memory);
    }
  }
  /// Makes the forms of captured inputs that operators would like to have, for all steps.
  void PrepareInputs(const graph::LoopDescription& loop) {
    const PreparedProgram& program = *graph_.program;
    for (const PreparedInput& input : program.prepared_inputs()) {
      const auto found = std::find(graph_.variables.begin(), graph_.variables.end(), input.value);
      if (found == graph_.variables.end()) continue;
      const auto variable = static_cast<size_t>(found - graph_.variables.begin());
      if (loop.inputs[At(graph_.graph->inputs[variable])] != LoopInput::kCaptured) continue;
      void* const form = memory_.TryAlloc(input.form.size_bytes);
      if (form == nullptr) continue;  // the steps use the elements
      prepared_.resize(program.num_blobs());
      input.form.make({.stream = memory_.stream()}, blobs_[input.blob], form);
      prepared_[input.blob] = form;
    }
  }

  void Run(const StepCalls& calls, int begin, int end, CallMode mode) const {
    graph_.program->Run(calls, begin, end, mode, memory_.stream(),
                        {.pointers = pointers_, .blobs = blobs_, .prepared = prepared_});
  }
  void RunForward(CallMode mode) const {
    Run(graph_.program->calls(), 0, graph_.program->program().num_forward_steps, mode);
  }

 private:
  const LoopProgram& graph_;
  DeviceMemory& memory_;
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<void*> pointers_;  // of the values in arenas; others are null
  std::vector<TBlob> blobs_;
  std::vector<const void*> prepared_;
  std::vector<Rows> rows_;
};

namespace {

CallMode ModeOf(const OpContext& context) {
  return {.is_train = context.is_train, .needs_gradient = context.needs_gradient};
}

/// Calls `run`. Errors name the step.
template <typename Run>
void RunStep(int64_t step, const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    throw error.WithMessage("step " + std::to_string(step) + ": " + error.what());
  }
}

/// A state while the steps of a loop run.
struct ForwardState {
  int input;             ///< the node's
  int head;              ///< the value that a step makes
  int64_t size_bytes;    ///< of one state
  void* current;         ///< the state before the next step
  char* rows = nullptr;  ///< where the gradient wants all states, or null
  std::array<void*, 2> buffers = {nullptr, nullptr};  ///< for states that lie nowhere else

  /// Returns where the state after a step is to lie.
  void* Target(int64_t step, int64_t num_steps) const {
    if (rows != nullptr && step + 1 < num_steps) return rows + (step + 1) * size_bytes;
    return buffers[At(step % 2)];
  }
};

/// The gradient of a state while the steps of a gradient run.
struct BackwardState {
  int head_gradient;   ///< the value that a step reads, or kNoValue
  int gradient;        ///< the value that a step makes, or kNoValue for zero
  int64_t size_bytes;  ///< of one state
  void* current;       ///< the gradient of the state after the next step
  void* last;          ///< where the gradient of the first state is wanted, or null
  std::array<void*, 2> buffers = {nullptr, nullptr};
};

}  // namespace

LoopOperator::LoopOperator(std::shared_ptr<const LoopProperty> property, Device device,
                           std::span<const TShape> in_shape, std::span<const DType> in_type,
                           bool saves)
    : property_(std::move(property)),
      loop_(property_->loop()),
      device_(device),
      in_shape_(in_shape.begin(), in_shape.end()),
      in_type_(in_type.begin(), in_type.end()),
      saves_(saves) {
  if (loop_.kind == LoopKind::kWhile) num_steps_ = loop_.max_steps;
  if (loop_.kind == LoopKind::kForeach) {
    const auto data = std::find(loop_.inputs.begin(), loop_.inputs.end(), LoopInput::kData);
    num_steps_ = in_shape_[static_cast<size_t>(data - loop_.inputs.begin())][0];
  }
  if (loop_.condition.index != nullptr) condition_ = Compile(loop_.condition, false);
  for (const LoopGraph& body : loop_.bodies) bodies_.push_back(Compile(body, saves));
  const auto take_resources = [this](const LoopProgram& graph) {
    for (Variable* const var : graph.program->ResourceVars()) {
      if (std::find(resource_vars_.begin(), resource_vars_.end(), var) == resource_vars_.end()) {
        resource_vars_.push_back(var);
      }
    }
  };
  if (condition_.program != nullptr) take_resources(condition_);
  for (const LoopProgram& body : bodies_) take_resources(body);
}

LoopProgram LoopOperator::Compile(const LoopGraph& graph, bool with_gradient) const {
  graph::KnownVariables known;
  for (const int input : graph.inputs) {
    known.shapes.push_back(property_->StepShape(input, in_shape_[At(input)]));
    known.types.push_back(in_type_[At(input)]);
  }
  std::vector<OpReqType> requests(graph.index->arguments().size(), kNullOp);
  if (!with_gradient) {
    // A program for training serves inference, too.
    graph::CompiledGraph compiled = graph::Compile(graph.heads, known, requests,
                                                   {.caller = loop_.op,
                                                    .device = device_,
                                                    .training = true,
                                                    .fuses = !OperatorCall::ChecksOutputs()});
    return Number(graph, std::move(compiled.program));
  }
  // Without passes on the graph, which might exchange the nodes whose values are saved.
  const std::vector<NodeEntry> heads = HeadsToSave(graph, loop_.first_saved());
  const auto [shapes, types] = InferAll(graph::IndexedGraph(heads), known, loop_.op);
  graph::PreparedGraph prepared;
  prepared.heads = heads;
  prepared.head_gradients = graph.head_gradients;
  while (prepared.head_gradients.size() < heads.size()) {
    prepared.head_gradients.push_back(graph::MakeVariable("unread"));
  }
  prepared.gradients = graph.gradients;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (graph.has_gradient[i]) requests[i] = kWriteTo;
  }
  graph::Program program = graph::BuildProgram(heads, shapes, types, requests,
                                               {.device = device_, .prepared = &prepared});
  if (graph::FusionIsOn() && !OperatorCall::ChecksOutputs()) FuseMaps(&program);
  return Number(graph, std::move(program));
}

LoopProgram LoopOperator::Number(const LoopGraph& graph, graph::Program program) const {
  LoopProgram numbered;
  numbered.graph = &graph;
  numbered.variables.assign(graph.inputs.size(), kNoValue);
  numbered.gradients.assign(graph.inputs.size(), kNoValue);
  numbered.head_gradients.assign(graph.heads.size(), kNoValue);
  const auto argument = [&](int index) {
    return VariableAt(*graph.index, graph.index->arguments()[At(index)]);
  };
  for (int i = 0; i < program.num_values(); ++i) {
    const Value& value = program.values[At(i)];
    if (value.kind == ValueKind::kArgument) {
      numbered.variables[argument(value.index)] = i;
    } else if (value.kind == ValueKind::kAuxState) {
      const int node = graph.index->aux_states()[At(value.index)];
      numbered.variables[VariableAt(*graph.index, node)] = i;
    } else if (value.kind == ValueKind::kGradient) {
      numbered.gradients[argument(value.index)] = i;
    } else if (value.kind == ValueKind::kHeadGradient) {
      numbered.head_gradients[At(value.index)] = i;
    }
  }
  const std::vector<int>& heads = program.head_values;
  for (size_t i = 0; i < heads.size(); ++i) {
    const Value& value = program.values[At(heads[i])];
    if (value.kind == ValueKind::kOutput && At(value.index) == i) continue;
    throw Internal(loop_.op, ": output ", i, " of a step has no memory of its own");
  }
  numbered.heads.assign(heads.begin(),
                        heads.begin() + static_cast<std::ptrdiff_t>(graph.heads.size()));
  size_t next_saved = graph.heads.size();
  for (const LoopSaved& saved : graph.saved) {
    if (saved.entry.node->is_variable()) {
      const int node = graph.index->NodeId(saved.entry.node.get());
      numbered.saved.push_back(numbered.variables[VariableAt(*graph.index, node)]);
    } else if (saved.output < loop_.first_saved()) {
      numbered.saved.push_back(heads[At(saved.output)]);
    } else {
      numbered.saved.push_back(next_saved < heads.size() ? heads[next_saved] : kNoValue);
      ++next_saved;
    }
  }
  numbered.program = std::make_shared<const PreparedProgram>(
      std::move(program), graph::MemorySharing::kWithinDirection);
  numbered.blobs = numbered.program->BlobsOfValues();
  return numbered;
}

void LoopOperator::Forward(const OpContext& context, std::span<const TBlob> in_data,
                           std::span<const OpReqType> req, std::span<const TBlob> out_data) {
  DeviceMemory memory(device_, context.stream);
  const CallMode mode = ModeOf(context);
  std::optional<Frame> condition;
  std::array<unsigned char, 8> host_element = {};
  void* element = nullptr;
  if (condition_.program != nullptr) {
    condition.emplace(condition_, &memory, /*backward=*/false);
    condition->BindInputs(loop_, in_data);
    element = memory.Alloc(condition_.SizeBytes(condition_.heads[0]));
    condition->Bind(condition_.heads[0], element);
  }
  const auto test = [&] {
    condition->RunForward(mode);
    const Value& value = condition_.program->program().values[At(condition_.heads[0])];
    memory.Copy(host_element.data(), element, value.SizeBytes());
    memory.Wait();
    return IsTrue(host_element, value.dtype);
  };
  const bool chooses = loop_.kind == LoopKind::kBranch && condition.has_value();
  const size_t body = chooses && !test() ? 1 : 0;
  const LoopProgram& graph = bodies_[body];

  Frame frame(graph, &memory, /*backward=*/false);
  frame.BindInputs(loop_, in_data);
  if (num_steps_ > 1) frame.PrepareInputs(loop_);
  // Results that nobody reads lie at one place in each step.
  const auto place = [&](int value, size_t output) {
    if (req[output] != kNullOp) {
      frame.Add(value, Bytes(out_data[output]));
    } else {
      frame.Bind(value, memory.Alloc(graph.SizeBytes(value)));
    }
  };
  const auto num_results = At(loop_.num_results);
  for (size_t i = 0; i < num_results; ++i) place(graph.heads[i], i);
  std::vector<ForwardState> states;
  for (size_t i = 0; i < loop_.states.size(); ++i) {
    const int input = loop_.states[i], head = graph.heads[num_results + i];
    states.push_back({.input = input,
                      .head = head,
                      .size_bytes = graph.SizeBytes(head),
                      .current = in_data[At(input)].dptr_});
    for (void*& buffer : states.back().buffers) buffer = memory.Alloc(states.back().size_bytes);
  }
  if (saves_) {
    for (size_t i = 0; i < graph.saved.size(); ++i) {
      const LoopSaved& saved = graph.graph->saved[i];
      if (saved.output < loop_.first_saved()) continue;  // a result
      if (!saved.entry.node->is_variable()) {
        place(graph.saved[i], At(saved.output));
      } else if (req[At(saved.output)] != kNullOp) {
        const int node = graph.graph->index->NodeId(saved.entry.node.get());
        const int input = graph.graph->inputs[VariableAt(*graph.graph->index, node)];
        const auto state = std::find_if(states.begin(), states.end(), [input](const auto& other) {
          return other.input == input;
        });
        state->rows = Bytes(out_data[At(saved.output)]);
        if (num_steps_ > 0) memory.Copy(state->rows, state->current, state->size_bytes);
      }
    }
  }

  int64_t step = 0;
  for (; step < num_steps_; ++step) {
    bool ends = false;
    RunStep(step, [&] {
      if (loop_.kind == LoopKind::kWhile) {
        for (const ForwardState& state : states) condition->BindState(state.input, state.current);
        ends = !test();
        if (ends) return;
      }
      frame.BindRows(step);
      for (const ForwardState& state : states) {
        frame.BindState(state.input, state.current);
        frame.Bind(state.head, state.Target(step, num_steps_));
      }
      frame.RunForward(mode);
      for (ForwardState& state : states) state.current = state.Target(step, num_steps_);
    });
    if (ends) break;
  }

  for (size_t i = 0; i < states.size(); ++i) {
    if (req[num_results + i] == kNullOp) continue;
    memory.Copy(out_data[num_results + i].dptr_, states[i].current, states[i].size_bytes);
  }
  // The rows of steps that did not take place.
  for (size_t i = 0; i < num_results && step < num_steps_; ++i) {
    const int64_t size_bytes = graph.SizeBytes(graph.heads[i]);
    if (req[i] == kNullOp) continue;
    memory.SetZero(Bytes(out_data[i]) + step * size_bytes, (num_steps_ - step) * size_bytes);
  }
  const size_t count_output = At(loop_.num_visible());
  if (loop_.kind != LoopKind::kForeach && req[count_output] != kNullOp) {
    const int64_t count = loop_.kind == LoopKind::kBranch ? static_cast<int64_t>(body) : step;
    memory.Copy(out_data[count_output].dptr_, &count, sizeof(count));
    memory.Wait();  // the device may read the host's number later
  }
}

int64_t LoopOperator::CountOf(const TBlob& count, void* stream) const {
  int64_t value = 0;
  DeviceMemory memory(device_, stream);
  memory.Copy(&value, count.dptr_, sizeof(value));
  memory.Wait();
  return value;
}

void LoopOperator::Backward(const OpContext& context, std::span<const TBlob> out_grad,
                            std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                            std::span<const OpReqType> req, std::span<const TBlob> in_grad) {
  DeviceMemory memory(device_, context.stream);
  size_t body = 0;
  int64_t num_steps = num_steps_;
  if (loop_.kind != LoopKind::kForeach) {
    const int64_t count = CountOf(out_data[At(loop_.num_visible())], context.stream);
    if (loop_.kind == LoopKind::kBranch) {
      body = At(count);
    } else {
      num_steps = count;
    }
  }
  const LoopProgram& graph = bodies_[body];
  const std::shared_ptr<const GradientCalls> calls = CallsFor(body, req);
  const auto num_results = At(loop_.num_results);
  Frame frame(graph, &memory, /*backward=*/true);
  frame.BindInputs(loop_, in_data);
  for (size_t i = 0; i < graph.saved.size(); ++i) {
    frame.Add(graph.saved[i], Bytes(out_data[At(graph.graph->saved[i].output)]));
  }
  for (size_t i = 0; i < num_results; ++i) frame.Add(graph.head_gradients[i], Bytes(out_grad[i]));

  std::vector<int> gradients(loop_.inputs.size(), kNoValue);  // of each input
  for (size_t i = 0; i < graph.variables.size(); ++i) {
    gradients[At(graph.graph->inputs[i])] = graph.gradients[i];
  }
  std::vector<BackwardState> states;
  for (size_t i = 0; i < loop_.states.size(); ++i) {
    const size_t input = At(loop_.states[i]);
    const TBlob& gradient = out_grad[num_results + i];
    BackwardState state{.head_gradient = graph.head_gradients[num_results + i],
                        .gradient = gradients[input],
                        .size_bytes = gradient.Size() * DTypeSizeBytes(gradient.type_flag_),
                        .current = gradient.dptr_,
                        .last = req[input] == kNullOp ? nullptr : in_grad[input].dptr_};
    for (void*& buffer : state.buffers) buffer = memory.Alloc(state.size_bytes);
    states.push_back(state);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (req[i] == kNullOp || loop_.inputs[i] == LoopInput::kState) continue;
    const TBlob& gradient = in_grad[i];
    if (num_steps == 0 || gradients[i] == kNoValue) {
      memory.SetZero(gradient.dptr_, gradient.Size() * DTypeSizeBytes(gradient.type_flag_));
    } else if (loop_.inputs[i] == LoopInput::kData) {
      frame.Add(gradients[i], Bytes(gradient));
    } else {
      frame.Bind(gradients[i], gradient.dptr_);
    }
  }

  const int begin = graph.program->program().num_forward_steps;
  const int end = graph.program->program().num_steps();
  const CallMode mode = ModeOf(context);
  for (int64_t step = num_steps - 1; step >= 0; --step) {
    frame.BindRows(step);
    const auto target = [step](const BackwardState& state) {
      return step == 0 && state.last != nullptr ? state.last : state.buffers[At(step % 2)];
    };
    for (const BackwardState& state : states) {
      frame.Bind(state.head_gradient, state.current);
      if (state.gradient == kNoValue) {
        memory.SetZero(target(state), state.size_bytes);
      } else {
        frame.Bind(state.gradient, target(state));
      }
    }
    RunStep(step, [&] {
      frame.Run(step == num_steps - 1 ? calls->first : calls->later, begin, end, mode);
    });
    for (BackwardState& state : states) state.current = target(state);
  }
  for (const BackwardState& state : states) {
    if (num_steps == 0 && state.last != nullptr) {
      memory.Copy(state.last, state.current, state.size_bytes);
    }
  }
}

std::shared_ptr<const LoopOperator::GradientCalls> LoopOperator::CallsFor(
    size_t body, std::span<const OpReqType> req) {
  const LoopProgram& graph = bodies_[body];
  std::vector<OpReqType> first, later;
  for (const int argument : graph.graph->index->arguments()) {
    const size_t input = At(graph.graph->inputs[VariableAt(*graph.graph->index, argument)]);
    const LoopInput kind = loop_.inputs[input];
    // The gradient of a state goes on to the step before.
    const bool is_wanted = req[input] != kNullOp || kind == LoopInput::kState;
    first.push_back(is_wanted ? kWriteTo : kNullOp);
    later.push_back(is_wanted && kind == LoopInput::kCaptured ? kAddTo : first.back());
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const GradientCalls>& calls = calls_[{body, first}];
  if (calls == nullptr) {
    calls = std::make_shared<const GradientCalls>(
        GradientCalls{graph.program->CallsFor(first), graph.program->CallsFor(later)});
  }
  return calls;
}

std::shared_ptr<Operator> MakeLoopOperator(const graph::Step& step, Device device) {
  const bool is_gradient = step.node->forward != nullptr;
  const graph::Node& node = is_gradient ? *step.node->forward : *step.node;
  auto property = std::dynamic_pointer_cast<const LoopProperty>(node.property);
  if (property == nullptr) return nullptr;
  bool saves = is_gradient;
  for (size_t i = At(property->loop().first_saved()); i < step.outputs.size() && !is_gradient;
       ++i) {
    saves |= step.req[i] != kNullOp;
  }
  try {
    return std::make_shared<LoopOperator>(std::move(property), device, step.in_shapes,
                                          step.in_types, saves);
  } catch (const Error& error) {
    throw error.WithMessage("node \"" + Excerpt(node.name) + "\": " + error.what());
  }
}

}  // namespace tessera::symbol_internal
