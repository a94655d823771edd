#include "tessera/graph/program.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/gradient.h"
#include "tessera/graph/passes/sums.h"
#include "tessera/graph/program/propagate.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using base_internal::At;

std::shared_ptr<Node> Apply(std::string_view op, std::string name, NodeEntry input) {
  return MakeNode(OperatorRegistry::Get().Create(op, {}), std::move(name), {std::move(input)}).node;
}

/// Returns the gradients as separate outputs of operators: each one is no variable, no value of the
/// graph itself and no other gradient, so that each can have its own array.
std::vector<NodeEntry> SeparateGradients(const IndexedGraph& forward,
                                         const std::vector<NodeEntry>& wanted,
                                         PreparedGraph* graph) {
  std::vector<NodeEntry> separate;
  std::set<std::pair<const Node*, int>> seen;
  for (size_t i = 0; i < wanted.size(); ++i) {
    NodeEntry gradient = graph->gradients[i];
    const std::string& name = wanted[i].node->name;
    const bool is_zero = gradient.node == nullptr;
    if (is_zero || gradient.node->is_variable() || forward.Contains(gradient.node.get()) ||
        !seen.insert({gradient.node.get(), gradient.index}).second) {
      gradient = is_zero ? NodeEntry{Apply("zeros_like", name + "_zero_grad", wanted[i]), 0}
                         : NodeEntry{Apply("_copy", name + "_grad", gradient), 0};
      const auto device = graph->devices.find(wanted[i].node.get());
      if (device != graph->devices.end()) graph->devices[gradient.node.get()] = device->second;
    }
    separate.push_back(gradient);
  }
  return separate;
}

