#include "tessera/graph/passes/gradient.h"

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/graph/backward_property.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/loop_property.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/gradient_builder.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using base_internal::At;

/// Returns a node of the gradient of `node`, whose `ctx_group` it gets, so that both are computed
/// on one device.
NodeEntry MakeOperator(const Node& node, std::string_view op, std::string name,
                       const std::vector<NodeEntry>& inputs, const ParameterMap& parameters = {}) {
  NodeEntry made =
      MakeNode(OperatorRegistry::Get().FindOrCreate(op, parameters), std::move(name), inputs);
  std::string group = DeviceGroup(node);
  if (!group.empty()) made.node->attributes.Add("ctx_group", std::move(group));
  return made;
}

/// The gradient of one node, built of other operators.
class NodeGradient final : public GradientBuilder {
 public:
  NodeGradient(std::shared_ptr<Node> node, std::vector<NodeEntry> out_grads)
      : node_(std::move(node)), out_grads_(std::move(out_grads)), in_grads_(node_->inputs.size()) {}

  Value OutGrad(int output) override {
    NodeEntry& gradient = out_grads_[At(output)];
    if (gradient.node == nullptr) {
      gradient = MakeOperator(*node_, "zeros_like", node_->name + "_zero_grad", {{node_, output}});
    }
    return Add(gradient);
  }
  Value Input(int input) override { return Add(node_->inputs[At(input)]); }
  Value Output(int output) override { return Add({node_, output}); }

  std::vector<Value> Apply(std::string_view op, std::span<const Value> inputs,
                           const ParameterMap& parameters) override {
    std::vector<NodeEntry> entries;
    for (const Value value : inputs) entries.push_back(values_[At(value)]);
    const NodeEntry made = MakeOperator(
        *node_, op, node_->name + "_grad" + std::to_string(values_.size()), entries, parameters);
    std::vector<Value> outputs;
    const int num_visible = made.node->property->NumVisibleOutputs();
    for (int i = 0; i < num_visible; ++i) {
      outputs.push_back(Add({made.node, i}));
    }
    return outputs;
  }
  void SetInGrad(int input, Value gradient) override {
    in_grads_[At(input)] = values_[At(gradient)];
  }

  const std::vector<NodeEntry>& in_grads() const { return in_grads_; }

 private:
  Value Add(NodeEntry entry) {
    values_.push_back(std::move(entry));
    return static_cast<Value>(values_.size()) - 1;
  }

  std::shared_ptr<Node> node_;
  std::vector<NodeEntry> out_grads_;
  std::vector<NodeEntry> in_grads_;
  std::vector<NodeEntry> values_;
};

class GradientPass {
 public:
  GradientPass(const std::vector<NodeEntry>& heads, const std::vector<NodeEntry>& wanted,
               GradientForm form)
      : graph_(heads), form_(form), contributions_(At(graph_.num_entries())) {
    for (const NodeEntry& head : heads) owners_[head.node.get()] = head.node;
    for (const Node* node : graph_.nodes()) {
      for (const NodeEntry& input : node->inputs) owners_[input.node.get()] = input.node;
    }
    MarkNeeded(wanted);
  }

  Gradients Build(const std::vector<NodeEntry>& heads, const std::vector<NodeEntry>& wanted) {
    Gradients result;
    is_head_.assign(At(graph_.num_nodes()), false);
    for (size_t i = 0; i < heads.size(); ++i) {
      result.head_gradients.push_back(MakeVariable("_head_grad_" + std::to_string(i)));
      is_head_[At(graph_.NodeId(heads[i].node.get()))] = true;
      if (needed_[At(graph_.heads()[i])]) {
        contributions_[At(graph_.heads()[i])].push_back(result.head_gradients.back());
      }
    }
    for (int i = graph_.num_nodes() - 1; i >= 0; --i) VisitNode(i);
    for (const NodeEntry& value : wanted) {
      const bool present = graph_.Contains(value.node.get());
      result.gradients.push_back(present ? Sum(*value.node, value.index) : NodeEntry());
    }
    return result;
  }

 private:
  /// Marks the entries that a wanted gradient flows through.
  void MarkNeeded(const std::vector<NodeEntry>& wanted) {
    needed_.assign(At(graph_.num_entries()), false);
    for (const NodeEntry& value : wanted) {
      if (graph_.Contains(value.node.get())) needed_[At(graph_.EntryId(value))] = true;
    }
    for (int i = 0; i < graph_.num_nodes(); ++i) {
      bool any = false;
      for (const int input : graph_.InputIds(i)) any |= needed_[At(input)];
      if (!any) continue;
      for (int k = 0; k < graph_.NumOutputs(i); ++k) needed_[At(graph_.EntryId(i, k))] = true;
    }
  }

