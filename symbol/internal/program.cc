#include "tessera/symbol/internal/program.h"

#include <algorithm>

#include "tessera/base/error.h"

namespace tessera::symbol_internal {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

class ProgramBuilder {
 public:
  ProgramBuilder(const IndexedGraph& graph, const GraphShapes& shapes, const GraphTypes& types,
                 const std::vector<OpReqType>& grad_requests)
      : graph_(graph),
        shapes_(shapes),
        types_(types),
        grad_requests_(grad_requests),
        entry_value_(At(graph.num_entries()), kNoValue),
        entry_gradient_(At(graph.num_entries()), kNoValue),
        entry_argument_(At(graph.num_entries()), kNoValue) {
    for (int i = 0; i < num_nodes(); ++i) {
      entry_node_.insert(entry_node_.end(), At(node(i).num_outputs()), i);
    }
  }

  Program Build() {
    PlaceVariables();
    PlaceHeads();
    for (int i = 0; i < num_nodes(); ++i) AddForward(i);
    program_.num_forward_steps = static_cast<int>(program_.steps.size());
    const bool wanted = std::any_of(grad_requests_.begin(), grad_requests_.end(),
                                    [](OpReqType req) { return req != kNullOp; });
    program_.head_needs_gradient.assign(graph_.heads().size(), false);
    if (wanted) AddGradient();
    return std::move(program_);
  }

 private:
  int num_nodes() const { return static_cast<int>(graph_.nodes().size()); }
  const Node& node(int i) const { return *graph_.nodes()[At(i)]; }

  int AddValue(ValueKind kind, int index, int entry) {
    program_.values.push_back({kind, index, shapes_.entries[At(entry)], types_.entries[At(entry)]});
    return static_cast<int>(program_.values.size()) - 1;
  }

  void PlaceVariables() {
    for (size_t i = 0; i < graph_.arguments().size(); ++i) {
      const int entry = graph_.EntryId(graph_.arguments()[i], 0);
      entry_argument_[At(entry)] = static_cast<int>(i);
      entry_value_[At(entry)] = AddValue(ValueKind::kArgument, static_cast<int>(i), entry);
    }
    for (size_t i = 0; i < graph_.aux_states().size(); ++i) {
      const int entry = graph_.EntryId(graph_.aux_states()[i], 0);
      entry_value_[At(entry)] = AddValue(ValueKind::kAuxState, static_cast<int>(i), entry);
    }
  }

  void PlaceHeads() {
    for (size_t i = 0; i < graph_.heads().size(); ++i) {
      int& value = entry_value_[At(graph_.heads()[i])];
      if (value == kNoValue) {
        value = AddValue(ValueKind::kOutput, static_cast<int>(i), graph_.heads()[i]);
      }
      program_.head_values.push_back(value);
    }
  }

  void AddForward(int i) {
    if (node(i).is_variable()) return;
    Step step;
    step.kind = StepKind::kForward;
    step.node = i;
    const std::vector<int> inputs = graph_.InputIds(i);
    for (size_t k = 0; k < inputs.size(); ++k) {
      const bool argument = k < At(node(i).num_arguments());
      (argument ? step.in_data : step.aux).push_back(entry_value_[At(inputs[k])]);
    }
    for (int k = 0; k < node(i).num_outputs(); ++k) {
      const int entry = graph_.EntryId(i, k);
      int& value = entry_value_[At(entry)];
      if (value == kNoValue) value = AddValue(ValueKind::kIntermediate, 0, entry);
      step.out_data.push_back(value);
      step.req.push_back(kWriteTo);
    }
    program_.steps.push_back(std::move(step));
  }

  void AddGradient() {
    MarkNeeded();
    for (size_t i = 0; i < graph_.heads().size(); ++i) AddHeadGradient(static_cast<int>(i));
    for (int i = num_nodes() - 1; i >= 0; --i) AddBackward(i);
    for (size_t i = 0; i < graph_.arguments().size(); ++i) {
      const int entry = graph_.EntryId(graph_.arguments()[i], 0);
      // No output depends on the argument, so its gradient is zero.
      if (grad_requests_[i] == kWriteTo && entry_gradient_[At(entry)] == kNoValue) {
        AddZero(AddValue(ValueKind::kGradient, static_cast<int>(i), entry));
      }
    }
  }

  /// Marks the entries that a requested gradient flows through.
  void MarkNeeded() {
    needed_.assign(At(graph_.num_entries()), false);
    for (size_t i = 0; i < grad_requests_.size(); ++i) {
      needed_[At(graph_.EntryId(graph_.arguments()[i], 0))] = grad_requests_[i] != kNullOp;
    }
    for (int i = 0; i < num_nodes(); ++i) {
      if (node(i).is_variable()) continue;
      const std::vector<int> inputs = graph_.InputIds(i);
      bool any = false;
      for (int k = 0; k < node(i).num_arguments(); ++k) any |= needed_[At(inputs[At(k)])];
      for (int k = 0; k < node(i).num_outputs(); ++k) needed_[At(graph_.EntryId(i, k))] = any;
    }
  }

  void AddHeadGradient(int head) {
    const int entry = graph_.heads()[At(head)];
    if (!needed_[At(entry)]) return;
    const Node& producer = node(entry_node_[At(entry)]);
    if (!producer.is_variable() && producer.property->IsLoss()) return;  // it starts one
    program_.head_needs_gradient[At(head)] = true;
    const int value = AddValue(ValueKind::kHeadGradient, head, entry);
    if (entry_gradient_[At(entry)] == kNoValue && entry_argument_[At(entry)] == kNoValue) {
      entry_gradient_[At(entry)] = value;
      return;
    }
    const auto [target, req] = TargetFor(entry);
    AddCopy(value, target, req);
  }

