// Shape and type inference over a graph. Variables begin with what the caller gives and what their
// attributes state. Then every operator's own inference runs once, forward, and again after each
// change of one of its values, in alternating directions, until no value changes. A value changes
// a bounded number of times, so the time is linear in the graph, except for the logarithm of an
// ordered set.
#include "tessera/graph/infer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/unknown_operator.h"
#include "tessera/ops/parameter.h"

namespace tessera::graph {
namespace {

bool IsKnown(const TShape& shape) { return shape.known(); }
bool IsKnown(DType dtype) { return dtype != DType::kUnknown; }

std::string Describe(const TShape& shape) {
  return shape.rank_known() ? shape.ToString() : "unknown";
}
std::string Describe(DType dtype) {
  return dtype == DType::kUnknown ? "unknown" : std::string(DTypeName(dtype));
}

/// Shapes or element types of a graph's entries, and the operators that may add to them. `infer` is
/// the operators' own inference.
template <typename T, typename Infer>
class Inferrer {
 public:
  Inferrer(const IndexedGraph& graph, T unknown, Infer infer)
      : graph_(graph), infer_(infer), entries_(static_cast<size_t>(graph.num_entries()), unknown) {
    const int num_nodes = static_cast<int>(graph.nodes().size());
    users_.resize(entries_.size());
    for (int i = 0; i < num_nodes; ++i) {
      if (graph.node(i).is_variable() || !IsImplemented(graph.node(i))) continue;
      for (const int entry : graph.InputIds(i)) users_[static_cast<size_t>(entry)].push_back(i);
      for (int k = 0; k < graph.NumOutputs(i); ++k) {
        users_[static_cast<size_t>(graph.EntryId(i, k))].push_back(i);
      }
      if (graph.node(i).forward != nullptr) {
        for (const NodeEntry& like : graph.node(i).forward->inputs) {
          if (!graph.Contains(like.node.get())) continue;
          users_[static_cast<size_t>(graph.EntryId(like))].push_back(i);
        }
      }
      pending_.insert(pending_.end(), i);
    }
  }

  const T& at(int entry) const { return entries_[static_cast<size_t>(entry)]; }
  std::vector<T> TakeEntries() { return std::move(entries_); }

  /// Sets an entry. If it changes, the operators that read or write it become pending.
  void Put(int entry, const T& value) {
    T& old = entries_[static_cast<size_t>(entry)];
    if (old == value) return;
    old = value;
    const std::vector<int>& users = users_[static_cast<size_t>(entry)];
    pending_.insert(users.begin(), users.end());
  }

  /// Runs pending operators until there are none, from the graph's front to its end, back, and so
  /// on. Known values only increase, so this ends.
  void Run() {
    for (bool forward = true; !pending_.empty(); forward = !forward) {
      auto next = forward ? pending_.begin() : std::prev(pending_.end());
      while (next != pending_.end()) {
        const int node = *next;
        pending_.erase(next);
        InferNode(node);
        next = pending_.lower_bound(node);
        if (forward) {
          if (next != pending_.end() && *next == node) ++next;  // for the next direction
        } else {
          next = next == pending_.begin() ? pending_.end() : std::prev(next);
        }
      }
    }
  }

 private:
  /// Runs one operator's inference on values gathered from its entries, and stores the results.
  void InferNode(int id) {
    const Node& node = *graph_.nodes()[static_cast<size_t>(id)];
    const std::vector<int>& inputs = graph_.InputIds(id);
    std::vector<T> in, out;
    for (const int input : inputs) in.push_back(at(input));
    for (int i = 0; i < graph_.NumOutputs(id); ++i) {
      out.push_back(at(graph_.EntryId(id, i)));
      // The gradient of an input is like the input, which the other values may not tell.
      if (node.forward == nullptr || IsKnown(out.back())) continue;
      const NodeEntry& like = node.forward->inputs[static_cast<size_t>(i)];
      if (graph_.Contains(like.node.get())) out.back() = at(graph_.EntryId(like));
    }
    try {
      infer_(*node.property, &in, &out);
    } catch (const Error& error) {
      throw Error(error.code(), absl::StrCat("node \"", Excerpt(node.name), "\": ", error.what(),
                                             DescribeInputs(id)));
    }
    for (size_t i = 0; i < inputs.size(); ++i) Put(inputs[i], in[i]);
    for (int i = 0; i < graph_.NumOutputs(id); ++i) {
      Put(graph_.EntryId(id, i), out[static_cast<size_t>(i)]);
    }
  }

