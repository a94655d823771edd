#include "tessera/symbol/run/step_runner.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera::symbol_internal {
namespace {

using base_internal::At;
using graph::kNoValue;
using ndarray_internal::ArrayAccess;

/// The real variables of segments' operations, one segment after another, in memory that is
/// allocated once.
class OperationVariables {
 public:
  /// Makes room for each of the segments, and for one more variable.
  explicit OperationVariables(std::span<const Segment> segments) {
    size_t most = 0;
    for (const Segment& segment : segments) {
      most = std::max(most, segment.reads.size() + segment.prepared.size() + segment.writes.size() +
                                segment.resources.size() + segment.updates.size());
    }
    variables_.reserve(most + 1);
  }

  /// Lists the variables of a segment. The operation also reads `extra`, unless it is null.
  void List(const Binding& binding, const Segment& segment, Variable* extra = nullptr) {
    variables_.clear();
    if (extra != nullptr) variables_.push_back(extra);
    Append(binding, segment.reads);
    if (!binding.forms.empty()) AppendForms(binding, segment.prepared);
    num_reads_ = variables_.size();
    Append(binding, segment.writes);
    variables_.insert(variables_.end(), segment.resources.begin(), segment.resources.end());
    num_writes_ = variables_.size() - num_reads_;
    Append(binding, segment.updates);
  }

  VariableList reads() const { return All().first(num_reads_); }
  VariableList writes() const { return All().subspan(num_reads_, num_writes_); }
  VariableList updates() const { return All().subspan(num_reads_ + num_writes_); }

 private:
  std::span<Variable* const> All() const { return variables_; }

  void Append(const Binding& binding, const std::vector<int>& values) {
    for (const int value : values) {
      // Null for a gradient that the calls leave out.
      Variable* const variable = binding.variables[At(value)];
      if (variable != nullptr) variables_.push_back(variable);
    }
  }

  void AppendForms(const Binding& binding, const std::vector<size_t>& inputs) {
    for (const size_t input : inputs) {
      const NDArray& form = binding.forms[input];
      if (!form.is_none()) variables_.push_back(ArrayAccess::Var(form));
    }
  }

  std::vector<Variable*> variables_;  // reads, then writes, then updates
  size_t num_reads_ = 0;
  size_t num_writes_ = 0;
};

/// Throws the errors of earlier operations on arrays that the segment changes in part. The engine
/// assumes that a write replaces everything.
void ThrowKept(const RunContext& context, const Binding& binding, const Segment& segment) {
  for (const int value : segment.kept) context.engine->Throw(binding.variables[At(value)]);
  for (const int value : segment.writes) {
    if (binding.keeps_old[At(value)]) context.engine->Throw(binding.variables[At(value)]);
  }
}

/// Runs a segment, inside its operation.
void RunSegment(const SegmentRun& run, const Segment& segment, const RunContext& context) {
  const PreparedProgram& program = *run.program;
  const Binding& binding = *run.binding;
  ThrowKept(context, binding, segment);
  RunOnDevice(program.DeviceOf(segment), [&](void* stream) {
    program.Run(
        run.calls == nullptr ? program.calls() : *run.calls, segment.begin, segment.end, run.mode,
        stream,
        {.pointers = binding.pointers, .blobs = binding.blobs, .prepared = binding.prepared});
  });
}

/// Returns an operation's function that owns the run.
SyncFn MakeFunction(std::shared_ptr<const SegmentRun> run, const Segment& segment) {
  return [run = std::move(run), &segment](const RunContext& context) {
    RunSegment(*run, segment, context);
  };
}

PushOptions OptionsFor(const Segment& segment, const OperationVariables& variables,
                       std::string_view name = "graph segment") {
  return {.property = segment.property,
          .name = name,
          .updates = variables.updates(),
          .merge_duplicates = true};
}

/// Owns a run until all operations that read its variable are complete, in place of the operations'
/// functions. A function that owns something has memory of its own.
class RunOwner {
 public:
  explicit RunOwner(std::shared_ptr<const SegmentRun> run)
      : run_(std::move(run)),
        engine_(Engine::Get()),
        variable_(engine_->NewVariable("graph run")) {}
  /// Pushes the end of the run.
  ~RunOwner() {
    try {
      // First among those that are ready, because it frees memory.
      engine_->PushSync([run = run_](const RunContext&) {}, Device::Cpu(), {}, {variable_},
                        {.priority = std::numeric_limits<int>::max(), .name = "end of graph"});
      engine_->DeleteVariable(variable_);
    } catch (...) {
      // There is no memory for the operation, or the process is ending. The run is lost, which is
      // safe.
      new (std::nothrow) std::shared_ptr<const SegmentRun>(std::move(run_));
    }
  }
  RunOwner(const RunOwner&) = delete;
  RunOwner& operator=(const RunOwner&) = delete;