  struct Target {
    int value;
    OpReqType req;
  };

  /// Returns the value for the next contribution to an entry's gradient, and whether it is the
  /// first contribution.
  Target TargetFor(int entry) {
    int& gradient = entry_gradient_[At(entry)];
    if (gradient != kNoValue) return {gradient, kAddTo};
    const int argument = entry_argument_[At(entry)];
    if (argument != kNoValue) {
      gradient = AddValue(ValueKind::kGradient, argument, entry);
      return {gradient, grad_requests_[At(argument)]};
    }
    gradient = AddValue(ValueKind::kIntermediate, 0, entry);
    return {gradient, kWriteTo};
  }

  void AddCopy(int from, int to, OpReqType req) {
    Step step;
    step.kind = StepKind::kCopy;
    step.in_data = {from};
    step.out_data = {to};
    step.req = {req};
    program_.steps.push_back(std::move(step));
  }

  void AddZero(int value) {
    Step step;
    step.kind = StepKind::kFillZero;
    step.out_data = {value};
    step.req = {kWriteTo};
    program_.steps.push_back(std::move(step));
  }

  void AddBackward(int i) {
    if (node(i).is_variable()) return;
    const OperatorProperty& property = *node(i).property;
    const std::vector<int> inputs = graph_.InputIds(i);
    std::vector<int> wanted;
    for (int k = 0; k < node(i).num_arguments(); ++k) {
      if (needed_[At(inputs[At(k)])]) wanted.push_back(k);
    }
    if (wanted.empty()) return;
    if (!property.HasGradient()) {
      throw InvalidArgument("node \"", node(i).name, "\": a gradient is wanted through ",
                            property.TypeString(), ", which has none");
    }
    std::erase_if(wanted, [&](int k) { return !property.ArgumentHasGradient(k); });
    if (wanted.empty()) return;

    Step step;
    step.kind = StepKind::kBackward;
    step.node = i;
    bool reached = property.IsLoss();
    for (int k = 0; k < node(i).num_outputs(); ++k) {
      step.out_grad.push_back(entry_gradient_[At(graph_.EntryId(i, k))]);
      step.out_data.push_back(entry_value_[At(graph_.EntryId(i, k))]);
      reached |= step.out_grad.back() != kNoValue;
    }
    if (!reached) return;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const bool argument = k < At(node(i).num_arguments());
      (argument ? step.in_data : step.aux).push_back(entry_value_[At(inputs[k])]);
    }
    if (!property.IsLoss()) {
      for (int k = 0; k < property.NumVisibleOutputs(); ++k) {
        int& grad = step.out_grad[At(k)];
        if (grad != kNoValue) continue;
        grad = AddValue(ValueKind::kIntermediate, 0, graph_.EntryId(i, k));
        AddZero(grad);
      }
    }
    KeepDeclared(property, &step);

    std::vector<Step> sums;
    step.in_grad.assign(At(node(i).num_arguments()), kNoValue);
    step.req.assign(At(node(i).num_arguments()), kNullOp);
    for (const int k : wanted) {
      const int entry = inputs[At(k)];
      const auto [target, req] = TargetFor(entry);
      int& slot = step.in_grad[At(k)];
      if (std::find(step.in_grad.begin(), step.in_grad.end(), target) == step.in_grad.end()) {
        slot = target;
        step.req[At(k)] = req;
        continue;
      }
      // The operator reads this entry twice. The order in which it writes the two gradients is
      // unknown, so the second one has a separate value, which is added afterwards.
      slot = AddValue(ValueKind::kIntermediate, 0, entry);
      step.req[At(k)] = kWriteTo;
      Step sum;
      sum.kind = StepKind::kCopy;
      sum.in_data = {slot};
      sum.out_data = {target};
      sum.req = {kAddTo};
      sums.push_back(std::move(sum));
    }
    program_.steps.push_back(std::move(step));
    for (Step& sum : sums) program_.steps.push_back(std::move(sum));
  }

  /// Removes values that Backward does not read.
  static void KeepDeclared(const OperatorProperty& property, Step* step) {
    const std::vector<int> declared =
        property.DeclareBackwardDependency(step->out_grad, step->in_data, step->out_data);
    for (auto* list : {&step->out_grad, &step->in_data, &step->out_data}) {
      for (int& value : *list) {
        if (std::find(declared.begin(), declared.end(), value) == declared.end()) value = kNoValue;
      }
    }
  }

  const IndexedGraph& graph_;
  const GraphShapes& shapes_;
  const GraphTypes& types_;
  const std::vector<OpReqType>& grad_requests_;
  Program program_;
  std::vector<int> entry_value_;
  std::vector<int> entry_gradient_;
  std::vector<int> entry_argument_;
  std::vector<int> entry_node_;
  std::vector<bool> needed_;
};

void Append(std::vector<int>* to, const std::vector<int>& values) {
  for (const int value : values) {
    if (value != kNoValue) to->push_back(value);
  }
}

}  // namespace

std::vector<int> Step::Reads() const {
  std::vector<int> reads;
  Append(&reads, in_data);
  if (kind == StepKind::kBackward) {
    Append(&reads, out_grad);
    Append(&reads, out_data);
  }
  return reads;
}

std::vector<int> Step::Writes() const {
  std::vector<int> writes;
  for (size_t i = 0; i < Targets().size(); ++i) {
    if (req[i] != kNullOp) writes.push_back(Targets()[i]);
  }
  Append(&writes, aux);
  return writes;
}

Program BuildProgram(const IndexedGraph& graph, const GraphShapes& shapes, const GraphTypes& types,
                     const std::vector<OpReqType>& grad_requests) {
  return ProgramBuilder(graph, shapes, types, grad_requests).Build();
}

}  // namespace tessera::symbol_internal