  /// Returns the values of a node's inputs before its inference, for an error.
  std::string DescribeInputs(int id) const {
    constexpr size_t kMaxListed = 4;
    const Node& node = graph_.node(id);
    const std::vector<std::string> arguments = node.property->ListArguments();
    std::string text;
    for (size_t i = 0; i < node.inputs.size() && i < kMaxListed; ++i) {
      const NodeEntry& input = node.inputs[i];
      absl::StrAppend(&text, i == 0 ? "; inputs: " : ", ", Excerpt(arguments[i]), " \"",
                      Excerpt(input.node->OutputName(input.index)), "\" ",
                      Describe(at(graph_.InputIds(id)[i])));
    }
    if (node.inputs.size() > kMaxListed) {
      absl::StrAppend(&text, ", and ", node.inputs.size() - kMaxListed, " more");
    }
    return text;
  }

  const IndexedGraph& graph_;
  const Infer infer_;
  std::vector<T> entries_;
  std::vector<std::vector<int>> users_;  // for each entry, the operators that read or write it
  std::set<int> pending_;
};

/// Returns what an error about an unknown name says of the known ones.
std::string Expected(const std::string& name, const std::vector<std::string>& known) {
  if (known.empty()) return "there are no arguments";
  const std::string nearest = NearestName(name, known);
  if (nearest.empty()) return "expected one of " + ListNames(known);
  return "did you mean \"" + Excerpt(nearest) + "\"?";
}

/// Completes a value by what is stated of it, or returns false if the two contradict each other.
bool Complete(const TShape& stated, TShape* value) { return value->Merge(stated); }
bool Complete(DType stated, DType* value) {
  if (*value == DType::kUnknown) *value = stated;
  return stated == DType::kUnknown || stated == *value;
}

/// Puts what is known of variables before any operator is asked: the values that the caller gives,
/// by name, and as far as these leave something open, those in the variables' attribute, which
/// `parse` reads. Throws Error(kInvalidArgument) that names the variable and both values if they
/// contradict each other, and one with the nearest name, or some names, if the caller gives a value
/// for a variable that is not there.
template <typename T, typename Infer, typename Parse>
void PutKnown(const IndexedGraph& graph, const std::map<std::string, T>& known,
              const char* attribute, const Parse& parse, Inferrer<T, Infer>* inferrer) {
  std::unordered_set<std::string_view> found;
  for (const int id : graph.variables()) {
    const Node& node = graph.node(id);
    const int entry = graph.EntryId(id, 0);
    T value = inferrer->at(entry);
    const auto given = known.find(node.name);
    if (given != known.end()) {
      found.insert(given->first);
      value = given->second;
    }
    const std::optional<std::string> text = node.attributes.Find(attribute);
    // A complete value precedes the attribute, because a network is often used with other batch
    // sizes than it was written with.
    if (text && !IsKnown(value)) {
      try {
        const T stated = parse(*text);
        if (!Complete(stated, &value)) {
          throw InvalidArgument(Describe(stated), " was stated, but ", Describe(value),
                                " was given");
        }
      } catch (const Error& error) {
        throw Error(error.code(), absl::StrCat("variable \"", Excerpt(node.name), "\": attribute ",
                                               attribute, ": ", error.what()));
      }
    }
    inferrer->Put(entry, value);
  }
  if (found.size() == known.size()) return;
  std::vector<std::string> names;
  for (const int id : graph.variables()) names.push_back(graph.node(id).name);
  for (const auto& [name, value] : known) {
    if (found.contains(name)) continue;
    throw InvalidArgument("Symbol: there is no argument \"", Excerpt(name), "\"; ",
                          Expected(name, names));
  }
}

/// Reads the shape in a variable's attribute.
TShape ParseStatedShape(const std::string& text) {
  TShape stated = TShape::Parse(text);
  if (stated.ndim() == 0) return TShape();  // MXNet's unknown rank, as 0 is its unknown extent
  for (int i = 0; i < stated.ndim(); ++i) {
    if (stated[i] == 0) stated[i] = TShape::kUnknown;
  }
  return stated;
}

/// Reads the element type in a variable's attribute, one of MXNet's numbers.
DType ParseStatedType(const std::string& text) {
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < static_cast<int>(DType::kUnknown) ||
      number > static_cast<int>(DType::kBFloat16)) {
    throw InvalidArgument("\"", Excerpt(text),
                          "\" is not the number of an element type, expected -1 to ",
                          static_cast<int>(DType::kBFloat16));
  }
  return static_cast<DType>(number);
}

/// Sets the entries that are known.
template <typename T, typename Infer>
void PutEntries(const std::vector<T>& entries, Inferrer<T, Infer>* inferrer) {
  for (size_t i = 0; i < entries.size(); ++i) inferrer->Put(static_cast<int>(i), entries[i]);
}

constexpr auto infer_shape = [](const OperatorProperty& property, std::vector<TShape>* in,
                                std::vector<TShape>* out) { property.InferShape(in, out); };
constexpr auto infer_type = [](const OperatorProperty& property, std::vector<DType>* in,
                               std::vector<DType>* out) { property.InferType(in, out); };

template <typename T>
bool AreKnown(const std::vector<T>& entries) {
  return std::all_of(entries.begin(), entries.end(), [](const T& value) { return IsKnown(value); });
}

GraphShapes Shapes(std::vector<TShape> entries) {
  const bool complete = AreKnown(entries);
  return {.entries = std::move(entries), .complete = complete};
}

GraphTypes Types(std::vector<DType> entries) {
  const bool complete = AreKnown(entries);
  return {.entries = std::move(entries), .complete = complete};
}

}  // namespace

