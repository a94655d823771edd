#include "tessera/symbol/executor.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"
#include "tessera/ndarray/device_runtime.h"
#include "tessera/ndarray/operator_call.h"
#include "tessera/symbol/step_runner.h"

namespace tessera {

using graph::GraphShapes;
using graph::GraphTypes;
using graph::IndexedGraph;
using graph::kNoValue;
using graph::MemoryPlan;
using graph::Node;
using graph::Program;
using graph::Step;
using graph::Value;
using graph::ValueKind;
using symbol_internal::BoundValue;
using symbol_internal::PreparedStep;
using symbol_internal::Segment;

namespace {

size_t At(int index) { return static_cast<size_t>(index); }

/// The arrays of an executor, complete and checked.
struct ExecutorArrays {
  std::vector<NDArray> arguments;
  std::vector<NDArray> gradients;
  std::vector<OpReqType> grad_requests;
  std::vector<NDArray> aux_states;
};

class GraphExecutor final : public Executor {
 public:
  GraphExecutor(const Symbol& symbol, const GraphShapes& shapes, const GraphTypes& types,
                Device device, ExecutorArrays arrays)
      : symbol_(symbol), device_(device), arrays_(std::move(arrays)) {
    program_ = BuildProgram(symbol.outputs(), shapes, types, arrays_.grad_requests);
    plan_ = PlanMemory(&program_);
    for (const int64_t size_bytes : plan_.block_size_bytes) {
      blocks_.emplace_back(TShape{size_bytes}, device_, DType::kUint8);
    }
    argument_names_ = symbol.ListArguments();
    aux_names_ = symbol.ListAuxiliaryStates();
    BindOutputs();
    PrepareSteps(BindValues());
  }

  void Forward(bool is_train) override {
    state_ = State::kNoResults;
    for (const auto& segment : is_train ? forward_train_ : forward_test_) segment->Push();
    if (is_train) state_ = State::kResultsKept;
  }

  void Backward(const std::vector<NDArray>& head_grads) override {
    if (state_ != State::kResultsKept) {
      throw FailedPrecondition(
          "Executor::Backward: ",
          state_ == State::kResultsUsed
              ? "it was called already; expected Forward(true) before each call, since gradients "
                "overwrite the results that Forward keeps"
              : "call Forward(true) first");
    }
    TakeHeadGradients(head_grads);
    state_ = State::kResultsUsed;
    for (const auto& segment : backward_) segment->Push();
  }

  const std::vector<NDArray>& outputs() const override { return outputs_; }
  const std::vector<NDArray>& arg_arrays() const override { return arrays_.arguments; }
  const std::vector<NDArray>& grad_arrays() const override { return arrays_.gradients; }
  const std::vector<NDArray>& aux_arrays() const override { return arrays_.aux_states; }
  std::map<std::string, NDArray> arg_dict() const override {
    return Dictionary(argument_names_, arrays_.arguments);
  }
  std::map<std::string, NDArray> grad_dict() const override {
    return Dictionary(argument_names_, arrays_.gradients);
  }
  std::map<std::string, NDArray> aux_dict() const override {
    return Dictionary(aux_names_, arrays_.aux_states);
  }

  MemoryPlanSummary memory_plan() const override {
    MemoryPlanSummary summary;
    summary.values =
        static_cast<int>(plan_.value_block.size() -
                         static_cast<size_t>(std::count(plan_.value_block.begin(),
                                                        plan_.value_block.end(), kNoValue)));
    summary.buffers = static_cast<int>(plan_.block_size_bytes.size());
    summary.inplace = plan_.inplace;
    for (const int64_t size_bytes : plan_.block_size_bytes) summary.planned_bytes += size_bytes;
    summary.unplanned_bytes = plan_.unplanned_bytes;
    return summary;
  }

  std::string DebugString() const override {
    std::string text;
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      text += std::to_string(i) + " " + step.node->name + " ->";
      for (const int value : step.Writes()) text += " " + Describe(value);
      text += "\n";
    }
    const MemoryPlanSummary plan = memory_plan();
    return text + std::to_string(plan.values) + " intermediate values in " +
           std::to_string(plan.buffers) + " blocks, " + std::to_string(plan.inplace) +
           " in place: " + std::to_string(plan.planned_bytes) + " bytes, unplanned " +
           std::to_string(plan.unplanned_bytes) + "\n";
  }

 private:
  /// The state of the last Forward, for Backward.
  enum class State {
    kNoResults,
    kResultsKept,
    kResultsUsed,  // overwritten by an earlier Backward
  };

