#include "tessera/graph/propagate.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"

namespace tessera::graph {
namespace {

size_t At(int index) { return static_cast<size_t>(index); }

/// A gradient is like the input that it belongs to.
template <typename T>
void CopyFromForward(const IndexedGraph& graph, int id, std::vector<T>* entries) {
  const std::vector<NodeEntry>& like = graph.node(id).forward->inputs;
  for (int k = 0; k < graph.NumOutputs(id); ++k) {
    (*entries)[At(graph.EntryId(id, k))] = (*entries)[At(graph.EntryId(like[At(k)]))];
  }
}

template <typename T, typename Infer>
void InferOutputs(const IndexedGraph& graph, int id, const T& unknown, const Infer& infer,
                  std::vector<T>* entries) {
  std::vector<T> in, out(At(graph.NumOutputs(id)), unknown);
  for (const int input : graph.InputIds(id)) in.push_back((*entries)[At(input)]);
  const std::vector<T> given = in;
  const OperatorProperty& property = *graph.node(id).property;
  infer(property, &in, &out);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] == given[i]) continue;
    throw InvalidArgument("input ", property.ListArguments()[i], " is ", given[i], ", expected ",
                          in[i]);
  }
  for (size_t k = 0; k < out.size(); ++k) {
    (*entries)[At(graph.EntryId(id, static_cast<int>(k)))] = out[k];
  }
}

}  // namespace

void PropagateForward(const IndexedGraph& graph, int first_node, GraphShapes* shapes,
                      GraphTypes* types) {
  const auto infer_shape = [](const OperatorProperty& property, auto* in, auto* out) {
    property.InferShape(in, out);
  };
  const auto infer_type = [](const OperatorProperty& property, auto* in, auto* out) {
    property.InferType(in, out);
  };
  for (int i = first_node; i < graph.num_nodes(); ++i) {
    const Node& node = graph.node(i);
    if (node.is_variable()) continue;
    if (node.forward != nullptr && graph.Contains(node.forward.get())) {
      CopyFromForward(graph, i, &shapes->entries);
      CopyFromForward(graph, i, &types->entries);
      continue;
    }
    try {
      InferOutputs(graph, i, TShape(), infer_shape, &shapes->entries);
      InferOutputs(graph, i, DType::kUnknown, infer_type, &types->entries);
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