  Variable* variable() const { return variable_; }

 private:
  std::shared_ptr<const SegmentRun> run_;
  Engine* const engine_;
  Variable* const variable_;
};

}  // namespace

VariableSet::VariableSet(size_t count) : engine_(Engine::Get()) {
  variables_.reserve(count);
  try {
    for (size_t i = 0; i < count; ++i) variables_.push_back(engine_->NewVariable("segment"));
  } catch (...) {
    for (Variable* const variable : variables_) engine_->DeleteVariable(variable);
    throw;
  }
}

VariableSet::~VariableSet() {
  try {
    for (Variable* const variable : variables_) engine_->DeleteVariable(variable);
  } catch (...) {
    // The engine accepts no more work, because the process is ending.
  }
}

Arena::Arena(int64_t size_bytes, Device device)
    : handle_(Storage::Get()->Alloc(size_bytes, device, "graph")) {}

Arena::~Arena() {
  try {
    Storage::Get()->Free(handle_);
  } catch (...) {
    // Storage's records are damaged; the block is lost, which is safe.
  }
}

Binding::Binding(const PreparedProgram& program)
    : pointers(program.program().values.size()),
      variables(pointers.size()),
      arrays(pointers.size()),
      keeps_old(pointers.size(), false) {}

void Binding::SetArray(int value, const NDArray& array) {
  pointers[At(value)] = ArrayAccess::Data(array).dptr_;
  variables[At(value)] = ArrayAccess::Var(array);
  keeps_old[At(value)] = ArrayAccess::Memory(array).IsPart();
  arrays[At(value)] = array;
}

void Binding::SetArenas(const PreparedProgram& program,
                        std::vector<std::shared_ptr<Arena>> given_arenas,
                        std::shared_ptr<const VariableSet> set) {
  arenas = std::move(given_arenas);
  own_variables = std::move(set);
  const graph::MemoryPlan& plan = program.plan();
  for (size_t value = 0; value < pointers.size(); ++value) {
    const int arena = plan.value_arena[value];
    if (arena == kNoValue || arenas[At(arena)] == nullptr) continue;
    pointers[value] = static_cast<char*>(arenas[At(arena)]->data()) + plan.value_offset[value];
  }
  const std::vector<int>& values = program.intermediate_variables();
  for (size_t i = 0; i < values.size(); ++i) {
    variables[At(values[i])] = own_variables->variables()[i];
  }
}

void Binding::SetForm(const PreparedProgram& program, size_t index, const NDArray& form) {
  forms.resize(program.prepared_inputs().size());
  prepared.resize(program.num_blobs());
  forms[index] = form;
}

NDArray MakeForm(const PreparedInput& input, Device device) {
  return NDArray(TShape{input.form.size_bytes}, device, DType::kUint8, /*delay_alloc=*/true,
                 "prepared");
}

const void* AllocateForm(const NDArray& form) {
  try {
    return ArrayAccess::Data(form).dptr_;
  } catch (const Error& error) {
    if (error.code() != Error::kResourceExhausted) throw;
    return nullptr;
  }
}

