#include "tessera/symbol/run/recorded_graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/imperative.h"

namespace tessera::symbol_internal {

using base_internal::At;
using graph::Program;
using graph::Value;
using graph::ValueKind;
using ndarray_internal::ArrayAccess;
using ndarray_internal::ArrayMemory;

namespace {

/// Gives each of several gradients that are one array memory of its own, except for the first, and
/// adds the others at the end.
class DistinctGradients {
 public:
  DistinctGradients(std::span<const OpReqType> req, std::span<const NDArray> in_grads)
      : req_(req.begin(), req.end()), arrays_(in_grads.begin(), in_grads.end()) {
    std::unordered_map<Variable*, std::vector<ArrayMemory>> written;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (req_[i] == kNullOp) continue;
      const ArrayMemory memory = ArrayAccess::Memory(arrays_[i]);
      std::vector<ArrayMemory>& others = written[memory.var];
      const bool is_distinct =
          std::none_of(others.begin(), others.end(),
                       [&memory](const ArrayMemory& other) { return memory.Overlaps(other); });
      others.push_back(memory);
      if (is_distinct) continue;
      later_.push_back({i, req_[i], arrays_[i]});
      arrays_[i] = NDArray(arrays_[i].shape(), arrays_[i].device(), arrays_[i].dtype());
      req_[i] = kWriteTo;
    }
  }

  const std::vector<OpReqType>& req() const { return req_; }
  const std::vector<NDArray>& arrays() const { return arrays_; }

  /// Writes or adds the gradients that were computed elsewhere.
  void Finish() const {
    for (const Later& later : later_) {
      Invoke("_copy", {&arrays_[later.input], 1}, {&later.target, 1}, {}, later.req);
    }
  }

 private:
  struct Later {
    size_t input;
    OpReqType req;
    NDArray target;
  };

  std::vector<OpReqType> req_;
  std::vector<NDArray> arrays_;
  std::vector<Later> later_;
};

}  // namespace

RecordedGraph::RecordedGraph(std::shared_ptr<CompiledCall> compiled, const Binding& binding,
                             CallState state)
    : compiled_(std::move(compiled)), state_(std::move(state)) {
  const std::vector<bool>& saved = compiled_->saved();
  for (size_t value = 0; value < saved.size(); ++value) {
    if (!saved[value] || binding.arrays[value].is_none()) continue;
    saved_.push_back({static_cast<int>(value), binding.arrays[value].Detach(),
                      binding.variables[value]->version()});
  }
}

RecordedGraph::~RecordedGraph() {
  try {
    compiled_->GiveState(std::move(state_));
  } catch (...) {
    // There is no memory to keep the state, which is freed.
  }
}

const std::string& RecordedGraph::name() const {
  static const std::string kName = "CachedOp";
  return kName;
}

void RecordedGraph::RequireUnchanged() const {
  for (const SavedArray& saved : saved_) {
    const Value& value = compiled_->program()->program().values[At(saved.value)];
    // Training changes aux states. Gradients do not read the new values' differences.
    if (value.kind == ValueKind::kAuxState) continue;
    if (saved.array.var()->version() == saved.version) continue;
    throw FailedPrecondition(
        "CachedOp: ", value.kind == ValueKind::kOutput ? "output " : "argument ", value.index,
        " of shape ", value.shape,
        " was written after the call, but its gradient needs the old elements");
  }
}

const std::vector<std::shared_ptr<Arena>>& RecordedGraph::ArenasFor(
    const PreparedProgram& prepared) {
  const bool retains = &prepared != compiled_->program().get();
  std::vector<std::shared_ptr<Arena>>& arenas = retains ? state_.retained_arenas : state_.arenas;
  arenas.resize(state_.arenas.size());
  for (size_t i = 0; i < arenas.size(); ++i) {
    if (!prepared.plan().arenas[i].backward) arenas[i] = state_.arenas[i];
  }
  AddArenas(prepared, /*backward=*/true, {}, &arenas);
  return arenas;
}

std::shared_ptr<Binding> RecordedGraph::Bind(const PreparedProgram& prepared,
                                             std::span<const NDArray> out_grads,
                                             std::span<const OpReqType> req,
                                             std::span<const NDArray> in_grads) {
  const Program& program = prepared.program();
  auto binding = std::make_shared<Binding>(prepared);
  for (const SavedArray& saved : saved_) binding->SetArray(saved.value, saved.array);
  for (int i = 0; i < program.num_values(); ++i) {
    const Value& value = program.values[At(i)];
    if (value.kind == ValueKind::kHeadGradient) {
      binding->SetArray(i, out_grads[At(value.index)]);
    } else if (value.kind == ValueKind::kGradient) {
      const size_t input = At(compiled_->input_of_argument()[At(value.index)]);
      const NDArray& gradient = in_grads[input];
      if (gradient.is_none()) continue;
      binding->SetArray(i, gradient);
      if (req[input] == kAddTo) binding->keeps_old[At(i)] = true;
    }
  }
  binding->SetArenas(prepared, ArenasFor(prepared), state_.variables);
  return binding;
}

void RecordedGraph::Backward(std::span<const NDArray> out_grads, std::span<const OpReqType> req,
                             std::span<const NDArray> in_grads, bool is_last) {
  if (compiled_->gradient_error()) throw Error(*compiled_->gradient_error());
  RequireUnchanged();
  const DistinctGradients gradients(req, in_grads);
  const GradientRun gradient = compiled_->Gradient(gradients.req(), is_last);
  PushSegments({gradient.program,
                Bind(*gradient.program, out_grads, gradients.req(), gradients.arrays()),
                gradient.calls,
                // Steps that are repeated belong to the forward run.
                {.is_train = compiled_->signature().is_train(), .needs_gradient = true}},
               gradient.program->backward());
  gradients.Finish();
}

}  // namespace tessera::symbol_internal
