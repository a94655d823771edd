#include "tessera/graph/text.h"

#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tessera/base/error.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/graph.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

/// Colors that are told apart with black text on them (ColorBrewer's Set3).
constexpr std::string_view kColors[] = {"#8dd3c7", "#ffffb3", "#bebada", "#fb8072",
                                        "#80b1d3", "#fdb462", "#b3de69", "#fccde5"};

/// Returns "a=1, b=2" for the parameters that differ from their defaults.
std::string Parameters(const OperatorProperty& property) {
  ParameterMap parameters = property.GetParams();
  const OperatorEntry* const entry = OperatorRegistry::Get().Find(property.TypeString());
  if (entry != nullptr && entry->describe_parameters != nullptr) {
    for (const ParameterInfo& info : entry->describe_parameters()) {
      const auto found = parameters.find(info.name);
      if (found == parameters.end() || info.required) continue;
      if (found->second == info.default_value) parameters.erase(found);
    }
  }
  return absl::StrJoin(parameters, ", ", absl::PairFormatter("="));
}

/// Prints one graph.
class Printer {
 public:
  Printer(const std::vector<NodeEntry>& heads, const TextNotes& notes)
      : heads_(heads), graph_(heads), notes_(notes) {}

  std::string Text() const {
    std::string text;
    for (int i = 0; i < graph_.num_nodes(); ++i) absl::StrAppend(&text, Line(i), "\n");
    absl::StrAppend(&text, "return ", Entries(heads_), "\n");
    return text;
  }

  std::string Graphviz() const {
    std::string text = "digraph graph_of_operators {\n";
    for (int i = 0; i < graph_.num_nodes(); ++i) AppendNode(i, &text);
    for (size_t i = 0; i < heads_.size(); ++i) {
      absl::StrAppend(&text, "  out", i, " [label=\"output ", i, "\", shape=plaintext];\n");
      AppendEdge(heads_[i], absl::StrCat("out", i), &text);
    }
    return text + "}\n";
  }

 private:
  std::string Entry(const NodeEntry& entry) const {
    const std::string text = absl::StrCat("%", graph_.NodeId(entry.node.get()));
    return entry.index == 0 ? text : absl::StrCat(text, ".", entry.index);
  }
  std::string Entries(const std::vector<NodeEntry>& entries) const {
    return absl::StrJoin(entries, ", ", [this](std::string* out, const NodeEntry& entry) {
      absl::StrAppend(out, Entry(entry));
    });
  }

  /// Returns "float32(2,3)", as far as it is given, or nothing.
  std::string Type(int entry) const {
    const auto at = static_cast<size_t>(entry);
    std::string text;
    if (notes_.types != nullptr) text += DTypeName(notes_.types->entries[at]);
    if (notes_.shapes != nullptr) text += notes_.shapes->entries[at].ToString();
    return text;
  }

  /// Returns the name of the implementation that the node uses, if there is a choice and shapes and
  /// types tell which.
  std::string Implementation(int id) const {
    if (notes_.shapes == nullptr || notes_.types == nullptr) return "";
    const Node& node = graph_.node(id);
    const Node& called = node.forward == nullptr ? node : *node.forward;
    std::vector<int> inputs = graph_.InputIds(id);
    if (node.forward != nullptr) {
      // A gradient is like the input that it belongs to.
      inputs.clear();
      for (int k = 0; k < graph_.NumOutputs(id); ++k) inputs.push_back(graph_.EntryId(id, k));
    }
    std::vector<TShape> shapes;
    std::vector<DType> types;
    for (const int input : inputs) {
      shapes.push_back(notes_.shapes->entries[static_cast<size_t>(input)]);
      types.push_back(notes_.types->entries[static_cast<size_t>(input)]);
      if (!shapes.back().known() || types.back() == DType::kUnknown) return "";
    }
    const Device* const device = DeviceOf(node);
    try {
      return called.property->ChosenImplementation(
          NamedImplementation(node), device == nullptr ? notes_.device : *device, shapes, types);
    } catch (const Error&) {
      return "";  // running the graph throws the error
    }
  }
  std::string Operator(int id) const {
    const std::string& name = graph_.node(id).property->TypeString();
    const std::string implementation = Implementation(id);
    return implementation.empty() ? name : absl::StrCat(name, "[", implementation, "]");
  }