GraphShapes InferShapes(const IndexedGraph& graph, const std::map<std::string, TShape>& known,
                        Inference inference) {
  if (inference == Inference::kComplete) RequireImplemented(graph);
  Inferrer inferrer(graph, TShape(), infer_shape);
  PutKnown(graph, known, "__shape__", ParseStatedShape, &inferrer);
  inferrer.Run();
  return Shapes(inferrer.TakeEntries());
}

void CompleteShapes(const IndexedGraph& graph, GraphShapes* shapes) {
  Inferrer inferrer(graph, TShape(), infer_shape);
  PutEntries(shapes->entries, &inferrer);
  inferrer.Run();
  *shapes = Shapes(inferrer.TakeEntries());
}

GraphTypes InferTypes(const IndexedGraph& graph, const std::map<std::string, DType>& known,
                      Inference inference) {
  if (inference == Inference::kComplete) RequireImplemented(graph);
  Inferrer inferrer(graph, DType::kUnknown, infer_type);
  PutKnown(graph, known, "__dtype__", ParseStatedType, &inferrer);
  inferrer.Run();
  if (inference == Inference::kComplete) {
    for (const int id : graph.arguments()) {
      const int entry = graph.EntryId(id, 0);
      if (inferrer.at(entry) != DType::kUnknown) continue;
      inferrer.Put(entry, DType::kFloat32);
      inferrer.Run();
    }
  }
  return Types(inferrer.TakeEntries());
}

void CompleteTypes(const IndexedGraph& graph, GraphTypes* types) {
  Inferrer inferrer(graph, DType::kUnknown, infer_type);
  PutEntries(types->entries, &inferrer);
  inferrer.Run();
  *types = Types(inferrer.TakeEntries());
}

}  // namespace tessera::graph
