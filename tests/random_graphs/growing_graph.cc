#include "tessera/tests/random_graphs/growing_graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using Role = RandomGraph::Role;

/// Arrays have at most this many elements, so that a graph takes a millisecond.
constexpr index_t kMostElements = 600;

}  // namespace

index_t GrowingGraph::Between(index_t low, index_t high) {
  return low + static_cast<index_t>(random_() % static_cast<uint64_t>(high - low + 1));
}

bool GrowingGraph::Chance(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1p-53 < probability;
}

double GrowingGraph::Number(double low, double high) {
  return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
}

TShape GrowingGraph::AnyShape() {
  TShape shape = TShape::OfRank(static_cast<int>(OneOf({1, 2, 2, 3, 4, 4})));
  for (int i = 0; i < shape.ndim(); ++i) shape[i] = OneOf<index_t>({1, 2, 3, 4, 5, 6, 7});
  if (shape.Size() > kMostElements) return TShape{2, 3, 5, 4};
  return shape;
}

int GrowingGraph::AnyValue() {
  if (Chance(0.6)) {
    const size_t last = std::min<size_t>(values_.size(), 3);
    return values_[values_.size() - 1 -
                   static_cast<size_t>(Between(0, static_cast<index_t>(last) - 1))];
  }
  return values_[static_cast<size_t>(Between(0, static_cast<index_t>(values_.size()) - 1))];
}

int GrowingGraph::ValueOfRank(int low, int high) {
  for (int tries = 0; tries < 8; ++tries) {
    const int value = AnyValue();
    if (ShapeOf(value).ndim() >= low && ShapeOf(value).ndim() <= high) return value;
  }
  return -1;
}

int GrowingGraph::ValueLike(const TShape& shape) {
  std::vector<int> fitting;
  for (const int value : values_) {
    if (ShapeOf(value) == shape) fitting.push_back(value);
  }
  if (fitting.empty() || Chance(0.2)) return NewInput(shape);
  return fitting[static_cast<size_t>(Between(0, static_cast<index_t>(fitting.size()) - 1))];
}

int GrowingGraph::NewValue(const TShape& shape, double bound) {
  graph_.shapes.push_back(shape);
  bounds_.push_back(bound);
  return static_cast<int>(graph_.shapes.size()) - 1;
}

int GrowingGraph::NewInput(const TShape& shape, double low, double high, Role role) {
  RandomGraph::Input input{.name = "in" + std::to_string(graph_.inputs.size()),
                           .shape = shape,
                           .role = role,
                           .low = low,
                           .high = high};
  input.request = role != Role::kArgument ? kNullOp
                  : Chance(0.1)           ? kNullOp
                  : Chance(0.25)          ? kAddTo
                                          : kWriteTo;
  const int value = NewValue(shape, std::max(std::abs(low), std::abs(high)));
  input_of_[value] = graph_.inputs.size();
  graph_.inputs.push_back(std::move(input));
  if (role == Role::kArgument) values_.push_back(value);
  return value;
}

int GrowingGraph::NewParameter(const TShape& shape, double low, double high) {
  const int value = NewInput(shape, low, high);
  if (Chance(0.8)) values_.pop_back();
  return value;
}

