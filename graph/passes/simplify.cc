#include "tessera/graph/passes/simplify.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using base_internal::At;

template <typename T>
T Parameter(const Node& node, const char* name) {
  return ops_internal::ParameterText<T>::Parse(node.property->GetParams().at(name));
}

bool IsOperator(const Node& node, std::string_view op) {
  return !node.is_variable() && node.property->TypeString() == op;
}

bool HasScalar(const Node& node, double scalar) {
  const double given = Parameter<double>(node, "scalar");
  return given == scalar && std::signbit(given) == std::signbit(scalar);
}

/// Returns whether output 0 has the elements and the shape of input 0.
bool IsIdentity(const Node& node) {
  const std::string& op = node.property->TypeString();
  if (op == "_copy" || op == "BlockGrad" || op == "make_loss" || op == "MakeLoss") return true;
  if (op == "Dropout") return node.property->GetParams().at("mode") == "training";
  if (op == "_mul_scalar" || op == "_div_scalar") return HasScalar(node, 1);
  return op == "_minus_scalar" && HasScalar(node, 0);
}

/// Returns whether the node only gives its single input another shape.
bool OnlyReshapes(const Node& node) {
  return IsOperator(node, "Reshape") || IsOperator(node, "Flatten") ||
         IsOperator(node, "expand_dims") || IsOperator(node, "squeeze");
}

/// Returns whether the output's shape depends on the number of the input's elements alone.
bool HasShapeOfItsOwn(const Node& reshape) {
  const auto shape = Parameter<std::vector<int64_t>>(reshape, "shape");
  return !shape.empty() && std::all_of(shape.begin(), shape.end(),
                                       [](int64_t extent) { return extent > 0 || extent == -1; });
}

/// Returns the axes of a transpose of that rank.
std::vector<int64_t> Axes(std::vector<int64_t> given, size_t rank) {
  if (given.empty()) {
    for (size_t i = rank; i-- > 0;) given.push_back(static_cast<int64_t>(i));
  }
  for (int64_t& axis : given) {
    if (axis < 0) axis += static_cast<int64_t>(rank);
  }
  return given;
}

/// Returns the axes of the transpose that does the work of two, or none if they cancel.
std::vector<int64_t> Compose(const std::vector<int64_t>& first,
                             const std::vector<int64_t>& second) {
  const size_t rank = std::max(first.size(), second.size());
  const std::vector<int64_t> inner = Axes(first, rank), outer = Axes(second, rank);
  std::vector<int64_t> axes;
  bool cancels = true;
  for (size_t i = 0; i < rank; ++i) {
    axes.push_back(inner[At(outer[i])]);
    cancels &= axes.back() == static_cast<int64_t>(i);
  }
  return cancels ? std::vector<int64_t>() : axes;
}

class Simplifier {
 public:
  Simplifier(const std::vector<NodeEntry>& heads, const std::vector<std::shared_ptr<Node>>& order)
      : facts_(heads, order) {}

  Replacement Replace(const Node& node, const std::shared_ptr<Node>& rebuilt) {
    if (node.is_variable() || facts_.TouchesMutated(node)) return {rebuilt};
    if (!facts_.IsHead(node) && IsIdentity(node)) return Bypass(rebuilt, rebuilt->inputs[0]);
    const Replacement replacement = Shorten(node, rebuilt);
    movable_.insert(replacement.node.get());
    return replacement;
  }

 private:
  /// Lets readers of output 0 read `input`.
  static Replacement Bypass(const std::shared_ptr<Node>& node, const NodeEntry& input) {
    std::vector<NodeEntry> outputs = {input};
    for (int i = 1; i < node->num_outputs(); ++i) outputs.push_back({node, i});
    return {node, std::move(outputs)};
  }

  /// Returns the node with another input.
  static std::shared_ptr<Node> Reading(const Node& node, const NodeEntry& input) {
    auto copy = std::make_shared<Node>(node);
    copy->inputs = {input};
    return copy;
  }

  /// Joins a node with the one before it, where both only reshape or only transpose.
  Replacement Shorten(const Node& node, const std::shared_ptr<Node>& rebuilt) const {
    const bool reshapes = IsOperator(node, "Reshape");
    if (!reshapes && !IsOperator(node, "transpose")) return {rebuilt};
    const Node& inner = *rebuilt->inputs[0].node;
    if (!movable_.contains(&inner)) return {rebuilt};
    if (reshapes) {
      if (!OnlyReshapes(inner) || !HasShapeOfItsOwn(node)) return {rebuilt};
      return {Reading(*rebuilt, inner.inputs[0])};
    }
    if (!IsOperator(inner, "transpose")) return {rebuilt};
    const auto axes = Compose(Parameter<std::vector<int64_t>>(inner, "axes"),
                              Parameter<std::vector<int64_t>>(node, "axes"));
    if (!axes.empty()) {
      std::shared_ptr<Node> once = Reading(*rebuilt, inner.inputs[0]);
      const std::string text = ops_internal::ParameterText<std::vector<int64_t>>::Print(axes);
      once->property = OperatorRegistry::Get().FindOrCreate("transpose", {{"axes", text}});
      return {once};
    }
    return facts_.IsHead(node) ? Replacement{rebuilt} : Bypass(rebuilt, inner.inputs[0]);
  }

  const GraphFacts facts_;
  std::unordered_set<const Node*> movable_;  // new nodes that may be called at any time
};

}  // namespace

std::vector<NodeEntry> SimplifyForInference(const std::vector<NodeEntry>& heads) {
  const std::vector<std::shared_ptr<Node>> order = TopologicalOrder(heads);
  Simplifier simplifier(heads, order);
  const auto replace = [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    return simplifier.Replace(node, rebuilt);
  };
  return RewriteGraph(heads, order, replace);
}

}  // namespace tessera::graph
