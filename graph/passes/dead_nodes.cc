#include "tessera/graph/passes/dead_nodes.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tessera/graph/graph.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

/// An operator that reads its last input for its shape alone, and the operator that makes the same
/// output with the shape as a parameter. The latter reads the other inputs.
struct ShapeReader {
  std::string_view op;
  std::string_view with_shape;
  std::string_view parameter;
};
constexpr ShapeReader kShapeReaders[] = {
    {"zeros_like", "_zeros", "shape"},    {"ones_like", "_ones", "shape"},
    {"reshape_like", "Reshape", "shape"}, {"broadcast_like", "broadcast_to", "shape"},
    {"slice_like", "slice", "end"},
};

/// Returns the row of an operator whose last input another operator computes, or null.
const ShapeReader* FindReader(const Node& node) {
  if (node.is_variable() || node.forward != nullptr) return nullptr;
  const std::string& op = node.property->TypeString();
  const auto* const found =
      std::find_if(std::begin(kShapeReaders), std::end(kShapeReaders),
                   [&](const ShapeReader& reader) { return reader.op == op; });
  if (found == std::end(kShapeReaders)) return nullptr;
  return node.inputs.back().node->is_variable() ? nullptr : found;
}

/// Returns the operator with the output's shape as a parameter.
std::shared_ptr<const OperatorProperty> WithShape(const ShapeReader& reader, const TShape& shape,
                                                  DType dtype) {
  ParameterMap parameters = {{std::string(reader.parameter), shape.ToString()}};
  if (reader.with_shape == "slice") {
    parameters["begin"] =
        TShape(std::vector<index_t>(static_cast<size_t>(shape.ndim()), 0)).ToString();
  }
  if (reader.with_shape == "_zeros" || reader.with_shape == "_ones") {
    parameters["dtype"] = DTypeName(dtype);
  }
  return OperatorRegistry::Get().FindOrCreate(reader.with_shape, parameters);
}

}  // namespace

bool ReadsShapesAlone(const std::vector<NodeEntry>& heads) {
  const auto order = TopologicalOrder(heads);
  return std::any_of(order.begin(), order.end(),
                     [](const auto& node) { return FindReader(*node) != nullptr; });
}

std::vector<NodeEntry> RemoveDeadNodes(const std::vector<NodeEntry>& heads,
                                       const GraphShapes& shapes, const GraphTypes& types) {
  const IndexedGraph graph(heads);
  // The shapes of gradients may be known from the inputs of the nodes that they belong to alone.
  std::unordered_set<const Node*> needed;
  for (const Node* node : graph.nodes()) {
    if (node->forward == nullptr) continue;
    for (const NodeEntry& input : node->forward->inputs) needed.insert(input.node.get());
  }
  return RewriteGraph(heads, [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    const ShapeReader* const reader = FindReader(node);
    if (reader == nullptr || needed.contains(node.inputs.back().node.get())) {
      return Replacement{rebuilt};
    }
    const auto entry = static_cast<size_t>(graph.EntryId(graph.NodeId(&node), 0));
    const TShape& shape = shapes.entries[entry];
    if (shape.ndim() < 1 ||
        std::any_of(shape.begin(), shape.end(), [](index_t e) { return e < 1; })) {
      return Replacement{rebuilt};
    }
    auto with_shape = std::make_shared<Node>(*rebuilt);
    with_shape->property = WithShape(*reader, shape, types.entries[entry]);
    with_shape->inputs.pop_back();
    return Replacement{std::move(with_shape)};
  });
}

}  // namespace tessera::graph
