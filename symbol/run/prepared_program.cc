#include "tessera/symbol/run/prepared_program.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/passes/recompute.h"
#include "tessera/symbol/run/loop_operator.h"

namespace tessera::symbol_internal {
namespace {

using base_internal::At;
using graph::kNoValue;
using graph::MemorySharing;
using graph::Program;
using graph::Step;
using graph::Value;
using graph::ValueKind;

// A step of up to this many elements takes about ten microseconds at most. A second worker could
// not take over enough of it to justify waking the worker.
constexpr int64_t kShortStepElements = int64_t{1} << 16;
// Bounds the time for which a segment keeps other operations from results that it has already
// computed.
constexpr int kMaxSteps = 16;

void SortUnique(std::vector<int>* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

/// Returns whether the operator of a forward step can also call Backward.
bool HasBackward(const Operator& op) {
  const auto* const loop = dynamic_cast<const LoopOperator*>(&op);
  return loop == nullptr || loop->saves();
}

bool Contains(const std::vector<int>& sorted, int value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

}  // namespace

PreparedProgram::PreparedProgram(Program program, MemorySharing sharing, SegmentSize segment_size,
                                 const MemoryBudget& budget)
    : program_(std::move(program)) {
  MakeCalls();
  if (budget.size_bytes != 0 &&
      FitMemoryBudget(&program_, sharing, budget.size_bytes, budget.caller)) {
    MakeCalls();
  }
  plan_ = PlanMemory(&program_, sharing);
  first_writer_.assign(program_.values.size(), kNoValue);
  for (int i = 0; i < program_.num_steps(); ++i) {
    const Step& step = program_.steps[At(i)];
    // The plan lets outputs be written in place.
    if (step.req != calls_[At(i)]->req()) calls_[At(i)] = calls_[At(i)]->WithRequests(step.req);
    for (const int value : step.Writes()) {
      if (first_writer_[At(value)] == kNoValue) first_writer_[At(value)] = i;
    }
  }
  if (!has_gradient()) FindPreparedInputs();
  for (int value = 0; value < program_.num_values(); ++value) variable_of_.push_back(value);
  CutSegments(segment_size, 0, program_.num_forward_steps);
  num_forward_segments_ = segments_.size();
  CutSegments(segment_size, program_.num_forward_steps, program_.num_steps());
  // Lists refer to variables of segments that are cut later: those of the run before.
  for (Segment& segment : segments_) segment = MakeSegment(segment.begin, segment.end);
}

void PreparedProgram::MakeCalls() {
  calls_.clear();
  blobs_.clear();
  blob_value_.clear();
  first_blob_.clear();
  // A step and its gradient share the operator.
  std::unordered_map<const graph::Node*, int> step_of;
  for (int i = 0; i < program_.num_steps(); ++i) {
    Step& step = program_.steps[At(i)];
    step_of.emplace(step.node.get(), i);
    const auto forward = step_of.find(step.node->forward.get());
    const bool is_shared = forward != step_of.end() &&
                           program_.steps[At(forward->second)].device == step.device &&
                           HasBackward(*calls_[At(forward->second)]->op());
    const Device device = program_.devices[At(step.device)];
    const auto call = std::make_shared<OperatorCall>(
        step.node->name, step.node->property, device, step.in_shapes, step.in_types, step.req,
        is_shared ? calls_[At(forward->second)]->op() : MakeLoopOperator(step, device),
        graph::NamedImplementation(*step.node));
    first_blob_.push_back(blobs_.size());
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (const int value : *list) {
        blob_value_.push_back(value);
        TBlob& blob = blobs_.emplace_back();
        if (value == kNoValue) continue;
        const Value& v = program_.values[At(value)];
        blob = TBlob(nullptr, v.shape, v.dtype, program_.devices[At(v.device)]);
      }
    }
    const std::span<const TBlob> blobs = std::span(blobs_).subspan(first_blob_.back());
    const int64_t workspace_bytes =
        call->PlanWorkspace(blobs.first(step.inputs.size()), blobs.subspan(step.inputs.size()));
    if (workspace_bytes > 0 && !program_.has_workspaces) {
      step.workspace = program_.num_values();
      program_.values.push_back(
          {.shape = TShape{workspace_bytes}, .dtype = DType::kUint8, .device = step.device});
    }
    calls_.push_back(call);
  }
  first_blob_.push_back(blobs_.size());
  program_.has_workspaces = true;
}

MemoryPlanSummary PreparedProgram::MemorySummary() const {
  const auto in_arrays = std::count(plan_.value_arena.begin(), plan_.value_arena.end(), kNoValue);
  const auto workspaces =
      std::count_if(program_.steps.begin(), program_.steps.end(),
                    [](const Step& step) { return step.workspace != kNoValue; });
  return {.values = program_.num_values() - static_cast<int>(in_arrays + workspaces),
          .inplace = plan_.inplace,
          .planned_bytes = plan_.SizeBytes(),
          .unplanned_bytes = plan_.unplanned_bytes,
          .liveness_bytes = plan_.liveness_bytes};
}

bool PreparedProgram::IsIntermediate(int value) const {
  return program_.values[At(value)].kind == ValueKind::kIntermediate;
}

int64_t PreparedProgram::Elements(const Step& step) const {
  int64_t elements = 0;
  for (const int value : step.Writes()) {
    if (value != step.workspace) elements += program_.values[At(value)].shape.Size();
  }
  for (const int value : step.Reads()) elements += program_.values[At(value)].shape.Size();
  return elements;
}

Device PreparedProgram::DeviceOf(const Segment& segment) const {
  return program_.devices[At(program_.steps[At(segment.begin)].device)];
}

Device PreparedProgram::DeviceOf(const PreparedInput& input) const {
  return program_.devices[At(program_.steps[At(input.step)].device)];
}

void PreparedProgram::AppendResources(int step, std::vector<Variable*>* variables) const {
  const OperatorCall& call = *calls_[At(step)];
  const auto append = [variables](const std::vector<Variable*>& others) {
    for (Variable* const var : others) {
      if (std::find(variables->begin(), variables->end(), var) == variables->end()) {
        variables->push_back(var);
      }
    }
  };
  append(call.resource_vars());
  if (const auto* const loop = dynamic_cast<const LoopOperator*>(call.op().get())) {
    append(loop->resource_vars());
  }
}

std::vector<Variable*> PreparedProgram::ResourceVars() const {
  std::vector<Variable*> variables;
  for (int i = 0; i < program_.num_steps(); ++i) AppendResources(i, &variables);
  return variables;
}

void PreparedProgram::FindPreparedInputs() {
  const auto is_kept = [this](int value) {
    const ValueKind kind = program_.values[At(value)].kind;
    const bool is_given =
        kind == ValueKind::kArgument || kind == ValueKind::kAuxState || kind == ValueKind::kFixed;
    return is_given && first_writer_[At(value)] == kNoValue;
  };
  for (int i = 0; i < program_.num_steps(); ++i) {
    const Step& step = program_.steps[At(i)];
    const Device device = program_.devices[At(step.device)];
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      if (!is_kept(step.inputs[k])) continue;
      PreparedForm form = calls_[At(i)]->op()->InputForm(static_cast<int>(k), device,
                                                         step.in_shapes, step.in_types);
      if (form.size_bytes == 0) continue;
      std::string name = step.node->inputs[k].node->name + " as " + form.name;
      prepared_inputs_.push_back(
          {i, step.inputs[k], first_blob_[At(i)] + k, std::move(form), std::move(name)});
    }
  }
}

void PreparedProgram::CutSegments(SegmentSize size, int begin, int end) {
  const auto is_short = [&](int i) {
    return Elements(program_.steps[At(i)]) <= kShortStepElements &&
           calls_[At(i)]->fn_property() == FnProperty::kNormal &&
           dynamic_cast<const LoopOperator*>(calls_[At(i)]->op().get()) == nullptr;
  };
  for (int first = begin; first < end;) {
    int last = first + 1;
    if (size == SegmentSize::kManySteps && is_short(first)) {
      const int device = program_.steps[At(first)].device;
      while (last < end && last - first < kMaxSteps && is_short(last) &&
             program_.steps[At(last)].device == device) {
        ++last;
      }
    }
    segments_.push_back({.begin = first, .end = last});
    int variable = kNoValue;
    for (int i = first; i < last; ++i) {
      for (const int value : program_.steps[At(i)].Writes()) {
        if (!IsIntermediate(value) || first_writer_[At(value)] != i) continue;
        if (variable == kNoValue || size == SegmentSize::kOneStep) {
          variable = value;
          intermediate_variables_.push_back(value);
        }
        variable_of_[At(value)] = variable;
      }
    }
    first = last;
  }
}

Segment PreparedProgram::MakeSegment(int begin, int end) const {
  Segment segment{.begin = begin, .end = end};
  std::vector<int> uses;            // variables whose contents from before the segment are used
  std::unordered_set<int> written;  // values that the steps so far write
  const auto use = [&](int value) {
    if (!written.contains(value)) uses.push_back(VariableOf(value));
  };
  for (int i = begin; i < end; ++i) {
    const Step& step = program_.steps[At(i)];
    for (const int value : step.Reads()) use(value);
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.req[k] == kAddTo) use(step.outputs[k]);
    }
    for (const int value : step.Writes()) {
      written.insert(value);
      segment.writes.push_back(VariableOf(value));
      if (first_writer_[At(value)] != i) continue;
      for (const int previous : plan_.previous[At(value)]) {
        segment.writes.push_back(VariableOf(previous));
      }
    }
    AppendResources(i, &segment.resources);
    segment.property = calls_[At(i)]->fn_property();  // alone in its segment unless it is normal
  }
  const auto first =
      std::lower_bound(prepared_inputs_.begin(), prepared_inputs_.end(), begin,
                       [](const PreparedInput& input, int step) { return input.step < step; });
  for (auto input = first; input != prepared_inputs_.end() && input->step < end; ++input) {
    segment.prepared.push_back(static_cast<size_t>(input - prepared_inputs_.begin()));
  }
  SortUnique(&uses);
  SortUnique(&segment.writes);
  std::vector<int> writes;
  for (const int value : segment.writes) {
    if (!Contains(uses, value)) {
      writes.push_back(value);
    } else if (IsIntermediate(value)) {
      segment.updates.push_back(value);
    } else {
      writes.push_back(value);
      segment.kept.push_back(value);
    }
  }
  for (const int value : uses) {
    if (!Contains(segment.writes, value)) segment.reads.push_back(value);
  }
  segment.writes = std::move(writes);
  return segment;
}

