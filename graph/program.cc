#include "tessera/graph/program.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

std::shared_ptr<Node> Apply(std::string_view op, std::string name, NodeEntry input) {
  return MakeNode(OperatorRegistry::Get().Create(op, {}), std::move(name), {std::move(input)}).node;
}

/// A graph with the gradients that are requested among its heads. Each gradient is the output of an
/// operator, and no two are the same entry, so that each can have its own array.
struct TrainingGraph {
  std::vector<NodeEntry> heads;  // the outputs, then the gradients
  std::vector<NodeEntry> head_gradients;
  std::vector<int> gradient_arguments;  // the argument of each gradient
};

TrainingGraph AddGradients(const std::vector<NodeEntry>& heads, const IndexedGraph& graph,
                           const std::vector<OpReqType>& requests) {
  TrainingGraph result;
  result.heads = heads;
  std::unordered_map<const Node*, std::shared_ptr<Node>> owners;
  for (const NodeEntry& head : heads) owners[head.node.get()] = head.node;
  for (const Node* node : graph.nodes()) {
    for (const NodeEntry& input : node->inputs) owners[input.node.get()] = input.node;
  }
  std::vector<NodeEntry> wanted;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == kNullOp) continue;
    wanted.push_back({owners.at(graph.nodes()[At(graph.arguments()[i])]), 0});
    result.gradient_arguments.push_back(static_cast<int>(i));
  }
  if (wanted.empty()) return result;
  Gradients gradients = BuildGradients(heads, wanted);
  result.head_gradients = std::move(gradients.head_gradients);
  std::set<std::pair<const Node*, int>> seen;
  for (size_t i = 0; i < wanted.size(); ++i) {
    NodeEntry gradient = gradients.gradients[i];
    const std::string& name = wanted[i].node->name;
    if (gradient.node == nullptr) {
      gradient = {Apply("zeros_like", name + "_zero_grad", wanted[i]), 0};
    } else if (gradient.node->is_variable() || graph.Contains(gradient.node.get()) ||
               !seen.insert({gradient.node.get(), gradient.index}).second) {
      gradient = {Apply("_copy", name + "_grad", gradient), 0};
    }
    result.heads.push_back(gradient);
  }
  return result;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const std::vector<NodeEntry>& heads, const GraphShapes& shapes,
                 const GraphTypes& types, const std::vector<OpReqType>& requests)
      : requests_(requests),
        forward_(heads),
        training_(AddGradients(heads, forward_, requests)),
        graph_(training_.heads),
        num_heads_(heads.size()),
        value_(At(graph_.num_entries()), kNoValue),
        readers_(At(graph_.num_entries()), 0) {
    Infer(shapes, types);
    for (const NodeEntry& head : training_.heads) owners_[head.node.get()] = head.node;
    for (const Node* node : graph_.nodes()) {
      for (const NodeEntry& input : node->inputs) owners_[input.node.get()] = input.node;
    }
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      for (const int input : graph_.InputIds(i)) ++readers_[At(input)];
    }
    for (const int head : graph_.heads()) ++readers_[At(head)];
  }

  Program Build() {
    PlaceVariables();
    PlaceHeads();
    PlaceSums();
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      if (i == forward_.num_nodes()) program_.num_forward_steps = NumSteps();
      AddStep(i);
    }
    if (graph_.num_nodes() == forward_.num_nodes()) program_.num_forward_steps = NumSteps();
    return std::move(program_);
  }

 private:
  int NumSteps() const { return static_cast<int>(program_.steps.size()); }

  /// Infers the shapes and types of the gradient's entries from those of the graph itself.
  void Infer(const GraphShapes& shapes, const GraphTypes& types) {
    if (graph_.num_nodes() == forward_.num_nodes()) {
      shapes_ = shapes;
      types_ = types;
      return;
    }
    std::map<std::string, TShape> known_shapes;
    std::map<std::string, DType> known_types;
    const auto know = [&](const std::string& name, int entry) {
      known_shapes[name] = shapes.entries[At(entry)];
      known_types[name] = types.entries[At(entry)];
    };
    for (const auto* list : {&forward_.arguments(), &forward_.aux_states()}) {
      for (const int id : *list) know(forward_.node(id).name, forward_.EntryId(id, 0));
    }
    for (size_t i = 0; i < training_.head_gradients.size(); ++i) {
      const Node* const node = training_.head_gradients[i].node.get();
      if (graph_.Contains(node)) know(node->name, forward_.heads()[i]);
    }
    shapes_ = InferShapes(graph_, known_shapes);
    types_ = InferTypes(graph_, known_types);
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      for (int k = 0; k < graph_.NumOutputs(i); ++k) {
        if (shapes_.entries[At(graph_.EntryId(i, k))].known()) continue;
        throw Internal("the shape of \"", graph_.node(i).OutputName(k), "\" is not known");
      }
    }
  }

  int AddValue(ValueKind kind, int index, int entry) {
    program_.values.push_back({kind, index, shapes_.entries[At(entry)], types_.entries[At(entry)]});
    return static_cast<int>(program_.values.size()) - 1;
  }

  void PlaceVariables() {
    const auto place = [this](const std::vector<int>& nodes, ValueKind kind) {
      for (size_t i = 0; i < nodes.size(); ++i) {
        // The forward graph's nodes have the same numbers in the graph with gradients.
        const int entry = graph_.EntryId(nodes[i], 0);
        value_[At(entry)] = AddValue(kind, static_cast<int>(i), entry);
      }
    };
    place(forward_.arguments(), ValueKind::kArgument);
    place(forward_.aux_states(), ValueKind::kAuxState);
    program_.head_needs_gradient.assign(num_heads_, false);
    for (size_t i = 0; i < training_.head_gradients.size(); ++i) {
      const NodeEntry& gradient = training_.head_gradients[i];
      if (!graph_.Contains(gradient.node.get())) continue;
      program_.head_needs_gradient[i] = true;
      const int entry = graph_.EntryId(gradient);
      value_[At(entry)] = AddValue(ValueKind::kHeadGradient, static_cast<int>(i), entry);
    }
  }

  void PlaceHeads() {
    for (size_t i = 0; i < num_heads_; ++i) {
      int& value = value_[At(graph_.heads()[i])];
      if (value == kNoValue) {
        value = AddValue(ValueKind::kOutput, static_cast<int>(i), graph_.heads()[i]);
      }
      program_.head_values.push_back(value);
    }
    for (size_t i = num_heads_; i < graph_.heads().size(); ++i) {
      const int argument = training_.gradient_arguments[i - num_heads_];
      const int entry = graph_.heads()[i];
      value_[At(entry)] = AddValue(ValueKind::kGradient, argument, entry);
      request_[entry] = requests_[At(argument)] == kAddTo ? kAddTo : kWriteTo;
    }
  }

  OpReqType RequestOf(int entry) const {
    const auto found = request_.find(entry);
    return found == request_.end() ? kWriteTo : found->second;
  }

  /// Lets the parts of a gradient's sum be written and added to the sum's own value, where each is
  /// read by the sum alone.
  void PlaceSums() {
    for (int i = forward_.num_nodes(); i < graph_.num_nodes(); ++i) {
      const Node& node = graph_.node(i);
      if (node.is_variable() || node.property->TypeString() != "add_n") continue;
      const int sum = graph_.EntryId(i, 0);
      std::map<int, int> part_of_node;  // in the order of the steps
      for (const NodeEntry& input : node.inputs) {
        const int part = graph_.EntryId(input);
        const int producer = graph_.NodeId(input.node.get());
        if (readers_[At(part)] != 1 || input.node->is_variable()) continue;
        if (producer < forward_.num_nodes() || merged_.contains(producer)) continue;
        part_of_node.emplace(producer, part);
      }
      if (part_of_node.empty()) continue;
      merged_.insert(i);
      if (value_[At(sum)] == kNoValue) value_[At(sum)] = AddValue(ValueKind::kIntermediate, 0, sum);
      OpReqType request = RequestOf(sum);
      for (const auto& [producer, part] : part_of_node) {
        value_[At(part)] = value_[At(sum)];
        request_[part] = request;
        request = kAddTo;
      }
    }
  }

  void AddStep(int i) {
    const Node& node = graph_.node(i);
    if (node.is_variable()) return;
    if (merged_.contains(i)) {
      AddOtherParts(i);
      return;
    }
    Step step;
    step.node = owners_.at(&node);
    for (const int input : graph_.InputIds(i)) step.inputs.push_back(value_[At(input)]);
    for (int k = 0; k < graph_.NumOutputs(i); ++k) {
      const int entry = graph_.EntryId(i, k);
      int& value = value_[At(entry)];
      const bool wanted = readers_[At(entry)] > 0;
      if (wanted && value == kNoValue) value = AddValue(ValueKind::kIntermediate, 0, entry);
      step.outputs.push_back(value);
      step.req.push_back(wanted ? RequestOf(entry) : kNullOp);
    }
    step.req.insert(step.req.end(), node.property->MutatedInputs().size(), kWriteInplace);
    program_.steps.push_back(std::move(step));
  }

  /// Adds the parts of a sum that have values of their own.
  void AddOtherParts(int i) {
    const int sum = value_[At(graph_.EntryId(i, 0))];
    for (const NodeEntry& part : graph_.node(i).inputs) {
      const int value = value_[At(graph_.EntryId(part))];
      if (value == sum) continue;
      Step step;
      step.node = Apply("_copy", graph_.node(i).name, part);
      step.inputs = {value};
      step.outputs = {sum};
      step.req = {kAddTo};
      program_.steps.push_back(std::move(step));
    }
  }

  const std::vector<OpReqType>& requests_;
  const IndexedGraph forward_;
  const TrainingGraph training_;
  const IndexedGraph graph_;
  const size_t num_heads_;
  GraphShapes shapes_;
  GraphTypes types_;
  Program program_;
  std::unordered_map<const Node*, std::shared_ptr<Node>> owners_;
  std::vector<int> value_;            // of each entry
  std::vector<int> readers_;          // of each entry, heads included
  std::map<int, OpReqType> request_;  // of entries that are not simply written
  std::set<int> merged_;              // sums without an operator call
};

}  // namespace

std::vector<int> Step::Writes() const {
  std::vector<int> writes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (req[i] != kNullOp) writes.push_back(outputs[i]);
  }
  const std::vector<int> mutated = node->property->MutatedInputs();
  for (size_t i = 0; i < mutated.size(); ++i) {
    if (req[outputs.size() + i] != kNullOp) writes.push_back(inputs[At(mutated[i])]);
  }
  return writes;
}

Program BuildProgram(const std::vector<NodeEntry>& heads, const GraphShapes& shapes,
                     const GraphTypes& types, const std::vector<OpReqType>& grad_requests) {
  return ProgramBuilder(heads, shapes, types, grad_requests).Build();
}

}  // namespace tessera::graph
