#include "tessera/graph/passes/fold_batch_norm.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {
namespace {

using Extents = std::vector<int64_t>;

// The inputs of BatchNorm and of the layers.
enum BatchNormInput { kData, kGamma, kBeta, kMovingMean, kMovingVar };
enum LayerInput { kLayerData, kWeight, kBias };

bool IsBatchNorm(const Node& node) {
  if (node.is_variable()) return false;
  const std::string& op = node.property->TypeString();
  return op == "BatchNorm" || op == "BatchNorm_v1";
}

template <typename T>
T Parameter(const ParameterMap& parameters, const char* name) {
  return ops_internal::ParameterText<T>::Parse(parameters.at(name));
}

std::string Print(const Extents& shape) {
  return ops_internal::ParameterText<Extents>::Print(shape);
}

/// Returns whether channels lie on that axis of a layer's output.
bool HasChannelsOn(const Node& layer, int64_t axis) {
  const std::string& op = layer.property->TypeString();
  const ParameterMap parameters = layer.property->GetParams();
  if (op == "FullyConnected") {
    return axis == -1 || (axis == 1 && Parameter<bool>(parameters, "flatten"));
  }
  if (op != "Convolution" && op != "Deconvolution") return false;
  const int64_t rank = Parameter<TShape>(parameters, "kernel").ndim() + 2;
  const std::string& layout = parameters.at("layout");
  if (layout.back() == 'C') {  // NHWC and the like
    return op == "Convolution" && (axis == rank - 1 || axis == -1);
  }
  return axis == 1 || axis == 1 - rank;
}

/// Builds the nodes of one folded layer. They have the attributes of the layer.
class FoldedLayer {
 public:
  FoldedLayer(const Node& layer, const Node& batch_norm)
      : layer_(layer), norm_(batch_norm), parameters_(layer.property->GetParams()) {}

  std::shared_ptr<Node> Build() const {
    const NodeEntry scale = Scale();
    ParameterMap parameters = parameters_;
    parameters["no_bias"] = "False";
    return Make(layer_.property->TypeString(), "",
                {layer_.inputs[kLayerData], Weight(scale), Bias(scale)}, parameters)
        .node;
  }

 private:
  NodeEntry Make(std::string_view op, const std::string& suffix,
                 const std::vector<NodeEntry>& inputs, const ParameterMap& parameters = {}) const {
    return MakeOperatorLike(layer_, op, norm_.name + suffix, inputs, parameters);
  }
  NodeEntry Reshape(const NodeEntry& value, const std::string& suffix, const Extents& shape) const {
    return Make("Reshape", suffix, {value}, {{"shape", Print(shape)}});
  }

  NodeEntry Scale() const {
    const ParameterMap norm = norm_.property->GetParams();
    const NodeEntry variance =
        Make("_plus_scalar", "_var_eps", {norm_.inputs[kMovingVar]}, {{"scalar", norm.at("eps")}});
    const NodeEntry inverse = Make("rsqrt", "_invstd", {variance});
    if (Parameter<bool>(norm, "fix_gamma")) return inverse;
    return Make("elemwise_mul", "_scale", {inverse, norm_.inputs[kGamma]});
  }

  NodeEntry Bias(const NodeEntry& scale) const {
    const NodeEntry& mean = norm_.inputs[kMovingMean];
    const NodeEntry& beta = norm_.inputs[kBeta];
    if (layer_.inputs.size() <= kBias) {
      const NodeEntry shift = Make("elemwise_mul", "_shift", {mean, scale});
      return Make("elemwise_sub", "_bias", {beta, shift});
    }
    const NodeEntry centered = Make("elemwise_sub", "_centered", {layer_.inputs[kBias], mean});
    const NodeEntry scaled = Make("elemwise_mul", "_shift", {centered, scale});
    return Make("elemwise_add", "_bias", {scaled, beta});
  }

  NodeEntry Weight(const NodeEntry& scale) const {
    const NodeEntry& weight = layer_.inputs[kWeight];
    const bool is_dense = layer_.property->TypeString() == "FullyConnected";
    const auto taps =
        static_cast<size_t>(is_dense ? 0 : Parameter<TShape>(parameters_, "kernel").ndim());
    if (layer_.property->TypeString() != "Deconvolution") {
      // (channel, input, taps...)
      Extents factor(taps + 2, 1);
      factor[0] = -1;
      return Times(weight, Reshape(scale, "_factor", factor), "_weight");
    }
    // (group times input, channel of the group, taps...), with the group as a dimension of its own.
    const auto groups = Parameter<int64_t>(parameters_, "num_group");
    Extents factor(taps + 3, 1);
    factor[0] = groups;
    factor[2] = -1;
    const NodeEntry grouped = Reshape(weight, "_grouped", {-4, groups, -1, -2});
    const NodeEntry product = Times(grouped, Reshape(scale, "_factor", factor), "_product");
    return Reshape(product, "_weight", {-3, -2});
  }

