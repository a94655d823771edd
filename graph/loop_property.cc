#include "tessera/graph/loop_property.h"

#include <algorithm>
#include <string_view>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/infer.h"

namespace tessera::graph {
namespace {

using base_internal::At;

/// Returns the shape without its first axis.
TShape Row(const TShape& shape) {
  if (shape.ndim() < 1) return TShape();
  return TShape(std::span<const index_t>(shape.begin() + 1, shape.end()));
}

/// Inference of shapes. The results of the steps of a loop are rows of the outputs.
class ShapeRules {
 public:
  using Value = TShape;

  explicit ShapeRules(const LoopProperty& property)
      : property_(property), has_rows_(property.loop().kind != LoopKind::kBranch) {
    if (property.loop().kind == LoopKind::kWhile) steps_ = property.loop().max_steps;
  }

  static TShape Unknown() { return TShape(); }
  static TShape Count() { return TShape{1}; }
  static bool IsKnown(const TShape& shape) { return shape.known(); }

  /// Notes the number of steps that an input or output with rows has.
  void SeeRows(const std::string& what, const TShape& shape) {
    if (!has_rows_ || !shape.rank_known()) return;
    if (shape.ndim() == 0) {
      throw InvalidArgument(property_.TypeString(), ": ", what,
                            " has shape (), expected at least one axis, that of the steps");
    }
    if (shape[0] == TShape::kUnknown) return;
    if (steps_ != TShape::kUnknown && steps_ != shape[0]) {
      throw InvalidArgument(property_.TypeString(), ": ", what, " has shape ", shape, ", expected ",
                            steps_, " rows, one for each step");
    }
    steps_ = shape[0];
  }
  TShape OneStep(const TShape& shape) const { return has_rows_ ? Row(shape) : shape; }
  TShape AllSteps(const TShape& step) const {
    if (!has_rows_ || !step.rank_known()) return step;
    std::vector<index_t> extents = {steps_};
    extents.insert(extents.end(), step.begin(), step.end());
    return TShape(std::span<const index_t>(extents));
  }
  void Merge(const std::string& what, TShape* value, const TShape& known) const {
    MergeShape(property_, what, value, known);
  }
  static void Complete(const IndexedGraph& graph, std::vector<TShape>* entries) {
    GraphShapes shapes{.entries = std::move(*entries)};
    CompleteShapes(graph, &shapes);
    *entries = std::move(shapes.entries);
  }
  void CheckCondition(const TShape& shape) const {
    if (!shape.known() || shape.Size() == 1) return;
    throw InvalidArgument(property_.TypeString(), ": the condition has shape ", shape,
                          ", expected one element");
  }

 private:
  const LoopProperty& property_;
  const bool has_rows_;
  index_t steps_ = TShape::kUnknown;
};

/// Inference of element types, which are the same in each step.
class TypeRules {
 public:
  using Value = DType;

  explicit TypeRules(const LoopProperty& property) : property_(property) {}

  static DType Unknown() { return DType::kUnknown; }
  static DType Count() { return DType::kInt64; }
  static bool IsKnown(DType dtype) { return dtype != DType::kUnknown; }
  static void SeeRows(const std::string&, DType) {}
  static DType OneStep(DType dtype) { return dtype; }
  static DType AllSteps(DType dtype) { return dtype; }
  void Merge(const std::string& what, DType* value, DType known) const {
    if (*value == DType::kUnknown) *value = known;
    if (known == DType::kUnknown || known == *value) return;
    throw InvalidArgument(property_.TypeString(), ": ", what, " is ", *value, ", expected ", known);
  }
  static void Complete(const IndexedGraph& graph, std::vector<DType>* entries) {
    GraphTypes types{.entries = std::move(*entries)};
    CompleteTypes(graph, &types);
    *entries = std::move(types.entries);
  }
  static void CheckCondition(DType) {}

 private:
  const LoopProperty& property_;
};

/// One inference through all graphs of a node.
template <typename Rules>
class LoopInferrer {
 public:
  using T = typename Rules::Value;

  LoopInferrer(const LoopProperty& property, std::vector<T>* in, std::vector<T>* out)
      : loop_(property.loop()),
        arguments_(property.ListArguments()),
        outputs_(property.ListOutputs()),
        rules_(property),
        in_(*in),
        out_(*out) {}

  /// Returns whether all values are known in the end.
  bool Run() {
    if (loop_.kind != LoopKind::kForeach) {
      rules_.Merge("the count", &out_[At(loop_.num_visible())], Rules::Count());
    }
    // Known values only increase, so this ends.
    for (bool changes = true; changes;) {
      const std::vector<T> old_in = in_, old_out = out_;
      SeeRows();
      for (size_t i = 0; i < loop_.states.size(); ++i) {
        T &first = in_[At(loop_.states[i])], &last = out_[At(loop_.num_results) + i];
        rules_.Merge(arguments_[At(loop_.states[i])], &first, last);
        rules_.Merge(outputs_[At(loop_.num_results) + i], &last, first);
      }
      if (!loop_.condition.heads.empty()) InferCondition();
      for (const LoopGraph& body : loop_.bodies) InferBody(body);
      changes = in_ != old_in || out_ != old_out;
    }
    const auto is_known = [](const T& value) { return Rules::IsKnown(value); };
    return std::all_of(in_.begin(), in_.end(), is_known) &&
           std::all_of(out_.begin(), out_.end(), is_known);
  }

 private:
  bool IsData(int input) const { return loop_.inputs[At(input)] == LoopInput::kData; }
  bool IsState(int output) const {
    return output >= loop_.num_results && output < loop_.num_visible();
  }