void PushForm(std::shared_ptr<const PreparedProgram> program, size_t index, const NDArray& source,
              const NDArray& form) {
  Engine::Get()->PushSync(
      [program = std::move(program), index, source, form](const RunContext&) {
        const PreparedInput& input = program->prepared_inputs()[index];
        RunOnDevice(form.device(), [&](void* stream) {
          input.form.make({.stream = stream}, ArrayAccess::Data(source),
                          ArrayAccess::Data(form).dptr_);
        });
      },
      Device::Cpu(), {ArrayAccess::Var(source)}, {ArrayAccess::Var(form)},
      {.name = "prepared input"});
}

PreparedInputs::PreparedInputs(std::shared_ptr<const PreparedProgram> program,
                               std::shared_ptr<Binding> binding)
    : program_(std::move(program)), binding_(std::move(binding)) {
  const std::vector<PreparedInput>& inputs = program_->prepared_inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs_.push_back({i});
    binding_->SetForm(*program_, i, MakeForm(inputs[i], program_->DeviceOf(inputs[i])));
  }
}

void PreparedInputs::Update() {
  for (Input& input : inputs_) {
    const PreparedInput& prepared = program_->prepared_inputs()[input.index];
    const NDArray& source = binding_->arrays[At(prepared.value)];
    const NDArray& form = binding_->forms[input.index];
    const bool is_same = input.contents.AreOf(source);
    if (is_same == input.has_form) {
      if (!is_same) input.contents = ndarray_internal::ArrayContents(source);
      continue;
    }
    // Operations that read the form's variable read the pointer. It stays null if the elements
    // carry an error; giving the form up ends that.
    Variable* const var = ArrayAccess::Var(form);
    if (is_same) {
      const void* const memory = AllocateForm(form);
      if (memory == nullptr) continue;
      PushForm(program_, input.index, source, form);
      Engine::Get()->PushSync([binding = binding_, blob = prepared.blob,
                               memory](const RunContext&) { binding->prepared[blob] = memory; },
                              Device::Cpu(), {}, {},
                              {.name = "use of a prepared input", .updates = {var}});
    } else {
      Engine::Get()->PushSync([binding = binding_, blob = prepared.blob](
                                  const RunContext&) { binding->prepared[blob] = nullptr; },
                              Device::Cpu(), {}, {var}, {.name = "end of a prepared input"});
      input.contents = ndarray_internal::ArrayContents(source);
    }
    input.has_form = is_same;
  }
}

void AddArenas(const PreparedProgram& program, bool backward,
               std::vector<std::shared_ptr<Arena>> reused,
               std::vector<std::shared_ptr<Arena>>* arenas) {
  const std::vector<graph::MemoryPlan::Arena>& planned = program.plan().arenas;
  arenas->resize(planned.size());
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].size_bytes == 0 || planned[i].backward != backward) continue;
    if ((*arenas)[i] != nullptr) continue;
    const Device device = program.program().devices[At(planned[i].device)];
    const auto found = std::find_if(reused.begin(), reused.end(), [&](const auto& arena) {
      return arena != nullptr && arena->device() == device &&
             arena->size_bytes() >= planned[i].size_bytes;
    });
    if (found == reused.end()) {
      (*arenas)[i] = std::make_shared<Arena>(planned[i].size_bytes, device);
    } else {
      (*arenas)[i] = std::exchange(*found, nullptr);
    }
  }
}

void PushSegments(SegmentRun given, std::span<const Segment> segments) {
  if (segments.empty()) return;
  Engine* const engine = Engine::Get();
  const auto run = std::make_shared<const SegmentRun>(std::move(given));
  OperationVariables variables(segments);
  if (segments.size() == 1) {
    variables.List(*run->binding, segments[0]);
    engine->PushSync(MakeFunction(run, segments[0]), Device::Cpu(), variables.reads(),
                     variables.writes(), OptionsFor(segments[0], variables));
    return;
  }
  const RunOwner owner(run);
  for (const Segment& segment : segments) {
    variables.List(*run->binding, segment, owner.variable());
    engine->PushSync([run = run.get(),
                      &segment](const RunContext& context) { RunSegment(*run, segment, context); },
                     Device::Cpu(), variables.reads(), variables.writes(),
                     OptionsFor(segment, variables));
  }
}

