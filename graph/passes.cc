#include "tessera/graph/passes.h"

#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/graph/dump.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes/common_subexpressions.h"
#include "tessera/graph/passes/dead_nodes.h"
#include "tessera/graph/passes/fold_batch_norm.h"
#include "tessera/graph/passes/join_relu.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/graph/passes/simplify.h"

namespace tessera::graph {
namespace {

using base_internal::At;

/// A graph on its way through the passes. Gradients are outputs behind the graph's own, until the
/// end.
class Pipeline {
 public:
  Pipeline(const std::vector<NodeEntry>& heads, const PassOptions& options)
      : options_(options),
        num_heads_(heads.size()),
        splits_(options.splits && options.placement.groups.empty()),
        heads_(heads),
        shapes_(options.shapes),
        types_(options.types) {
    result_.dump.emplace();
  }

  PreparedGraph Run() {
    if (options_.training || !options_.wanted.empty()) {
      ForTraining();
    } else {
      ForInference();
    }
    Place();
    TakeHeads();
    return std::move(result_);
  }

 private:
  void ForInference() {
    Finish("simplify", SimplifyForInference(heads_));
    Finish("common_subexpressions", MergeCommonSubexpressions(heads_));
    FoldedGraph folded;
    if (splits_) {
      folded = FoldBatchNorms(heads_, types_);
      Finish("fold_batch_norm", std::move(folded.heads));
    }
    RemoveDead();
    SplitConstants();
    if (!splits_ || folded.parameters.empty()) return;
    for (const FixedValue& constant : result_.constants) {
      folded.parameters.insert(constant.variable.node.get());
    }
    SplitGraph split = SplitOff(
        heads_, [&](const Node& variable) { return folded.parameters.contains(&variable); },
        "_parameter");
    result_.parameters = std::move(split.fixed);
    KnowFixed(&result_.parameters);
    Finish("parameters", std::move(split.heads));
  }

  void ForTraining() {
    Finish("common_subexpressions", MergeCommonSubexpressions(heads_));
    if (options_.fuses) Finish("join_relu", JoinRelu(heads_));
    SplitConstants();
    if (!options_.wanted.empty()) {
      Gradients gradients = BuildGradients(heads_, options_.wanted, options_.form);
      result_.head_gradients = std::move(gradients.head_gradients);
      result_.gradients = std::move(gradients.gradients);
      std::vector<NodeEntry> all = heads_;
      for (const NodeEntry& gradient : result_.gradients) {
        if (gradient.node != nullptr) all.push_back(gradient);
      }
      Finish("gradient", std::move(all));
      Finish("common_subexpressions", MergeCommonSubexpressions(heads_));
    }
    RemoveDead();
  }

  void SplitConstants() {
    if (!splits_) return;
    SplitGraph split = SplitOffConstants(heads_);
    result_.constants = std::move(split.fixed);
    Finish("constants", std::move(split.heads));
    KnowFixed(&result_.constants);
  }

  /// Infers shapes and types of fixed values, and notes that the variables in their place are like
  /// them.
  void KnowFixed(std::vector<FixedValue>* fixed) {
    if (fixed->empty()) return;
    std::vector<NodeEntry> values;
    for (const FixedValue& one : *fixed) values.push_back(one.value);
    const IndexedGraph graph(values);
    const GraphShapes shapes = InferShapes(graph, KnownIn(graph, shapes_));
    const GraphTypes types = InferTypes(graph, KnownIn(graph, types_));
    for (size_t i = 0; i < values.size(); ++i) {
      FixedValue& one = (*fixed)[i];
      one.shape = shapes.entries[At(graph.heads()[i])];
      one.dtype = types.entries[At(graph.heads()[i])];
      shapes_[one.variable.node->name] = one.shape;
      types_[one.variable.node->name] = one.dtype;
    }
  }

  /// Notes that the head gradients are like the outputs.
  void KnowHeadGradients() {
    const std::vector<NodeEntry> outputs(heads_.begin(),
                                         heads_.begin() + static_cast<std::ptrdiff_t>(num_heads_));
    const IndexedGraph graph(outputs);
    const GraphShapes shapes = InferShapes(graph, KnownIn(graph, shapes_));
    const GraphTypes types = InferTypes(graph, KnownIn(graph, types_));
    for (size_t i = 0; i < result_.head_gradients.size(); ++i) {
      const std::string& name = result_.head_gradients[i].node->name;
      shapes_[name] = shapes.entries[At(graph.heads()[i])];
      types_[name] = types.entries[At(graph.heads()[i])];
    }
  }

  void RemoveDead() {
    if (!ReadsShapesAlone(heads_)) return;
    if (!result_.head_gradients.empty()) KnowHeadGradients();
    const IndexedGraph graph(heads_);
    const GraphShapes shapes = InferShapes(graph, KnownIn(graph, shapes_));
    const GraphTypes types = InferTypes(graph, KnownIn(graph, types_));
    Finish("dead_nodes", RemoveDeadNodes(heads_, shapes, types));
  }

  void Place() {
    if (options_.placement.groups.empty()) return;
    PlacementOptions placement = options_.placement;
    placement.heads.assign(num_heads_, std::nullopt);
    if (!options_.wanted.empty()) PlaceGradients(&placement);
    PlacedGraph placed = PlaceDevices(heads_, placement);
    result_.devices = std::move(placed.devices);
    Finish("placement", std::move(placed.heads));
  }

  /// Wants each gradient on the device of its variable, and each head gradient on that of its head.
  void PlaceGradients(PlacementOptions* placement) const {
    const PlacedGraph before = PlaceDevices(heads_, *placement);
    for (size_t i = 0; i < result_.gradients.size(); ++i) {
      if (result_.gradients[i].node == nullptr) continue;
      const auto variable = before.devices.find(options_.wanted[i].node.get());
      const bool has_device = variable != before.devices.end();
      placement->heads.push_back(has_device ? std::optional(variable->second) : std::nullopt);
    }
    for (size_t i = 0; i < result_.head_gradients.size(); ++i) {
      placement->variables.emplace(result_.head_gradients[i].node->name,
                                   before.devices.at(before.heads[i].node.get()));
    }
  }

  void TakeHeads() {
    result_.heads.assign(heads_.begin(), heads_.begin() + static_cast<std::ptrdiff_t>(num_heads_));
    size_t next = num_heads_;
    for (NodeEntry& gradient : result_.gradients) {
      if (gradient.node != nullptr) gradient = heads_[next++];
    }
  }

  void Finish(std::string_view pass, std::vector<NodeEntry> heads) {
    heads_ = std::move(heads);
    if (!result_.dump->enabled()) return;
    const IndexedGraph graph(heads_);
    const GraphShapes shapes = InferShapes(graph, KnownIn(graph, shapes_));
    const GraphTypes types = InferTypes(graph, KnownIn(graph, types_));
    result_.dump->Write(pass, heads_,
                        {.shapes = &shapes,
                         .types = &types,
                         .devices = &result_.devices,
                         .device = options_.placement.device});
  }

  const PassOptions& options_;
  const size_t num_heads_;
  const bool splits_;
  std::vector<NodeEntry> heads_;
  std::map<std::string, TShape> shapes_;  // of variables, by name
  std::map<std::string, DType> types_;
  PreparedGraph result_;
};

}  // namespace

PreparedGraph RunPasses(const std::vector<NodeEntry>& heads, const PassOptions& options) {
  return Pipeline(heads, options).Run();
}

}  // namespace tessera::graph