  static std::map<std::string, NDArray> Dictionary(const std::vector<std::string>& names,
                                                   const std::vector<NDArray>& arrays) {
    std::map<std::string, NDArray> dictionary;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!arrays[i].is_none()) dictionary.emplace(names[i], arrays[i]);
    }
    return dictionary;
  }

  void BindOutputs() {
    head_gradients_.resize(program_.head_values.size());
    for (size_t i = 0; i < program_.head_values.size(); ++i) {
      const Value& value = program_.values[At(program_.head_values[i])];
      switch (value.kind) {
        case ValueKind::kArgument:
          outputs_.push_back(arrays_.arguments[At(value.index)]);
          break;
        case ValueKind::kAuxState:
          outputs_.push_back(arrays_.aux_states[At(value.index)]);
          break;
        default:
          // A node output may be listed twice; both handles then name one array.
          outputs_.push_back(At(value.index) == i ? NDArray(value.shape, device_, value.dtype)
                                                  : outputs_[At(value.index)]);
      }
      if (program_.head_needs_gradient[i]) {
        head_gradients_[i] = NDArray(value.shape, device_, value.dtype);
      }
    }
  }

  std::vector<BoundValue> BindValues() const {
    std::vector<BoundValue> bound;
    for (size_t i = 0; i < program_.values.size(); ++i) {
      const Value& value = program_.values[i];
      NDArray array;
      switch (value.kind) {
        case ValueKind::kArgument:
          array = arrays_.arguments[At(value.index)];
          break;
        case ValueKind::kAuxState:
          array = arrays_.aux_states[At(value.index)];
          break;
        case ValueKind::kGradient:
          array = arrays_.gradients[At(value.index)];
          break;
        case ValueKind::kHeadGradient:
          array = head_gradients_[At(value.index)];
          break;
        case ValueKind::kOutput:
          array = outputs_[At(value.index)];
          break;
        case ValueKind::kIntermediate:
          if (plan_.value_block[i] != kNoValue) array = blocks_[At(plan_.value_block[i])];
          break;
      }
      if (array.is_none()) {
        bound.push_back({});
        continue;
      }
      bound.push_back({TBlob(array.data().dptr_, value.shape, value.dtype, device_), array.var()});
    }
    return bound;
  }

  void PrepareSteps(const std::vector<BoundValue>& values) {
    // The gradient of a node needs the shapes and types of the node's inputs.
    struct Inputs {
      std::vector<TShape> shapes;
      std::vector<DType> types;
    };
    std::unordered_map<const Node*, Inputs> inputs_of;
    auto steps = std::make_shared<std::vector<PreparedStep>>();
    for (const Step& step : program_.steps) {
      Inputs& inputs = inputs_of[step.node.get()];
      for (const int id : step.inputs) {
        inputs.shapes.push_back(program_.values[At(id)].shape);
        inputs.types.push_back(program_.values[At(id)].dtype);
      }
      const Node* const forward = step.node->forward.get();
      const Inputs& of_operator = forward == nullptr ? inputs : inputs_of.at(forward);
      steps->emplace_back(
          step,
          std::make_unique<OperatorCall>(step.node->name, step.node->property, device_,
                                         of_operator.shapes, of_operator.types, step.req),
          values);
    }
    Engine* engine = Engine::Get();
    const int forward = program_.num_forward_steps;
    const int all = static_cast<int>(program_.steps.size());
    const bool has_gradient = all > forward;
    forward_train_ = Segment::Cut(engine, device_, steps, 0, forward,
                                  {.is_train = true, .needs_gradient = has_gradient});
    forward_test_ = Segment::Cut(engine, device_, steps, 0, forward, {});
    backward_ = Segment::Cut(engine, device_, steps, forward, all, {.is_train = true});
  }

  void TakeHeadGradients(const std::vector<NDArray>& given) {
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

  std::string Describe(int id) const {
    const Value& value = program_.values[At(id)];
    std::string text;
    switch (value.kind) {
      case ValueKind::kIntermediate:
        text = "block " + std::to_string(plan_.value_block[At(id)]);
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
    }
    return text + " " + std::string(DTypeName(value.dtype)) + value.shape.ToString();
  }

  const Symbol symbol_;
  const Device device_;
  ExecutorArrays arrays_;
  Program program_;
  MemoryPlan plan_;
  std::vector<std::string> argument_names_;
  std::vector<std::string> aux_names_;
  std::vector<NDArray> blocks_;
  std::vector<NDArray> outputs_;
  std::vector<NDArray> head_gradients_;  // is_none() if none is needed
  // Declared last, so destroyed first: deleting an operator waits for its pushes, which use the
  // other members.
  std::vector<std::unique_ptr<Segment>> forward_train_;
  std::vector<std::unique_ptr<Segment>> forward_test_;
  std::vector<std::unique_ptr<Segment>> backward_;
  State state_ = State::kNoResults;
};

/// Throws unless `array` fits the graph's variable `name`.
void CheckArray(const std::string& what, const std::string& name, const NDArray& array,
                const TShape& shape, DType dtype, Device device) {
  if (array.is_none()) {
    throw InvalidArgument("Bind: no array for ", what, " \"", Excerpt(name), "\"");
  }
  if (array.shape() != shape) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" has shape ", array.shape(),
                          ", expected ", shape);
  }
  if (array.dtype() != dtype) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" has element type ",
                          array.dtype(), ", expected ", dtype);
  }
  if (array.device() != device) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" lies on ", array.device(),
                          ", expected ", device);
  }
}