class ProgramBuilder {
 public:
  ProgramBuilder(const std::vector<NodeEntry>& heads, const std::vector<OpReqType>& requests,
                 const ProgramOptions& options)
      : requests_(requests),
        given_(heads),
        num_heads_(heads.size()),
        training_(AddGradients(heads, options)),
        graph_(training_heads_),
        value_(At(graph_.num_entries()), kNoValue),
        readers_(At(graph_.num_entries()), 0),
        request_(At(graph_.num_entries()), kWriteTo),
        fixed_(training_.constants) {
    fixed_.insert(fixed_.end(), training_.parameters.begin(), training_.parameters.end());
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      for (const int input : graph_.InputIds(i)) ++readers_[At(input)];
    }
    for (const int head : graph_.heads()) ++readers_[At(head)];
    program_.devices = {options.device};
    keeps_unread_ = options.keeps_unread;
  }

  Program Build(const GraphShapes& shapes, const GraphTypes& types) {
    Infer(shapes, types);
    PlaceVariables(shapes, types);
    PlaceHeads();
    sums_ = PlaceSums(graph_, GradientNodes());
    PlaceSumParts();
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
  /// Takes the result of the passes, or adds gradients to the graph as it is. Sets
  /// gradient_arguments_, training_heads_ and num_forward_nodes_.
  PreparedGraph AddGradients(const std::vector<NodeEntry>& heads, const ProgramOptions& options) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != kNullOp) gradient_arguments_.push_back(static_cast<int>(i));
    }
    std::vector<NodeEntry> wanted;
    for (const int argument : gradient_arguments_) {
      wanted.push_back({given_.Owner(given_.arguments()[At(argument)]), 0});
    }
    PreparedGraph graph;
    if (options.prepared != nullptr) {
      graph = *options.prepared;
    } else {
      graph.heads = heads;
      if (!wanted.empty()) {
        Gradients gradients = BuildGradients(heads, wanted);
        graph.head_gradients = std::move(gradients.head_gradients);
        graph.gradients = std::move(gradients.gradients);
      }
    }
    const std::optional<IndexedGraph> rewritten =
        options.prepared == nullptr ? std::nullopt : std::optional<IndexedGraph>(graph.heads);
    const IndexedGraph& forward = rewritten ? *rewritten : given_;
    num_forward_nodes_ = forward.num_nodes();
    training_heads_ = graph.heads;
    for (const NodeEntry& gradient : SeparateGradients(forward, wanted, &graph)) {
      training_heads_.push_back(gradient);
    }
    return graph;
  }

  /// Returns the position of a node's device in Program::devices.
  int DeviceOf(const Node* node) {
    const auto placed = training_.devices.find(node);
    if (placed == training_.devices.end()) return 0;
    std::vector<Device>& devices = program_.devices;
    const auto found = std::find(devices.begin(), devices.end(), placed->second);
    if (found != devices.end()) return static_cast<int>(found - devices.begin());
    devices.push_back(placed->second);
    return static_cast<int>(devices.size()) - 1;
  }

  /// Takes the shapes and types of entries of the given graph and of head gradients, and infers the
  /// others.
  void Infer(const GraphShapes& shapes, const GraphTypes& types) {
    shapes_.entries.resize(At(graph_.num_entries()));
    types_.entries.resize(At(graph_.num_entries()), DType::kUnknown);
    const auto know = [&](int entry, int given) {
      shapes_.entries[At(entry)] = shapes.entries[At(given)];
      types_.entries[At(entry)] = types.entries[At(given)];
    };
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      if (!given_.Contains(&graph_.node(i))) continue;
      const int given = given_.NodeId(&graph_.node(i));
      for (int k = 0; k < graph_.NumOutputs(i); ++k) {
        know(graph_.EntryId(i, k), given_.EntryId(given, k));
      }
    }
    for (const FixedValue& fixed : fixed_) {
      if (!graph_.Contains(fixed.variable.node.get())) continue;
      const size_t entry = At(graph_.EntryId(fixed.variable));
      shapes_.entries[entry] = fixed.shape;
      types_.entries[entry] = fixed.dtype;
    }
    for (size_t i = 0; i < training_.head_gradients.size(); ++i) {
      const Node* const node = training_.head_gradients[i].node.get();
      if (graph_.Contains(node)) {
        know(graph_.EntryId(graph_.NodeId(node), 0), given_.heads()[i]);
      }
    }
    PropagateForward(graph_, &shapes_, &types_);
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
    program_.values.push_back({kind, index, shapes_.entries[At(entry)], types_.entries[At(entry)],
                               DeviceOf(&graph_.node(node))});
    return program_.num_values() - 1;
  }

  /// Adds the value of a variable of the given graph, which the passes may have left out.
  void PlaceVariable(int given, ValueKind kind, int index, const GraphShapes& shapes,
                     const GraphTypes& types) {
    const Node* const node = &given_.node(given);
    const size_t entry = At(given_.EntryId(given, 0));
    program_.values.push_back(
        {kind, index, shapes.entries[entry], types.entries[entry], DeviceOf(node)});
    if (!graph_.Contains(node)) return;
    value_[At(graph_.EntryId(graph_.NodeId(node), 0))] = program_.num_values() - 1;
  }

  void PlaceVariables(const GraphShapes& shapes, const GraphTypes& types) {
    int index = 0;
    for (const int id : given_.arguments()) {
      PlaceVariable(id, ValueKind::kArgument, index++, shapes, types);
    }
    index = 0;
    for (const int id : given_.aux_states()) {
      PlaceVariable(id, ValueKind::kAuxState, index++, shapes, types);
    }
    for (size_t i = 0; i < fixed_.size(); ++i) {
      const Node* const node = fixed_[i].variable.node.get();
      if (!graph_.Contains(node)) continue;
      const int id = graph_.NodeId(node), entry = graph_.EntryId(id, 0);
      value_[At(entry)] = AddValue(ValueKind::kFixed, static_cast<int>(i), id, entry);
    }
    program_.head_needs_gradient.assign(num_heads_, false);
    for (size_t i = 0; i < training_.head_gradients.size(); ++i) {
      const Node* const node = training_.head_gradients[i].node.get();
      if (!graph_.Contains(node)) continue;
      program_.head_needs_gradient[i] = true;
      const int id = graph_.NodeId(node), entry = graph_.EntryId(id, 0);
      value_[At(entry)] = AddValue(ValueKind::kHeadGradient, static_cast<int>(i), id, entry);
    }
  }

  void PlaceHeads() {
    const auto node_of = [this](size_t head) {
      return graph_.NodeId(training_heads_[head].node.get());
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
      const int argument = gradient_arguments_[i - num_heads_];
      const int entry = graph_.heads()[i];
      value_[At(entry)] = AddValue(ValueKind::kGradient, argument, node_of(i), entry);
      request_[At(entry)] = requests_[At(argument)] == kAddTo ? kAddTo : kWriteTo;
    }
  }

  /// Returns, for each node, whether it belongs to the gradient.
  std::vector<bool> GradientNodes() const {
    std::vector<bool> nodes(At(graph_.num_nodes()), false);
    std::fill(nodes.begin() + num_forward_nodes_, nodes.end(), true);
    return nodes;
  }

  /// Gives the parts of a placed sum the sum's own value: the first one is written, or added to
  /// what is requested of the sum, and the others are added.
  void PlaceSumParts() {
    for (int i = num_forward_nodes_; i < graph_.num_nodes(); ++i) {
      if (!sums_.is_placed[At(i)]) continue;
      const int sum = graph_.EntryId(i, 0);
      if (value_[At(sum)] == kNoValue) {
        value_[At(sum)] = AddValue(ValueKind::kIntermediate, 0, i, sum);
      }
      std::vector<int> parts;
      for (const int part : graph_.InputIds(i)) {
        if (sums_.sum_of[At(part)] == sum) parts.push_back(part);
      }
      std::sort(parts.begin(), parts.end());  // in the order of the steps
      OpReqType request = request_[At(sum)];
      for (const int part : parts) {
        value_[At(part)] = value_[At(sum)];
        request_[At(part)] = request;
        request = kAddTo;
      }
    }
  }

  void AddStep(int i) {
    const Node& node = graph_.node(i);
    if (node.is_variable()) return;
    if (sums_.is_placed[At(i)]) {
      AddOtherParts(i);
      return;
    }
    Step step;
    step.node = graph_.Owner(i);
    step.device = DeviceOf(&node);
    step.mutated = node.property->MutatedInputs();
    for (const int input : graph_.InputIds(i)) step.inputs.push_back(value_[At(input)]);
    SetInputTypes(i, &step);
    for (int k = 0; k < graph_.NumOutputs(i); ++k) {
      const int entry = graph_.EntryId(i, k);
      int& value = value_[At(entry)];
      const bool wanted = readers_[At(entry)] > 0 || (keeps_unread_ && HasOutput(node, k));
      if (wanted && value == kNoValue) value = AddValue(ValueKind::kIntermediate, 0, i, entry);
      step.outputs.push_back(value);
      step.req.push_back(wanted ? request_[At(entry)] : kNullOp);
    }
    step.req.insert(step.req.end(), step.mutated.size(), kWriteInplace);
    program_.steps.push_back(std::move(step));
  }

  /// Returns whether a node computes that output: gradients exist of some inputs alone.
  static bool HasOutput(const Node& node, int output) {
    return node.forward == nullptr || node.forward->property->ArgumentHasGradient(output);
  }

  void SetInputTypes(int i, Step* step) const {
    const auto add = [&](int entry) {
      step->in_shapes.push_back(shapes_.entries[At(entry)]);
      step->in_types.push_back(types_.entries[At(entry)]);
    };
    if (graph_.node(i).forward == nullptr) {
      for (const int input : graph_.InputIds(i)) add(input);
    } else {
      // A gradient is like the input that it belongs to.
      for (int k = 0; k < graph_.NumOutputs(i); ++k) add(graph_.EntryId(i, k));
    }
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
      step.device = DeviceOf(&graph_.node(i));
      step.in_shapes = {shapes_.entries[At(graph_.EntryId(part))]};
      step.in_types = {types_.entries[At(graph_.EntryId(part))]};
      step.inputs = {value};
      step.outputs = {sum};
      step.req = {kAddTo};
      program_.steps.push_back(std::move(step));
    }
  }

  const std::vector<OpReqType>& requests_;
  const IndexedGraph given_;
  const size_t num_heads_;
  std::vector<int> gradient_arguments_;    // the argument of each gradient
  std::vector<NodeEntry> training_heads_;  // the outputs, then the gradients
  int num_forward_nodes_ = 0;
  const PreparedGraph training_;
  const IndexedGraph graph_;
  GraphShapes shapes_;
  GraphTypes types_;
  Program program_;
  bool keeps_unread_ = false;       // see ProgramOptions
  std::vector<int> value_;          // of each entry
  std::vector<int> readers_;        // of each entry, heads included
  std::vector<OpReqType> request_;  // of each entry
  std::vector<FixedValue> fixed_;   // constants, then parameters
  PlacedSums sums_;
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
  if (workspace != kNoValue) writes.push_back(workspace);
  return writes;
}

Program BuildProgram(const std::vector<NodeEntry>& heads, const GraphShapes& shapes,
                     const GraphTypes& types, const std::vector<OpReqType>& grad_requests,
                     const ProgramOptions& options) {
  return ProgramBuilder(heads, grad_requests, options).Build(shapes, types);
}

}  // namespace tessera::graph