  std::string Line(int id) const {
    const Node& node = graph_.node(id);
    std::string text = absl::StrCat("%", id, " = ");
    if (node.is_variable()) {
      absl::StrAppend(&text, "variable ", node.name);
    } else {
      absl::StrAppend(&text, Operator(id), "(", Parameters(*node.property), ") ", node.name, " (",
                      Entries(node.inputs), ")");
    }
    const std::map<std::string, std::string> attributes = node.attributes.All();
    if (!attributes.empty()) {
      absl::StrAppend(&text, " [", absl::StrJoin(attributes, ", ", absl::PairFormatter("=")), "]");
    }
    std::vector<std::string> types;
    for (int k = 0; k < graph_.NumOutputs(id); ++k) types.push_back(Type(graph_.EntryId(id, k)));
    if (!types.empty() && !types[0].empty()) {
      absl::StrAppend(&text, ": ", absl::StrJoin(types, ", "));
    }
    const Device* const device = DeviceOf(node);
    if (device != nullptr) absl::StrAppend(&text, " on ", device->ToString());
    const int* const group = GroupOf(node);
    if (group != nullptr) absl::StrAppend(&text, " in group ", *group);
    return text;
  }

  const int* GroupOf(const Node& node) const {
    if (notes_.groups == nullptr) return nullptr;
    const auto found = notes_.groups->find(&node);
    return found == notes_.groups->end() ? nullptr : &found->second;
  }

  const Device* DeviceOf(const Node& node) const {
    if (notes_.devices == nullptr) return nullptr;
    const auto found = notes_.devices->find(&node);
    return found == notes_.devices->end() ? nullptr : &found->second;
  }

  /// Returns a text between quotes in Graphviz's language.
  static std::string Quoted(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) {
      if (c == '\n') {
        quoted += "\\n";
        continue;
      }
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    return quoted + "\"";
  }

  void AppendNode(int id, std::string* text) const {
    const Node& node = graph_.node(id);
    std::string label = node.name;
    if (!node.is_variable()) {
      absl::StrAppend(&label, "\n", Operator(id));
      const std::string parameters = Parameters(*node.property);
      if (!parameters.empty()) absl::StrAppend(&label, "\n", parameters);
    }
    const Device* const device = DeviceOf(node);
    if (device != nullptr) absl::StrAppend(&label, "\n", device->ToString());
    const int* const group = GroupOf(node);
    if (group != nullptr) absl::StrAppend(&label, "\ngroup ", *group);
    absl::StrAppend(text, "  n", id, " [label=", Quoted(label),
                    ", shape=", node.is_variable() ? "ellipse" : "box");
    if (device != nullptr) {
      const size_t color = std::hash<Device>()(*device) % std::size(kColors);
      const std::string_view name = kColors[color];
      absl::StrAppend(text, ", style=filled, fillcolor=\"", std::string(name), "\"");
    }
    absl::StrAppend(text, "];\n");
    for (const NodeEntry& input : node.inputs) AppendEdge(input, absl::StrCat("n", id), text);
  }

  void AppendEdge(const NodeEntry& from, const std::string& to, std::string* text) const {
    const int id = graph_.NodeId(from.node.get());
    std::string label = Type(graph_.EntryId(id, from.index));
    if (from.index != 0) label = absl::StrCat(from.index, label.empty() ? "" : ": ", label);
    absl::StrAppend(text, "  n", id, " -> ", to);
    if (!label.empty()) absl::StrAppend(text, " [label=", Quoted(label), "]");
    absl::StrAppend(text, ";\n");
  }

  const std::vector<NodeEntry>& heads_;
  const IndexedGraph graph_;
  const TextNotes& notes_;
};

}  // namespace

std::string ToText(const std::vector<NodeEntry>& heads, const TextNotes& notes) {
  return Printer(heads, notes).Text();
}

std::string ToGraphviz(const std::vector<NodeEntry>& heads, const TextNotes& notes) {
  return Printer(heads, notes).Graphviz();
}

}  // namespace tessera::graph