SegmentOperators::SegmentOperators(SegmentRun given, std::span<const Segment> segments)
    : engine_(Engine::Get()) {
  const auto run = std::make_shared<const SegmentRun>(std::move(given));
  OperationVariables variables(segments);
  try {
    for (const Segment& segment : segments) {
      variables.List(*run->binding, segment);
      operators_.push_back(engine_->NewOperator(MakeFunction(run, segment), variables.reads(),
                                                variables.writes(),
                                                OptionsFor(segment, variables)));
    }
  } catch (...) {
    for (EngineOperator* const op : operators_) engine_->DeleteOperator(op);
    throw;
  }
}

SegmentOperators::~SegmentOperators() {
  try {
    for (EngineOperator* const op : operators_) engine_->DeleteOperator(op);
  } catch (...) {
    // The engine accepts no more work, because the process is ending.
  }
}

void SegmentOperators::Push() const {
  for (EngineOperator* const op : operators_) engine_->Push(op, Device::Cpu());
}

BoundProgram::BoundProgram(std::shared_ptr<const PreparedProgram> program,
                           std::shared_ptr<const Binding> binding)
    : program_(std::move(program)), binding_(std::move(binding)) {}

void BoundProgram::PushForward(CallMode mode) {
  UseArenas();
  next_step_ = kNoValue;
  Push(program_->forward(), /*backward=*/false, mode);
}

void BoundProgram::PushBackward(CallMode mode) {
  Push(program_->backward(), /*backward=*/true, mode);
}

void BoundProgram::Push(std::span<const Segment> segments, bool backward, CallMode mode) {
  std::unique_ptr<SegmentOperators>& operators =
      operators_[(backward ? 2 : 0) + (mode.is_train ? 1 : 0)];
  if (operators == nullptr) {
    mode.caller = nullptr;  // later runs may have another
    operators =
        std::make_unique<SegmentOperators>(SegmentRun{program_, binding_, nullptr, mode}, segments);
  }
  is_interrupted_ = true;
  operators->Push();
  is_interrupted_ = false;
}

void BoundProgram::PushStep(int i, CallMode mode) {
  // A step may follow the one before it, or complete runs; everything else waits.
  if (i != next_step_) {
    if (i != 0) is_interrupted_ = true;
    UseArenas();
  }
  is_interrupted_ = true;
  next_step_ = i + 1;
  // The operation's function keeps the segment alive.
  const auto segment = std::make_shared<const Segment>(program_->MakeSegment(i, i + 1));
  OperationVariables variables({segment.get(), 1});
  variables.List(*binding_, *segment);
  const auto run =
      std::make_shared<const SegmentRun>(SegmentRun{program_, binding_, nullptr, mode});
  Engine::Get()->PushSync(
      [run, segment](const RunContext& context) { RunSegment(*run, *segment, context); },
      Device::Cpu(), variables.reads(), variables.writes(),
      OptionsFor(*segment, variables, "graph step"));
}

bool BoundProgram::HoldsArenas() const {
  return std::all_of(binding_->arenas.begin(), binding_->arenas.end(), [this](const auto& arena) {
    return arena == nullptr || arena->user == binding_->own_variables;
  });
}

void BoundProgram::UseArenas() {
  const std::shared_ptr<const VariableSet>& own = binding_->own_variables;
  if (own == nullptr) return;
  std::vector<Variable*> others;
  // An arena may hold the last reference to the variables of a user that is gone.
  std::vector<std::shared_ptr<const VariableSet>> users;
  for (const std::shared_ptr<Arena>& arena : binding_->arenas) {
    if (arena == nullptr) continue;
    const std::shared_ptr<const VariableSet> user = std::exchange(arena->user, own);
    if (user == nullptr || user == own) continue;
    others.insert(others.end(), user->variables().begin(), user->variables().end());
    users.push_back(user);
  }
  if (others.empty() && !std::exchange(is_interrupted_, false)) return;
  others.insert(others.end(), own->variables().begin(), own->variables().end());
  own->engine()->PushSync([](RunContext) {}, Device::Cpu(), {}, others,
                          {.name = "reuse of memory", .merge_duplicates = true});
}

}  // namespace tessera::symbol_internal
