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
#include "tessera/graph/propagate.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

std::shared_ptr<Node> Apply(std::string_view op, std::string name, NodeEntry input) {
  return MakeNode(OperatorRegistry::Get().Create(op, {}), std::move(name), {std::move(input)}).node;
}

/// Returns the owner of each node of a graph, which has plain pointers itself.
std::vector<std::shared_ptr<Node>> OwnersOf(const IndexedGraph& graph,
                                            const std::vector<NodeEntry>& heads) {
  std::vector<std::shared_ptr<Node>> owners(At(graph.num_nodes()));
  const auto own = [&](const NodeEntry& entry) {
    std::shared_ptr<Node>& owner = owners[At(graph.NodeId(entry.node.get()))];
    if (owner == nullptr) owner = entry.node;
  };
  for (const NodeEntry& head : heads) own(head);
  for (const Node* node : graph.nodes()) {
    for (const NodeEntry& input : node->inputs) own(input);
  }
  return owners;
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
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] != kNullOp) result.gradient_arguments.push_back(static_cast<int>(i));
  }
  if (result.gradient_arguments.empty()) return result;
  const std::vector<std::shared_ptr<Node>> owners = OwnersOf(graph, heads);
  std::vector<NodeEntry> wanted;
  for (const int argument : result.gradient_arguments) {
    wanted.push_back({owners[At(graph.arguments()[At(argument)])], 0});
  }
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
  ProgramBuilder(const std::vector<NodeEntry>& heads, const std::vector<OpReqType>& requests,
                 const ProgramPlacement& placement)
      : requests_(requests),
        forward_(heads),
        training_(AddGradients(heads, forward_, requests)),
        placed_heads_(placement.place == nullptr
                          ? training_.heads
                          : placement.place(training_.heads, &node_devices_)),
        graph_(placed_heads_),
        num_heads_(heads.size()),
        num_forward_nodes_(placement.place == nullptr ? forward_.num_nodes() : CountForwardNodes()),
        value_(At(graph_.num_entries()), kNoValue),
        readers_(At(graph_.num_entries()), 0),
        request_(At(graph_.num_entries()), kWriteTo),
        merged_(At(graph_.num_nodes()), false),
        step_of_node_(At(graph_.num_nodes()), kNoValue),
        owners_(OwnersOf(graph_, placed_heads_)) {
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      for (const int input : graph_.InputIds(i)) ++readers_[At(input)];
    }
    for (const int head : graph_.heads()) ++readers_[At(head)];
    program_.devices = {placement.device};
  }

  Program Build(const GraphShapes& shapes, const GraphTypes& types) {
    Infer(shapes, types);
    PlaceVariables();
    PlaceHeads();
    PlaceSums();
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      if (i == num_forward_nodes_) program_.num_forward_steps = program_.num_steps();
      AddStep(i);
    }
    if (graph_.num_nodes() == num_forward_nodes_) {
      program_.num_forward_steps = program_.num_steps();
    }
    return std::move(program_);
  }

 private:
  int CountForwardNodes() const {
    return IndexedGraph(
               {placed_heads_.begin(), placed_heads_.begin() + static_cast<ptrdiff_t>(num_heads_)})
        .num_nodes();
  }

  /// Returns the position of a node's device in Program::devices.
  int DeviceOf(int node) {
    const auto placed = node_devices_.find(&graph_.node(node));
    if (placed == node_devices_.end()) return 0;
    std::vector<Device>& devices = program_.devices;
    const auto found = std::find(devices.begin(), devices.end(), placed->second);
    if (found != devices.end()) return static_cast<int>(found - devices.begin());
    devices.push_back(placed->second);
    return static_cast<int>(devices.size()) - 1;
  }

  /// Infers the entries of the gradient, and of copies, from those of the graph itself.
  void Infer(const GraphShapes& shapes, const GraphTypes& types) {
    shapes_.entries.resize(At(graph_.num_entries()));
    types_.entries.resize(At(graph_.num_entries()), DType::kUnknown);
    // Without copies, the forward graph's nodes have the same numbers in the other graph.
    const bool same_numbers = num_forward_nodes_ == forward_.num_nodes();
    const auto know = [&](const Node* node, int entry) {
      shapes_.entries[At(graph_.EntryId(graph_.NodeId(node), 0))] = shapes.entries[At(entry)];
      types_.entries[At(graph_.EntryId(graph_.NodeId(node), 0))] = types.entries[At(entry)];
    };
    if (same_numbers) {
      std::copy(shapes.entries.begin(), shapes.entries.end(), shapes_.entries.begin());
      std::copy(types.entries.begin(), types.entries.end(), types_.entries.begin());
    }
    for (const auto* list : {&forward_.arguments(), &forward_.aux_states()}) {
      for (const int id : *list) know(&forward_.node(id), forward_.EntryId(id, 0));
    }
    for (size_t i = 0; i < training_.head_gradients.size(); ++i) {
      const Node* const node = training_.head_gradients[i].node.get();
      if (graph_.Contains(node)) know(node, forward_.heads()[i]);
    }
    PropagateForward(graph_, same_numbers ? num_forward_nodes_ : 0, &shapes_, &types_);
    if (shapes_.complete && types_.complete) return;
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      for (int k = 0; k < graph_.NumOutputs(i); ++k) {
        const size_t entry = At(graph_.EntryId(i, k));
        if (shapes_.entries[entry].known() && types_.entries[entry] != DType::kUnknown) continue;
        throw Internal("shape or type of \"", graph_.node(i).OutputName(k), "\" is not known");
      }
    }
  }

  int AddValue(ValueKind kind, int index, int node, int entry) {
    program_.values.push_back(
        {kind, index, shapes_.entries[At(entry)], types_.entries[At(entry)], DeviceOf(node)});
    return program_.num_values() - 1;
  }

  void PlaceVariables() {
    const auto place = [this](const Node* node, ValueKind kind, int index) {
      const int id = graph_.NodeId(node);
      const int entry = graph_.EntryId(id, 0);
      value_[At(entry)] = AddValue(kind, index, id, entry);
    };
    int index = 0;
    for (const int id : forward_.arguments()) {
      place(&forward_.node(id), ValueKind::kArgument, index++);
    }
    index = 0;
    for (const int id : forward_.aux_states()) {
      place(&forward_.node(id), ValueKind::kAuxState, index++);
    }
    program_.head_needs_gradient.assign(num_heads_, false);
    for (size_t i = 0; i < training_.head_gradients.size(); ++i) {
      const Node* const node = training_.head_gradients[i].node.get();
      if (!graph_.Contains(node)) continue;
      program_.head_needs_gradient[i] = true;
      place(node, ValueKind::kHeadGradient, static_cast<int>(i));
    }
  }

  void PlaceHeads() {
    const auto node_of = [this](size_t head) {
      return graph_.NodeId(placed_heads_[head].node.get());
    };
    for (size_t i = 0; i < num_heads_; ++i) {
      const int entry = graph_.heads()[i];
      int& value = value_[At(entry)];
      if (value == kNoValue) {
        value = AddValue(ValueKind::kOutput, static_cast<int>(i), node_of(i), entry);
      }
      program_.head_values.push_back(value);
    }
    for (size_t i = num_heads_; i < graph_.heads().size(); ++i) {
      const int argument = training_.gradient_arguments[i - num_heads_];
      const int entry = graph_.heads()[i];
      value_[At(entry)] = AddValue(ValueKind::kGradient, argument, node_of(i), entry);
      request_[At(entry)] = requests_[At(argument)] == kAddTo ? kAddTo : kWriteTo;
    }
  }

  /// Lets the parts of a gradient's sum be written and added to the sum's own value, where each is
  /// read by the sum alone.
  void PlaceSums() {
    for (int i = num_forward_nodes_; i < graph_.num_nodes(); ++i) {
      const Node& node = graph_.node(i);
      if (node.is_variable() || node.property->TypeString() != "add_n") continue;
      const int sum = graph_.EntryId(i, 0);
      std::map<int, int> part_of_node;  // in the order of the steps
      for (const NodeEntry& input : node.inputs) {
        const int part = graph_.EntryId(input);
        const int producer = graph_.NodeId(input.node.get());
        if (readers_[At(part)] != 1 || input.node->is_variable()) continue;
        if (producer < num_forward_nodes_ || merged_[At(producer)]) continue;
        part_of_node.emplace(producer, part);
      }
      if (part_of_node.empty()) continue;
      merged_[At(i)] = true;
      if (value_[At(sum)] == kNoValue) {
        value_[At(sum)] = AddValue(ValueKind::kIntermediate, 0, i, sum);
      }
      OpReqType request = request_[At(sum)];
      for (const auto& [producer, part] : part_of_node) {
        value_[At(part)] = value_[At(sum)];
        request_[At(part)] = request;
        request = kAddTo;
      }
    }
  }

  void AddStep(int i) {
    const Node& node = graph_.node(i);
    if (node.is_variable()) return;
    if (merged_[At(i)]) {
      AddOtherParts(i);
      return;
    }
    Step step;
    step.node = owners_[At(i)];
    step.device = DeviceOf(i);
    step.mutated = node.property->MutatedInputs();
    if (node.forward != nullptr && graph_.Contains(node.forward.get())) {
      step.forward = step_of_node_[At(graph_.NodeId(node.forward.get()))];
    }
    for (const int input : graph_.InputIds(i)) step.inputs.push_back(value_[At(input)]);
    for (int k = 0; k < graph_.NumOutputs(i); ++k) {
      const int entry = graph_.EntryId(i, k);
      int& value = value_[At(entry)];
      const bool wanted = readers_[At(entry)] > 0;
      if (wanted && value == kNoValue) value = AddValue(ValueKind::kIntermediate, 0, i, entry);
      step.outputs.push_back(value);
      step.req.push_back(wanted ? request_[At(entry)] : kNullOp);
    }
    step.req.insert(step.req.end(), step.mutated.size(), kWriteInplace);
    step_of_node_[At(i)] = program_.num_steps();
    program_.steps.push_back(std::move(step));
  }

  /// Adds the parts of a sum that have values of their own.
  void AddOtherParts(int i) {
    const int sum = value_[At(graph_.EntryId(i, 0))];
    for (const NodeEntry& part : graph_.node(i).inputs) {
      const int value = value_[At(graph_.EntryId(part))];
      if (value == sum) continue;
      if (copy_ == nullptr) copy_ = OperatorRegistry::Get().Create("_copy", {});
      Step step;
      step.node = MakeNode(copy_, graph_.node(i).name, {part}).node;
      step.device = DeviceOf(i);
      step.inputs = {value};
      step.outputs = {sum};
      step.req = {kAddTo};
      program_.steps.push_back(std::move(step));
    }
  }

  const std::vector<OpReqType>& requests_;
  const IndexedGraph forward_;
  const TrainingGraph training_;
  std::unordered_map<const Node*, Device> node_devices_;  // of nodes that were placed
  const std::vector<NodeEntry> placed_heads_;
  const IndexedGraph graph_;
  const size_t num_heads_;
  const int num_forward_nodes_;
  GraphShapes shapes_;
  GraphTypes types_;
  Program program_;
  std::vector<int> value_;          // of each entry
  std::vector<int> readers_;        // of each entry, heads included
  std::vector<OpReqType> request_;  // of each entry
  std::vector<bool> merged_;        // for each node, whether it is a sum without a call
  std::vector<int> step_of_node_;   // kNoValue for variables and merged sums
  std::vector<std::shared_ptr<Node>> owners_;
  std::shared_ptr<const OperatorProperty> copy_;  // created at the first use
};

}  // namespace

std::vector<int> Step::Writes() const {
  std::vector<int> writes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (req[i] != kNullOp) writes.push_back(outputs[i]);
  }
  for (size_t i = 0; i < mutated.size(); ++i) {
    if (req[outputs.size() + i] != kNullOp) writes.push_back(inputs[At(mutated[i])]);
  }
  return writes;
}

Program BuildProgram(const std::vector<NodeEntry>& heads, const GraphShapes& shapes,
                     const GraphTypes& types, const std::vector<OpReqType>& grad_requests,
                     const ProgramPlacement& placement) {
  return ProgramBuilder(heads, grad_requests, placement).Build(shapes, types);
}

}  // namespace tessera::graph
