// MXNet's graph format: nodes in topological order, each with its operator, name, attributes and
// inputs as [node, output, version]. Files since 2017 keep parameters and other attributes together
// under "attrs". A node whose operator runs other graphs, such as the body of a loop, has them in
// the same form under "subgraphs".
#include "tessera/graph/json.h"

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/base/foreign_file.h"
#include "tessera/base/quote.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/json/json_reader.h"
#include "tessera/graph/json/json_value.h"

namespace tessera::graph {
namespace {

// The version that first wrote the format in this form; readers choose by it.
constexpr int kFormatVersion = 10901;

/// Writes graphs as text, without a tree of values in between.
class GraphWriter {
 public:
  /// Appends to `text`.
  explicit GraphWriter(std::string* text) : text_(*text) {}

  /// Appends the fields of a graph, or of a subgraph, which are all but its version. `indent` are
  /// the spaces before a field.
  void Write(const std::vector<NodeEntry>& heads, const std::string& indent) {
    const IndexedGraph graph(heads);
    absl::StrAppend(&text_, indent, "\"nodes\": [");
    for (int id = 0; id < graph.num_nodes(); ++id) {
      absl::StrAppend(&text_, id == 0 ? "\n" : ",\n");
      WriteNode(graph, id, indent + "  ");
    }
    absl::StrAppend(&text_, "\n", indent, "],\n", indent, "\"arg_nodes\": [");
    for (size_t i = 0; i < graph.variables().size(); ++i) {
      absl::StrAppend(&text_, i == 0 ? "" : ", ", graph.variables()[i]);
    }
    absl::StrAppend(&text_, "],\n", indent, "\"node_row_ptr\": [0");
    for (int id = 0; id < graph.num_nodes(); ++id) {
      absl::StrAppend(&text_, ", ", graph.EntryId(id + 1, 0));
    }
    absl::StrAppend(&text_, "],\n", indent, "\"heads\": ");
    WriteEntries(graph, heads);
  }

 private:
  void WriteNode(const IndexedGraph& graph, int id, const std::string& indent) {
    const Node& node = graph.node(id);
    if (node.forward != nullptr) {
      throw Unimplemented("symbol JSON: node \"", Excerpt(node.name),
                          "\": ", node.property->TypeString(), " cannot be saved");
    }
    const std::string inner = indent + "  ";
    absl::StrAppend(&text_, indent, "{\n", inner, "\"op\": ");
    AppendQuoted(node.is_variable() ? "null" : node.property->TypeString(), &text_);
    absl::StrAppend(&text_, ",\n", inner, "\"name\": ");
    AppendQuoted(node.name, &text_);
    WriteAttributes(node, inner);
    absl::StrAppend(&text_, ",\n", inner, "\"inputs\": ");
    WriteEntries(graph, node.inputs);
    for (size_t i = 0; i < node.subgraphs.size(); ++i) {
      absl::StrAppend(&text_, i == 0 ? ",\n" + inner + "\"subgraphs\": [\n" : ",\n", inner,
                      "  {\n");
      Write(node.subgraphs[i], inner + "    ");
      absl::StrAppend(&text_, "\n", inner, "  }");
    }
    if (!node.subgraphs.empty()) absl::StrAppend(&text_, "\n", inner, "]");
    absl::StrAppend(&text_, "\n", indent, "}");
  }

  void WriteAttributes(const Node& node, const std::string& indent) {
    ParameterMap attrs = node.Parameters();
    // Underscores keep readers from taking an operator's attribute for a parameter.
    for (const auto& [name, value] : node.attributes.All()) {
      attrs[FileSpelling(node, name)] = value;
    }
    if (attrs.empty()) return;
    absl::StrAppend(&text_, ",\n", indent, "\"attrs\": {");
    bool first = true;
    for (const auto& [key, value] : attrs) {
      absl::StrAppend(&text_, first ? "\n" : ",\n", indent, "  ");
      first = false;
      AppendQuoted(key, &text_);
      absl::StrAppend(&text_, ": ");
      AppendQuoted(value, &text_);
    }
    absl::StrAppend(&text_, "\n", indent, "}");
  }

  void WriteEntries(const IndexedGraph& graph, const std::vector<NodeEntry>& entries) {
    absl::StrAppend(&text_, "[");
    bool first = true;
    for (const NodeEntry& entry : entries) {
      absl::StrAppend(&text_, first ? "[" : ", [", graph.NodeId(entry.node.get()), ", ",
                      entry.index, ", 0]");
      first = false;
    }
    absl::StrAppend(&text_, "]");
  }

  std::string& text_;
};

}  // namespace

std::string WriteJson(const std::vector<NodeEntry>& heads, bool numpy_shape) {
  std::string text = "{\n";
  GraphWriter(&text).Write(heads, "  ");
  absl::StrAppend(&text, ",\n  \"attrs\": {\"mxnet_version\": [\"int\", ", kFormatVersion, "]");
  if (numpy_shape) absl::StrAppend(&text, ", \"is_np_shape\": [\"int\", 1]");
  absl::StrAppend(&text, "}\n}\n");
  return text;
}

std::vector<NodeEntry> ReadJson(std::string_view text) {
  const std::string_view foreign = DescribeForeignFile(text);
  if (!foreign.empty()) throw DataLoss("symbol JSON: not JSON, but ", foreign);
  return GraphReader().Read(JsonValue::Parse("symbol JSON", text));
}

}  // namespace tessera::graph