int GrowingGraph::AddNode(const std::string& op, std::vector<int> inputs, double bound,
                          ParameterMap parameters) {
  const auto property = OperatorRegistry::Get().Create(op, parameters);
  std::vector<TShape> in_shapes, out_shapes(property->ListOutputs().size());
  for (const int value : inputs) in_shapes.push_back(ShapeOf(value));
  if (!property->InferShape(&in_shapes, &out_shapes)) {
    throw Internal(op, ": the generator's shapes do not determine all shapes");
  }
  for (const TShape& shape : out_shapes) {
    if (shape.ndim() == 0 || shape.Size() == 0 || shape.Size() > kMostElements) return -1;
  }
  RandomGraph::Node node{.op = op,
                         .name = "n" + std::to_string(graph_.nodes.size()),
                         .parameters = std::move(parameters),
                         .inputs = std::move(inputs)};
  node.num_outputs = static_cast<int>(out_shapes.size());
  node.num_visible = property->NumVisibleOutputs();
  node.first_output = static_cast<int>(graph_.shapes.size());
  for (int i = 0; i < node.num_outputs; ++i) {
    const int value = NewValue(out_shapes[static_cast<size_t>(i)], bound);
    if (i < node.num_visible) values_.push_back(value);
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().first_output;
}

int GrowingGraph::AddKinked(const std::string& op, std::vector<int> inputs, double bound,
                            ParameterMap parameters) {
  const int value = AddNode(op, std::move(inputs), bound, std::move(parameters));
  if (value >= 0) kinked_.insert(value);
  return value;
}

std::vector<bool> GrowingGraph::Differentiable() const {
  std::vector<bool> depends(graph_.shapes.size(), false);
  for (const auto& [value, input] : input_of_) {
    depends[static_cast<size_t>(value)] = graph_.inputs[input].request != kNullOp;
  }
  for (const RandomGraph::Node& node : graph_.nodes) {
    bool any = false;
    if (!blocked_.contains(node.first_output)) {
      for (const int value : node.inputs) any = any || depends[static_cast<size_t>(value)];
    }
    for (int i = 0; i < node.num_outputs; ++i) {
      depends[static_cast<size_t>(node.first_output + i)] = any;
    }
  }
  return depends;
}

void GrowingGraph::ChooseHeads() {
  std::set<int> read;
  for (const RandomGraph::Node& node : graph_.nodes)
    read.insert(node.inputs.begin(), node.inputs.end());
  const std::vector<bool> depends = Differentiable();
  std::vector<int> others;
  for (const int value : values_) {
    if (input_of_.contains(value) || !depends[static_cast<size_t>(value)]) continue;
    if (!read.contains(value) ? Chance(0.85) : Chance(0.05)) {
      graph_.heads.push_back(value);
    } else {
      others.push_back(value);
    }
  }
  if (graph_.heads.empty() && !others.empty()) graph_.heads.push_back(others.back());
}

// Returns the nodes that the heads need, depth first, and the values of the inputs that they need.
std::vector<const RandomGraph::Node*> GrowingGraph::NodesOfHeads(std::vector<int>* inputs) const {
  std::map<int, const RandomGraph::Node*> node_of;  // by output
  for (const RandomGraph::Node& node : graph_.nodes) {
    for (int i = 0; i < node.num_outputs; ++i) node_of[node.first_output + i] = &node;
  }
  std::vector<const RandomGraph::Node*> nodes;  // depth first
  std::set<int> seen;
  std::function<void(int)> visit = [&](int value) {
    if (input_of_.contains(value)) {
      if (seen.insert(value).second) inputs->push_back(value);
      return;
    }
    const RandomGraph::Node* const node = node_of.at(value);
    if (!seen.insert(node->first_output).second) return;
    for (const int input : node->inputs) visit(input);
    nodes.push_back(node);
  };
  for (const int head : graph_.heads) visit(head);
  return nodes;
}

RandomGraph GrowingGraph::Compact() const {
  RandomGraph result;
  result.seed = graph_.seed;
  result.dtype = graph_.dtype;
  std::vector<int> inputs;  // old values
  const std::vector<const RandomGraph::Node*> nodes = NodesOfHeads(&inputs);
  std::map<int, int> renumbered;
  const auto take = [&](int value) {
    renumbered[value] = static_cast<int>(result.shapes.size());
    result.shapes.push_back(ShapeOf(value));
  };
  for (const int value : inputs) {
    take(value);
    result.inputs.push_back(graph_.inputs[input_of_.at(value)]);
  }
  std::map<int, int> reads;
  for (const RandomGraph::Node* node : nodes) {
    RandomGraph::Node copy = *node;
    for (int& value : copy.inputs) {
      value = renumbered.at(value);
      ++reads[value];
    }
    for (int i = 0; i < node->num_outputs; ++i) take(node->first_output + i);
    copy.first_output = renumbered.at(node->first_output);
    result.is_smooth = result.is_smooth && !kinked_.contains(node->first_output);
    result.is_derivative = result.is_derivative && !no_derivative_.contains(node->first_output);
    result.normalizes = result.normalizes || node->op == "BatchNorm";
    result.nodes.push_back(std::move(copy));
  }
  for (const int head : graph_.heads) {
    result.heads.push_back(renumbered.at(head));
    ++reads[renumbered.at(head)];
  }
  for (const auto& [value, count] : reads) result.has_sums = result.has_sums || count > 1;
  return result;
}

}  // namespace tessera
