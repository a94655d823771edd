#include "tessera/symbol/run/step_runner.h"

#include <algorithm>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/memory/device_runtime.h"

namespace tessera::symbol_internal {
namespace {

using base_internal::At;
using graph::kNoValue;
using ndarray_internal::ArrayAccess;

/// The real variables of a segment's operation.
struct OperationVariables {
  OperationVariables(const Binding& binding, const Segment& segment) {
    const auto list = [&binding](const std::vector<int>& values, std::vector<Variable*>* result) {
      for (const int value : values) {
        // Null for a gradient that the calls leave out.
        Variable* const variable = binding.variables[At(value)];
        if (variable != nullptr) result->push_back(variable);
      }
    };
    list(segment.reads, &reads);
    list(segment.writes, &writes);
    list(segment.updates, &updates);
    writes.insert(writes.end(), segment.resources.begin(), segment.resources.end());
  }

  std::vector<Variable*> reads, writes, updates;
};

/// Throws the errors of earlier operations on arrays that the segment changes in part. The engine
/// assumes that a write replaces everything.
void ThrowKept(const RunContext& context, const Binding& binding, const Segment& segment) {
  for (const int value : segment.kept) context.engine->Throw(binding.variables[At(value)]);
  for (const int value : segment.writes) {
    if (binding.keeps_old[At(value)]) context.engine->Throw(binding.variables[At(value)]);
  }
}

SyncFn MakeFunction(const SegmentRun& run, const Segment& segment) {
  return [run, &segment](const RunContext& context) {
    const PreparedProgram& program = *run.program;
    const Binding& binding = *run.binding;
    ThrowKept(context, binding, segment);
    RunOnDevice(program.DeviceOf(segment), [&](void* stream) {
      program.Run(run.calls == nullptr ? program.calls() : *run.calls, segment.begin, segment.end,
                  run.mode, stream, {.pointers = binding.pointers, .blobs = binding.blobs});
    });
  };
}

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

void PushSegment(const SegmentRun& run, const Segment& segment) {
  const OperationVariables variables(*run.binding, segment);
  Engine::Get()->PushSync(MakeFunction(run, segment), Device::Cpu(), variables.reads,
                          variables.writes,
                          {.property = segment.property,
                           .name = "graph segment",
                           .updates = variables.updates,
                           .merge_duplicates = true});
}

SegmentOperators::SegmentOperators(const SegmentRun& run, std::span<const Segment> segments)
    : engine_(Engine::Get()) {
  try {
    for (const Segment& segment : segments) {
      const OperationVariables variables(*run.binding, segment);
      operators_.push_back(engine_->NewOperator(MakeFunction(run, segment), variables.reads,
                                                variables.writes,
                                                {.property = segment.property,
                                                 .name = "graph segment",
                                                 .updates = variables.updates,
                                                 .merge_duplicates = true}));
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
  const OperationVariables variables(*binding_, *segment);
  const SyncFn run = MakeFunction({program_, binding_, nullptr, mode}, *segment);
  Engine::Get()->PushSync([run, segment](const RunContext& context) { run(context); },
                          Device::Cpu(), variables.reads, variables.writes,
                          {.property = segment->property,
                           .name = "graph step",
                           .updates = variables.updates,
                           .merge_duplicates = true});
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
