#include "tessera/graph/program/propagate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::graph {
namespace {

using base_internal::At;

bool IsKnown(const TShape& shape) { return shape.known(); }
bool IsKnown(DType dtype) { return dtype != DType::kUnknown; }

/// Completes the outputs of a node by its operator's inference `infer`.
template <typename T, typename Infer>
void InferOutputs(const IndexedGraph& graph, int id, const Infer& infer, std::vector<T>* entries) {
  const Node& node = graph.node(id);
  const auto first = entries->begin() + graph.EntryId(id, 0);
  const auto end = first + graph.NumOutputs(id);
  const auto is_known = [](const T& value) { return IsKnown(value); };
  if (std::all_of(first, end, is_known)) return;
  if (node.forward != nullptr) {
    // A gradient is like the input that it belongs to.
    const std::vector<NodeEntry>& like = node.forward->inputs;
    for (auto out = first; out != end; ++out) {
      const NodeEntry& input = like[static_cast<size_t>(out - first)];
      if (graph.Contains(input.node.get())) *out = (*entries)[At(graph.EntryId(input))];
    }
    if (std::all_of(first, end, is_known)) return;
  }
  std::vector<T> in, out(first, end);
  for (const int input : graph.InputIds(id)) in.push_back((*entries)[At(input)]);
  const std::vector<T> given = in;
  infer(*node.property, &in, &out);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] == given[i]) continue;
    throw InvalidArgument("input ", node.property->ListArguments()[i], " is ", given[i],
                          ", expected ", in[i]);
  }
  std::copy(out.begin(), out.end(), first);
}

}  // namespace

void PropagateForward(const IndexedGraph& graph, GraphShapes* shapes, GraphTypes* types) {
  const auto infer_shape = [](const OperatorProperty& property, auto* in, auto* out) {
    property.InferShape(in, out);
  };
  const auto infer_type = [](const OperatorProperty& property, auto* in, auto* out) {
    property.InferType(in, out);
  };
  for (int i = 0; i < graph.num_nodes(); ++i) {
    const Node& node = graph.node(i);
    if (node.is_variable()) continue;
    try {
      InferOutputs(graph, i, infer_shape, &shapes->entries);
      InferOutputs(graph, i, infer_type, &types->entries);
    } catch (const Error& error) {
      throw Error(error.code(), "node \"" + Excerpt(node.name) + "\": " + error.what());
    }
  }
  shapes->complete = std::all_of(shapes->entries.begin(), shapes->entries.end(),
                                 [](const TShape& shape) { return shape.known(); });
  types->complete = std::find(types->entries.begin(), types->entries.end(), DType::kUnknown) ==
                    types->entries.end();
}

}  // namespace tessera::graph