StepCalls PreparedProgram::CallsFor(std::span<const OpReqType> requests) const {
  StepCalls calls(calls_.size());
  std::vector<bool> wanted(program_.values.size(), false);
  const auto is_gradient = [this](int value) {
    return value != kNoValue && program_.values[At(value)].kind == ValueKind::kGradient;
  };
  const auto request_of = [&](int value) { return requests[At(program_.values[At(value)].index)]; };
  for (int value = 0; value < program_.num_values(); ++value) {
    wanted[At(value)] = is_gradient(value) && request_of(value) != kNullOp;
  }
  for (int i = program_.num_steps() - 1; i >= program_.num_forward_steps; --i) {
    const Step& step = program_.steps[At(i)];
    std::vector<OpReqType> req = step.req;
    bool is_needed = std::any_of(req.begin() + static_cast<ptrdiff_t>(step.outputs.size()),
                                 req.end(), [](OpReqType mutated) { return mutated != kNullOp; });
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      const int value = step.outputs[k];
      if (req[k] == kNullOp) continue;
      if (!wanted[At(value)]) {
        if (static_cast<int>(k) != step.held_output) req[k] = kNullOp;
        continue;
      }
      is_needed = true;
      // The first step that writes the gradient adds to the caller's array; later ones add anyway.
      if (is_gradient(value) && first_writer_[At(value)] == i) {
        req[k] = request_of(value) == kAddTo ? kAddTo : kWriteTo;
      }
    }
    if (!is_needed) continue;
    for (const int value : step.inputs) wanted[At(value)] = true;
    const std::shared_ptr<const OperatorCall>& call = calls_[At(i)];
    calls[At(i)] = req == step.req ? call : call->WithRequests(std::move(req));
  }
  return calls;
}