  void SeeRows() {
    for (size_t i = 0; i < in_.size(); ++i) {
      if (loop_.inputs[i] == LoopInput::kData) rules_.SeeRows(arguments_[i], in_[i]);
    }
    for (size_t i = 0; i < At(loop_.num_results); ++i) rules_.SeeRows(outputs_[i], out_[i]);
  }

  std::vector<T> EntriesOf(const LoopGraph& graph) const {
    std::vector<T> entries(At(graph.index->num_entries()), Rules::Unknown());
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const int input = graph.inputs[i];
      const T& value = in_[At(input)];
      entries[At(graph.index->EntryId(graph.index->variables()[i], 0))] =
          IsData(input) ? rules_.OneStep(value) : value;
    }
    return entries;
  }

  void TakeInputs(const LoopGraph& graph, const std::vector<T>& entries) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const int input = graph.inputs[i];
      const T& value = entries[At(graph.index->EntryId(graph.index->variables()[i], 0))];
      rules_.Merge(arguments_[At(input)], &in_[At(input)],
                   IsData(input) ? rules_.AllSteps(value) : value);
    }
  }

  void InferCondition() {
    const LoopGraph& graph = loop_.condition;
    std::vector<T> entries = EntriesOf(graph);
    Rules::Complete(*graph.index, &entries);
    TakeInputs(graph, entries);
    rules_.CheckCondition(entries[At(graph.index->heads()[0])]);
  }

  void InferBody(const LoopGraph& graph) {
    std::vector<T> entries = EntriesOf(graph);
    const auto visit_outputs = [&](const auto& visit) {
      for (size_t i = 0; i < graph.heads.size(); ++i) {
        visit(static_cast<int>(i), &entries[At(graph.index->heads()[i])]);
      }
      for (const LoopSaved& saved : graph.saved) {
        visit(saved.output, &entries[At(graph.index->EntryId(saved.entry))]);
      }
    };
    visit_outputs([&](int output, T* entry) {
      const T& value = out_[At(output)];
      rules_.Merge(outputs_[At(output)], entry, IsState(output) ? value : rules_.OneStep(value));
    });
    Rules::Complete(*graph.index, &entries);
    TakeInputs(graph, entries);
    visit_outputs([&](int output, const T* entry) {
      rules_.Merge(outputs_[At(output)], &out_[At(output)],
                   IsState(output) ? *entry : rules_.AllSteps(*entry));
    });
  }

  const LoopDescription& loop_;
  const std::vector<std::string> arguments_, outputs_;
  Rules rules_;
  std::vector<T>& in_;
  std::vector<T>& out_;
};

/// Returns the prefix with the numbers from 0 on.
std::vector<std::string> Numbered(std::string_view prefix, size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(std::string(prefix) + std::to_string(i));
  return names;
}

}  // namespace

TShape LoopProperty::StepShape(int input, const TShape& shape) const {
  return loop_.inputs[At(input)] == LoopInput::kData ? Row(shape) : shape;
}

std::vector<std::string> LoopProperty::ListArguments() const {
  return Numbered("data", loop_.inputs.size());
}

std::vector<std::string> LoopProperty::ListOutputs() const {
  std::vector<std::string> names = Numbered("output", At(loop_.num_visible()));
  if (names.size() == 1) names = {"output"};
  if (loop_.kind != LoopKind::kForeach) names.push_back("count");
  const auto num_saved = At(loop_.num_outputs - loop_.first_saved());
  for (std::string& name : Numbered("saved", num_saved)) names.push_back(std::move(name));
  return names;
}

bool LoopProperty::IsSequenceState(int argument) const {
  return loop_.inputs[At(argument)] == LoopInput::kState;
}

bool LoopProperty::InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const {
  return LoopInferrer<ShapeRules>(*this, in_shape, out_shape).Run();
}

bool LoopProperty::InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const {
  return LoopInferrer<TypeRules>(*this, in_type, out_type).Run();
}

std::vector<int> LoopProperty::DeclareBackwardDependency(std::span<const int> out_grad,
                                                         std::span<const int> in_data,
                                                         std::span<const int> out_data) const {
  std::vector<int> needed(out_grad.begin(), out_grad.begin() + loop_.num_visible());
  for (size_t i = 0; i < in_data.size(); ++i) {
    if (loop_.gradient_reads[i]) needed.push_back(in_data[i]);
  }
  if (loop_.kind != LoopKind::kForeach) needed.push_back(out_data[At(loop_.num_visible())]);
  for (const LoopGraph& body : loop_.bodies) {
    for (const LoopSaved& saved : body.saved) needed.push_back(out_data[At(saved.output)]);
  }
  return needed;
}

bool LoopProperty::ArgumentHasGradient(int argument) const {
  if (!HasGradient()) return false;
  // A state that no step changes is an output.
  if (loop_.inputs[At(argument)] == LoopInput::kState) return true;
  for (const LoopGraph& body : loop_.bodies) {
    const std::vector<int>& variables = body.index->variables();
    const std::vector<int>& arguments = body.index->arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto variable = std::lower_bound(variables.begin(), variables.end(), arguments[i]);
      const int input = body.inputs[static_cast<size_t>(variable - variables.begin())];
      if (input == argument && body.has_gradient[i]) return true;
    }
  }
  return false;
}

std::unique_ptr<Operator> LoopProperty::CreateOperator(Device, std::span<const TShape>,
                                                       std::span<const DType>) const {
  throw Internal(loop_.op, ": it is called by what runs programs");
}

}  // namespace tessera::graph