void CheckCount(const char* what, size_t given, size_t expected) {
  if (given != expected) {
    throw InvalidArgument("Bind: ", given, " ", what, " were given, expected ", expected);
  }
}

void RequireComplete(const IndexedGraph& graph, const GraphShapes& shapes) {
  if (shapes.complete) return;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (int k = 0; k < graph.NumOutputs(static_cast<int>(i)); ++k) {
      const TShape& shape = shapes.entries[At(graph.EntryId(static_cast<int>(i), k))];
      if (!shape.known()) {
        throw InvalidArgument("Bind: the shape of \"", Excerpt(graph.nodes()[i]->OutputName(k)),
                              "\" is ", shape, "; give the shapes of more inputs");
      }
    }
  }
}

}  // namespace

std::unique_ptr<Executor> Bind(const Symbol& symbol, Device device, const BindArguments& arrays) {
  const IndexedGraph graph(symbol.outputs());
  graph.RequireUniqueNames("Bind");
  const std::vector<std::string> names = symbol.ListArguments();
  const std::vector<std::string> aux_names = symbol.ListAuxiliaryStates();
  ExecutorArrays complete{arrays.arguments, arrays.gradients, arrays.grad_requests,
                          arrays.aux_states};
  CheckCount("arguments", arrays.arguments.size(), names.size());
  CheckCount("aux states", arrays.aux_states.size(), aux_names.size());
  if (complete.gradients.empty()) complete.gradients.resize(names.size());
  CheckCount("gradients", complete.gradients.size(), names.size());
  if (complete.grad_requests.empty()) complete.grad_requests.resize(names.size(), kWriteTo);
  CheckCount("gradient requests", complete.grad_requests.size(), names.size());

  std::map<std::string, TShape> known_shapes;
  std::map<std::string, DType> known_types;
  for (size_t i = 0; i < names.size(); ++i) {
    if (complete.arguments[i].is_none()) {
      throw InvalidArgument("Bind: no array for argument \"", Excerpt(names[i]), "\"");
    }
    known_shapes[names[i]] = complete.arguments[i].shape();
    known_types[names[i]] = complete.arguments[i].dtype();
    if (complete.gradients[i].is_none()) complete.grad_requests[i] = kNullOp;
    if (complete.grad_requests[i] == kWriteInplace) complete.grad_requests[i] = kWriteTo;
  }
  const GraphShapes shapes = graph::InferShapes(graph, known_shapes);
  const GraphTypes types = graph::InferTypes(graph, known_types);
  RequireComplete(graph, shapes);
  const auto check = [&](const char* what, int node, const NDArray& array) {
    const int entry = graph.EntryId(node, 0);
    CheckArray(what, graph.nodes()[At(node)]->name, array, shapes.entries[At(entry)],
               types.entries[At(entry)], device);
  };
  for (size_t i = 0; i < names.size(); ++i) {
    check("argument", graph.arguments()[i], complete.arguments[i]);
    if (complete.grad_requests[i] != kNullOp) {
      check("the gradient of", graph.arguments()[i], complete.gradients[i]);
    }
  }
  for (size_t i = 0; i < aux_names.size(); ++i) {
    check("aux state", graph.aux_states()[i], complete.aux_states[i]);
  }
  return std::make_unique<GraphExecutor>(symbol, shapes, types, device, std::move(complete));
}

std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                     const SimpleBindOptions& options) {
  const IndexedGraph graph(symbol.outputs());
  graph.RequireUniqueNames("Bind");
  const GraphShapes shapes = graph::InferShapes(graph, options.shapes);
  const GraphTypes types = graph::InferTypes(graph, options.types);
  RequireComplete(graph, shapes);
  const auto allocate = [&](int node) {
    const int entry = graph.EntryId(node, 0);
    NDArray array(shapes.entries[At(entry)], device, types.entries[At(entry)]);
    array = 0.0f;
    return array;
  };
  const std::set<std::string_view> no_gradient(options.no_gradient.begin(),
                                               options.no_gradient.end());
  ExecutorArrays arrays;
  for (const int node : graph.arguments()) {
    const std::string& name = graph.nodes()[At(node)]->name;
    const OpReqType req = no_gradient.contains(name) ? kNullOp : options.grad_req;
    arrays.arguments.push_back(allocate(node));
    arrays.gradients.push_back(req == kNullOp ? NDArray() : allocate(node));
    arrays.grad_requests.push_back(req);
  }
  for (const int node : graph.aux_states()) arrays.aux_states.push_back(allocate(node));
  return std::make_unique<GraphExecutor>(symbol, shapes, types, device, std::move(arrays));
}

}  // namespace tessera