  /// Returns the sum of the contributions to the gradient of an output; no node if there are none.
  NodeEntry Sum(const Node& node, int output) {
    std::vector<NodeEntry>& parts =
        contributions_[At(graph_.EntryId(graph_.NodeId(&node), output))];
    if (parts.empty()) return {};
    if (parts.size() > 1) {
      parts = {MakeOperator(node, "add_n", names_.Of(node, output) + "_grad", parts,
                            {{"num_args", std::to_string(parts.size())}})};
    }
    return parts.front();
  }

  void VisitNode(int i) {
    const Node& node = graph_.node(i);
    if (node.is_variable()) return;
    const OperatorProperty& property = *node.property;
    const std::vector<int> inputs = graph_.InputIds(i);
    bool is_wanted = false, can_reach = false;
    for (int k = 0; k < node.num_inputs(); ++k) {
      is_wanted |= needed_[At(inputs[At(k)])];
      can_reach |= needed_[At(inputs[At(k)])] && property.ArgumentHasGradient(k);
    }
    if (!is_wanted) return;
    std::vector<NodeEntry> out_grads;
    bool reached = property.IsLoss() && is_head_[At(i)];
    for (int k = 0; k < graph_.NumOutputs(i); ++k) {
      out_grads.push_back(Sum(node, k));
      reached |= out_grads.back().node != nullptr;
    }
    if (!reached) return;
    if (!property.HasGradient()) {
      const auto* const loop = dynamic_cast<const LoopProperty*>(&property);
      throw InvalidArgument("node \"", node.name, "\": a gradient is wanted through ",
                            property.TypeString(), ", which has none",
                            loop == nullptr ? "" : ": " + loop->loop().gradient_error);
    }
    if (!can_reach) return;
    const std::vector<NodeEntry> in_grads = GradientOf(owners_.at(&node), std::move(out_grads));
    for (int k = 0; k < node.num_inputs(); ++k) {
      if (!needed_[At(inputs[At(k)])] || !property.ArgumentHasGradient(k)) continue;
      if (in_grads[At(k)].node == nullptr) continue;
      contributions_[At(inputs[At(k)])].push_back(in_grads[At(k)]);
    }
  }

  std::vector<NodeEntry> GradientOf(const std::shared_ptr<Node>& node,
                                    std::vector<NodeEntry> out_grads) const {
    const OperatorProperty& property = *node->property;
    if (form_ == GradientForm::kDifferentiable || !property.HasBackward()) {
      NodeGradient builder(node, out_grads);
      if (property.BuildGradient(&builder)) return builder.in_grads();
    }
    if (!property.HasBackward()) {
      throw Internal(property.TypeString(),
                     ": it has a gradient, but neither Backward nor a graph");
    }
    return BackwardNode(node, std::move(out_grads));
  }

  static std::vector<NodeEntry> BackwardNode(const std::shared_ptr<Node>& node,
                                             std::vector<NodeEntry> out_grads) {
    auto property = std::make_shared<BackwardProperty>(node->property);
    std::vector<NodeEntry> inputs;
    for (const auto& [role, index] : property->sources()) {
      switch (role) {
        case BackwardProperty::Role::kOutGrad: {
          NodeEntry& gradient = out_grads[At(index)];
          if (gradient.node == nullptr) {
            gradient =
                MakeOperator(*node, "zeros_like", node->name + "_zero_grad" + std::to_string(index),
                             {{node, index}});
          }
          inputs.push_back(gradient);
          break;
        }
        case BackwardProperty::Role::kInData:
          inputs.push_back(node->inputs[At(index)]);
          break;
        case BackwardProperty::Role::kOutData:
          inputs.push_back({node, index});
          break;
      }
    }
    const NodeEntry made = MakeNode(std::move(property), node->name + "_backward", inputs);
    made.node->forward = node;
    std::vector<NodeEntry> in_grads;
    for (int k = 0; k < node->num_inputs(); ++k) in_grads.push_back({made.node, k});
    return in_grads;
  }

  const IndexedGraph graph_;
  const GradientForm form_;
  std::unordered_map<const Node*, std::shared_ptr<Node>> owners_;
  OutputNames names_;
  std::vector<bool> needed_;                           // of each entry
  std::vector<bool> is_head_;                          // of each node
  std::vector<std::vector<NodeEntry>> contributions_;  // to the gradient of each entry
};

}  // namespace

Gradients BuildGradients(const std::vector<NodeEntry>& heads, const std::vector<NodeEntry>& wanted,
                         GradientForm form) {
  return GradientPass(heads, wanted, form).Build(heads, wanted);
}

}  // namespace tessera::graph
