// Shape and type inference over a graph. Every operator's own inference is repeated in both
// directions until no value changes, and then once more with the values in variables' attributes.
#include "tessera/graph/infer.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {
namespace {

bool IsKnown(const TShape& shape) { return shape.known(); }
bool IsKnown(DType dtype) { return dtype != DType::kUnknown; }

/// Returns the variable with that name. Throws Error(kInvalidArgument) with the nearest name.
int FindVariable(const IndexedGraph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      names.push_back(graph.nodes()[static_cast<size_t>(id)]->name);
      if (names.back() == name) return id;
    }
  }
  const std::string nearest = NearestName(name, names);
  throw InvalidArgument("Symbol: there is no argument \"", name, "\"",
                        nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?");
}

/// Runs one operator's inference on values gathered from its entries, and stores the results.
/// Returns whether any value changed.
template <typename T, typename Infer>
bool InferNode(const IndexedGraph& graph, int id, std::vector<T>* entries, const Infer& infer) {
  const Node& node = *graph.nodes()[static_cast<size_t>(id)];
  if (node.is_variable()) return false;
  const std::vector<int> inputs = graph.InputIds(id);
  std::vector<T> in, out;
  for (const int input : inputs) in.push_back((*entries)[static_cast<size_t>(input)]);
  for (int i = 0; i < graph.NumOutputs(id); ++i) {
    out.push_back((*entries)[static_cast<size_t>(graph.EntryId(id, i))]);
    // The gradient of an input is like the input, which the outputs alone may not tell.
    if (node.forward == nullptr || IsKnown(out.back())) continue;
    const NodeEntry& like = node.forward->inputs[static_cast<size_t>(i)];
    if (graph.Contains(like.node.get())) {
      out.back() = (*entries)[static_cast<size_t>(graph.EntryId(like))];
    }
  }
  try {
    infer(*node.property, &in, &out);
  } catch (const Error& error) {
    throw Error(error.code(), absl::StrCat("node \"", node.name, "\": ", error.what()));
  }
  bool changed = false;
  const auto put = [&](int entry, const T& value) {
    T& old = (*entries)[static_cast<size_t>(entry)];
    if (old == value) return;
    old = value;
    changed = true;
  };
  for (size_t i = 0; i < inputs.size(); ++i) put(inputs[i], in[i]);
  for (int i = 0; i < graph.NumOutputs(id); ++i) {
    put(graph.EntryId(id, i), out[static_cast<size_t>(i)]);
  }
  return changed;
}

template <typename T, typename Infer>
void InferToFixedPoint(const IndexedGraph& graph, std::vector<T>* entries, const Infer& infer) {
  const int count = static_cast<int>(graph.nodes().size());
  // Known values only increase, so the loop ends, usually after two rounds.
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < count; ++i) changed |= InferNode(graph, i, entries, infer);
    if (!changed) break;
    for (int i = count - 1; i >= 0; --i) changed |= InferNode(graph, i, entries, infer);
  }
}

/// Calls `visit(attribute's text, the variable's entry)` for each variable with the attribute and
/// without a value from the caller. `visit` returns whether it changed the entry. Errors name the
/// variable. Returns whether any value changed.
template <typename T, typename Visit>
bool VisitStated(const IndexedGraph& graph, const char* attribute,
                 const std::map<std::string, T>& known, std::vector<T>* entries,
                 const Visit& visit) {
  bool changed = false;
  for (const auto* list : {&graph.arguments(), &graph.aux_states()}) {
    for (const int id : *list) {
      const Node& node = *graph.nodes()[static_cast<size_t>(id)];
      const auto found = node.attributes.find(attribute);
      if (found == node.attributes.end()) continue;
      // A given value precedes the attribute, because a network is often used with other batch
      // sizes than it was written with.
      const auto given = known.find(node.name);
      if (given != known.end() && IsKnown(given->second)) continue;
      try {
        changed |= visit(found->second, &(*entries)[static_cast<size_t>(graph.EntryId(id, 0))]);
      } catch (const Error& error) {
        throw Error(error.code(), absl::StrCat("variable \"", node.name, "\": attribute ",
                                               attribute, ": ", error.what()));
      }
    }
  }
  return changed;
}

/// Merges the shape in a variable's attribute into the inferred shape.
bool MergeStatedShape(const std::string& text, TShape* inferred) {
  TShape stated = TShape::Parse(text);
  if (stated.ndim() == 0) return false;  // MXNet's unknown rank, as 0 is its unknown extent
  for (int i = 0; i < stated.ndim(); ++i) {
    if (stated[i] == 0) stated[i] = TShape::kUnknown;
  }
  const TShape before = *inferred;
  if (!inferred->Merge(stated)) {
    throw InvalidArgument(stated, " was stated, but the network needs ", before);
  }
  return *inferred != before;
}

/// Merges the element type in a variable's attribute, one of MXNet's numbers, into the inferred
/// type.
bool MergeStatedType(const std::string& text, DType* inferred) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < static_cast<int>(DType::kUnknown) ||
      number > static_cast<int>(DType::kBFloat16)) {
    throw InvalidArgument("\"", text, "\" is not the number of an element type, expected -1 to ",
                          static_cast<int>(DType::kBFloat16));
  }
  const auto stated = static_cast<DType>(number);
  if (stated == DType::kUnknown || stated == *inferred) return false;
  if (*inferred != DType::kUnknown) {
    throw InvalidArgument(stated, " was stated, but the network needs ", *inferred);
  }
  *inferred = stated;
  return true;
}

}  // namespace

GraphShapes InferShapes(const IndexedGraph& graph, const std::map<std::string, TShape>& known) {
  GraphShapes shapes;
  shapes.entries.resize(static_cast<size_t>(graph.num_entries()));
  for (const auto& [name, shape] : known) {
    shapes.entries[static_cast<size_t>(graph.EntryId(FindVariable(graph, name), 0))] = shape;
  }
  const auto infer = [](const OperatorProperty& property, std::vector<TShape>* in,
                        std::vector<TShape>* out) { property.InferShape(in, out); };
  InferToFixedPoint(graph, &shapes.entries, infer);
  if (VisitStated(graph, "__shape__", known, &shapes.entries, MergeStatedShape)) {
    InferToFixedPoint(graph, &shapes.entries, infer);
  }
  shapes.complete = std::all_of(shapes.entries.begin(), shapes.entries.end(),
                                [](const TShape& shape) { return shape.known(); });
  return shapes;
}

GraphTypes InferTypes(const IndexedGraph& graph, const std::map<std::string, DType>& known) {
  GraphTypes types;
  types.entries.resize(static_cast<size_t>(graph.num_entries()), DType::kUnknown);
  for (const auto& [name, dtype] : known) {
    types.entries[static_cast<size_t>(graph.EntryId(FindVariable(graph, name), 0))] = dtype;
  }
  const auto infer = [](const OperatorProperty& property, std::vector<DType>* in,
                        std::vector<DType>* out) { property.InferType(in, out); };
  InferToFixedPoint(graph, &types.entries, infer);
  if (VisitStated(graph, "__dtype__", known, &types.entries, MergeStatedType)) {
    InferToFixedPoint(graph, &types.entries, infer);
  }
  for (const int id : graph.arguments()) {
    DType& dtype = types.entries[static_cast<size_t>(graph.EntryId(id, 0))];
    if (dtype != DType::kUnknown) continue;
    dtype = DType::kFloat32;
    InferToFixedPoint(graph, &types.entries, infer);
  }
  types.complete =
      std::find(types.entries.begin(), types.entries.end(), DType::kUnknown) == types.entries.end();
  return types;
}

}  // namespace tessera::graph
