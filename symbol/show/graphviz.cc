#include "tessera/symbol/graphviz.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"

namespace tessera {
namespace {

using graph::IndexedGraph;
using graph::Node;

/// The appearance of operators whose names contain a word.
struct Kind {
  std::string_view word;
  const char* color;
};

// The first word that a name contains decides.
constexpr Kind kKinds[] = {
    {"Convolution", "#e8998d"},   {"FullyConnected", "#e8998d"},
    {"Deconvolution", "#e8998d"}, {"dot", "#e8998d"},
    {"RNN", "#d4a5d9"},           {"Embedding", "#d4a5d9"},
    {"Norm", "#a9c9e8"},          {"LRN", "#a9c9e8"},
    {"Activation", "#f3dd8e"},    {"LeakyReLU", "#f3dd8e"},
    {"relu", "#f3dd8e"},          {"sigmoid", "#f3dd8e"},
    {"Pool", "#9ad1b3"},          {"UpSampling", "#9ad1b3"},
    {"Concat", "#f2b880"},        {"Flatten", "#f2b880"},
    {"Reshape", "#f2b880"},       {"transpose", "#f2b880"},
    {"Slice", "#f2b880"},         {"slice", "#f2b880"},
    {"Softmax", "#c3d98b"},       {"softmax", "#c3d98b"},
    {"Output", "#c3d98b"},        {"Loss", "#c3d98b"},
};
constexpr char kVariableColor[] = "#d9d9d9";
constexpr char kOtherColor[] = "#f0ece2";

const char* ColorOf(const Node& node) {
  if (node.is_variable()) return kVariableColor;
  for (const auto& [word, color] : kKinds) {
    if (node.property->TypeString().find(word) != std::string::npos) return color;
  }
  return kOtherColor;
}

/// Returns a string in Graphviz's quotes. A newline starts a new centred line.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

/// Returns the node's name, operator, and the parameters by which people know a layer.
std::string Label(const Node& node) {
  if (node.is_variable()) return node.name;
  std::string label = absl::StrCat(node.name, "\n", node.property->TypeString());
  const ParameterMap parameters = node.Parameters();
  for (const char* name : {"kernel", "stride", "num_filter", "num_hidden", "act_type", "pool_type",
                           "mode", "state_size", "p", "scalar", "axis", "shape"}) {
    const auto found = parameters.find(name);
    if (found != parameters.end()) absl::StrAppend(&label, "\n", name, " ", found->second);
  }
  return label;
}

class Drawing {
 public:
  Drawing(const Symbol& symbol, const GraphvizOptions& options)
      : graph_(symbol.outputs()), options_(options) {
    if (!options.shapes.empty()) {
      shapes_ = graph::InferShapes(graph_, options.shapes, graph::Inference::kPartial).entries;
    }
    hidden_.resize(static_cast<size_t>(graph_.num_nodes()));
    if (options.hide_weights) Hide();
  }

  std::string Draw() const {
    std::string text =
        absl::StrCat("digraph ", Quoted(options_.title),
                     " {\n  rankdir=BT;\n  node [shape=box, style=\"filled,rounded\"];\n");
    for (int id = 0; id < graph_.num_nodes(); ++id) {
      if (hidden_[static_cast<size_t>(id)]) continue;
      const Node& node = graph_.node(id);
      absl::StrAppend(&text, "  n", id, " [label=", Quoted(Label(node)), ", fillcolor=\"",
                      ColorOf(node), "\"", node.is_variable() ? ", shape=ellipse" : "", "];\n");
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const int source = graph_.NodeId(node.inputs[i].node.get());
        if (hidden_[static_cast<size_t>(source)]) continue;
        absl::StrAppend(&text, "  n", source, " -> n", id);
        const int entry = graph_.InputIds(id)[i];
        if (!shapes_.empty()) {
          absl::StrAppend(&text, " [label=", Quoted(shapes_[static_cast<size_t>(entry)].ToString()),
                          "]");
        }
        absl::StrAppend(&text, ";\n");
      }
    }
    return text + "}\n";
  }

 private:
  /// Hides the variables that carry the name of an operator that reads them, as fc1_weight that of
  /// fc1, except those whose shape is given.
  void Hide() {
    for (int id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (node.is_variable()) continue;
      const std::string prefix = node.name + "_";
      for (const graph::NodeEntry& input : node.inputs) {
        if (!input.node->is_variable() || !input.node->name.starts_with(prefix)) continue;
        if (options_.shapes.contains(input.node->name)) continue;
        hidden_[static_cast<size_t>(graph_.NodeId(input.node.get()))] = true;
      }
    }
  }

  const IndexedGraph graph_;
  const GraphvizOptions& options_;
  std::vector<TShape> shapes_;  // of each entry; empty if edges have none
  std::vector<bool> hidden_;    // of each node
};

}  // namespace

std::string ToGraphviz(const Symbol& symbol, const GraphvizOptions& options) {
  return Drawing(symbol, options).Draw();
}

}  // namespace tessera