  NodeEntry Times(const NodeEntry& weight, const NodeEntry& factor,
                  const std::string& suffix) const {
    return Make("broadcast_mul", suffix, {weight, factor});
  }

  const Node& layer_;
  const Node& norm_;
  const ParameterMap parameters_;  // of the layer
};

/// Finds the BatchNorm nodes that can be folded.
class Candidates {
 public:
  Candidates(const std::vector<NodeEntry>& heads, const std::vector<std::shared_ptr<Node>>& order) {
    for (const NodeEntry& head : heads) ++readers_[{head.node.get(), head.index}];
    for (const std::shared_ptr<Node>& node : order) {
      for (const NodeEntry& input : node->inputs) ++readers_[{input.node.get(), input.index}];
      // Outside of training, BatchNorm changes nothing.
      if (node->is_variable() || IsBatchNorm(*node)) continue;
      for (const int input : node->property->MutatedInputs()) {
        changed_.insert(node->inputs[static_cast<size_t>(input)].node.get());
      }
    }
  }

  bool Contain(const Node& node) const {
    if (!IsBatchNorm(node)) return false;
    const NodeEntry& data = node.inputs[kData];
    const Node& layer = *data.node;
    if (layer.is_variable()) return false;
    // Mean and variance are outputs of the node, shown or not, that the folded layer lacks.
    if (node.property->NumVisibleOutputs() > 1 || Reads(node, 1) || Reads(node, 2)) return false;
    if (readers_.at({&layer, data.index}) != 1) return false;
    if (DeviceGroup(layer) != DeviceGroup(node)) return false;
    const ParameterMap parameters = node.property->GetParams();
    const auto axis = parameters.find("axis");
    if (!HasChannelsOn(layer,
                       axis == parameters.end() ? 1 : Parameter<int64_t>(parameters, "axis"))) {
      return false;
    }
    return AreParameters(layer, kWeight) && AreParameters(node, kGamma);
  }

 private:
  bool Reads(const Node& node, int output) const { return readers_.contains({&node, output}); }

  /// Returns whether all inputs from `first` on are variables that no call changes.
  bool AreParameters(const Node& node, size_t first) const {
    return std::all_of(node.inputs.begin() + static_cast<std::ptrdiff_t>(first), node.inputs.end(),
                       [this](const NodeEntry& input) {
                         return input.node->is_variable() && !changed_.contains(input.node.get());
                       });
  }

  absl::flat_hash_map<std::pair<const Node*, int>, int> readers_;  // of each entry, with heads
  std::unordered_set<const Node*> changed_;
};

}  // namespace

FoldedGraph FoldBatchNorms(const std::vector<NodeEntry>& heads,
                           const std::map<std::string, DType>& types) {
  const auto order = TopologicalOrder(heads);
  if (std::none_of(order.begin(), order.end(),
                   [](const auto& node) { return IsBatchNorm(*node); })) {
    return {heads, {}};
  }
  const Candidates candidates(heads, order);
  const IndexedGraph graph(heads);
  const GraphTypes inferred = InferTypes(graph, KnownIn(graph, types));
  FoldedGraph folded;
  const auto replace = [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    if (!candidates.Contain(node)) return Replacement{rebuilt};
    const DType dtype = inferred.entries[static_cast<size_t>(graph.EntryId(node.inputs[kData]))];
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64) return Replacement{rebuilt};
    const Node& layer = *rebuilt->inputs[kData].node;
    const std::shared_ptr<Node> made = FoldedLayer(layer, *rebuilt).Build();
    for (size_t i = kWeight; i < layer.inputs.size(); ++i) {
      folded.parameters.insert(layer.inputs[i].node.get());
    }
    const bool fixed_gamma = Parameter<bool>(node.property->GetParams(), "fix_gamma");
    for (size_t i = fixed_gamma ? kBeta : kGamma; i < node.inputs.size(); ++i) {
      folded.parameters.insert(node.inputs[i].node.get());
    }
    return Replacement{made};
  };
  folded.heads = RewriteGraph(heads, order, replace);
  return folded;
}

}  // namespace tessera::graph