std::vector<TBlob> PreparedProgram::MakeBlobs(std::span<void* const> pointers) const {
  std::vector<TBlob> blobs = blobs_;
  for (size_t i = 0; i < blobs.size(); ++i) {
    if (blob_value_[i] != kNoValue) blobs[i].dptr_ = pointers[At(blob_value_[i])];
  }
  return blobs;
}

std::vector<std::vector<size_t>> PreparedProgram::BlobsOfValues() const {
  std::vector<std::vector<size_t>> blobs(program_.values.size());
  for (size_t i = 0; i < blob_value_.size(); ++i) {
    if (blob_value_[i] != kNoValue) blobs[At(blob_value_[i])].push_back(i);
  }
  return blobs;
}

void PreparedProgram::Run(const StepCalls& calls, int begin, int end, CallMode mode, void* stream,
                          const StepMemory& memory) const {
  const size_t first = first_blob_[At(begin)];
  std::vector<TBlob> own;
  const TBlob* blobs = memory.blobs.data() + first;
  if (memory.blobs.empty()) {
    const auto at = [this](size_t i) { return blobs_.begin() + static_cast<ptrdiff_t>(i); };
    own.assign(at(first), at(first_blob_[At(end)]));
    for (size_t i = 0; i < own.size(); ++i) {
      const int value = blob_value_[first + i];
      if (value != kNoValue) own[i].dptr_ = memory.pointers[At(value)];
    }
    blobs = own.data();
  }
  for (int i = begin; i < end; ++i) {
    const Step& step = program_.steps[At(i)];
    const size_t num_inputs = step.inputs.size(), num_outputs = step.outputs.size();
    if (calls[At(i)] != nullptr) {
      std::span<std::byte> workspace;
      if (step.workspace != kNoValue && memory.pointers[At(step.workspace)] != nullptr) {
        workspace = {static_cast<std::byte*>(memory.pointers[At(step.workspace)]),
                     static_cast<size_t>(program_.values[At(step.workspace)].SizeBytes())};
      }
      calls[At(i)]->Run(mode, stream, {blobs, num_inputs}, {blobs + num_inputs, num_outputs},
                        memory.prepared.empty()
                            ? memory.prepared
                            : memory.prepared.subspan(first_blob_[At(i)], num_inputs),
                        workspace);
    }
    blobs += num_inputs + num_outputs;
  }
}

}  // namespace tessera::symbol_internal
