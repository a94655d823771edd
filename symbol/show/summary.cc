#include "tessera/symbol/summary.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/symbol/show/layer_cost.h"

namespace tessera {
namespace {

using base_internal::At;
using graph::IndexedGraph;
using graph::Node;
using graph::NodeEntry;
using symbol_internal::SaturatedProduct;
using symbol_internal::SaturatedSum;

class Summarizer {
 public:
  Summarizer(const Symbol& symbol, const std::map<std::string, TShape>& shapes,
             const std::map<std::string, DType>& types)
      : graph_(symbol.outputs()),
        given_(shapes),
        shapes_(graph::InferShapes(graph_, shapes)),
        types_(graph::InferTypes(graph_, types)) {
    RequireComplete();
    for (const int id : graph_.aux_states()) aux_states_.insert(&graph_.node(id));
  }

  NetworkSummary Summarize() {
    NetworkSummary summary;
    for (int id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      if (node.is_variable() && !given_.contains(node.name)) continue;
      summary.layers.push_back(node.is_variable() ? Input(id) : Layer(id));
      const LayerSummary& layer = summary.layers.back();
      summary.parameters = SaturatedSum(summary.parameters, layer.parameters);
      summary.aux_states = SaturatedSum(summary.aux_states, layer.aux_states);
      summary.flops = SaturatedSum(summary.flops, layer.flops);
      summary.bytes = SaturatedSum(summary.bytes, layer.bytes);
    }
    return summary;
  }

 private:
  void RequireComplete() const {
    for (int id = 0; id < graph_.num_nodes(); ++id) {
      for (int i = 0; i < graph_.NumOutputs(id); ++i) {
        const TShape& shape = Shape(graph_.EntryId(id, i));
        if (shape.known()) continue;
        throw InvalidArgument("Summarize: the shape of \"", Excerpt(graph_.node(id).OutputName(i)),
                              "\" is ", shape, "; give the shapes of more inputs");
      }
    }
  }

  const TShape& Shape(int entry) const { return shapes_.entries[At(entry)]; }
  int64_t SizeBytes(int entry) const {
    return SaturatedProduct(Shape(entry).Size(), DTypeSizeBytes(types_.entries[At(entry)]));
  }

  LayerSummary Input(int id) const {
    LayerSummary layer;
    layer.name = graph_.node(id).name;
    layer.op = "null";
    layer.output_shapes = {Shape(graph_.EntryId(id, 0))};
    return layer;
  }

  LayerSummary Layer(int id) {
    const Node& node = graph_.node(id);
    LayerSummary layer;
    layer.name = node.name;
    layer.op = node.property->TypeString();
    std::vector<TShape> in, out;
    for (const int input : graph_.InputIds(id)) {
      in.push_back(Shape(input));
      layer.bytes = SaturatedSum(layer.bytes, SizeBytes(input));
    }
    const int num_visible = node.property->NumVisibleOutputs();
    for (int i = 0; i < graph_.NumOutputs(id); ++i) {
      const int entry = graph_.EntryId(id, i);
      out.push_back(Shape(entry));
      if (i >= num_visible) continue;
      layer.output_shapes.push_back(out.back());
      layer.bytes = SaturatedSum(layer.bytes, SizeBytes(entry));
    }
    layer.flops = symbol_internal::ForwardFlops(node, in, out);
    std::unordered_set<const Node*> seen;
    for (int i = 0; i < node.num_inputs(); ++i) AddInput(node, i, in[At(i)].Size(), &seen, &layer);
    return layer;
  }

  void AddInput(const Node& node, int i, int64_t size, std::unordered_set<const Node*>* seen,
                LayerSummary* layer) {
    const Node& input = *node.inputs[At(i)].node;
    if (!input.is_variable() || given_.contains(input.name)) {
      if (seen->insert(&input).second) layer->previous.push_back(input.name);
    } else if (aux_states_.contains(&input)) {
      if (counted_.insert(&input).second) layer->aux_states += size;
    } else if (node.property->ArgumentHasGradient(i) && !node.property->IsSequenceState(i)) {
      if (counted_.insert(&input).second) layer->parameters += size;
    }
  }

  const IndexedGraph graph_;
  const std::map<std::string, TShape>& given_;
  const graph::GraphShapes shapes_;
  const graph::GraphTypes types_;
  std::unordered_set<const Node*> aux_states_;
  std::unordered_set<const Node*> counted_;  // variables of the layers so far
};

std::string JoinShapes(const std::vector<TShape>& shapes) {
  return absl::StrJoin(shapes, " ", [](std::string* text, const TShape& shape) {
    absl::StrAppend(text, shape.ToString());
  });
}

/// Returns lines of columns. Numbers, which are all columns from `first_number` to `last_number`,
/// end below each other.
std::string AlignColumns(const std::vector<std::vector<std::string>>& rows, size_t first_number,
                         size_t last_number) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool is_number = i >= first_number && i <= last_number;
      if (i > 0) line += "  ";
      line += is_number ? space + row[i] : row[i] + space;
    }
    absl::StrAppend(&text, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return text;
}

}  // namespace

NetworkSummary Summarize(const Symbol& symbol, const std::map<std::string, TShape>& shapes,
                         const std::map<std::string, DType>& types) {
  return Summarizer(symbol, shapes, types).Summarize();
}

std::string PrintSummary(const NetworkSummary& summary) {
  std::vector<std::vector<std::string>> rows = {
      {"Layer (type)", "Output shape", "Parameters", "FLOPs", "Bytes", "Previous layer"}};
  for (const LayerSummary& layer : summary.layers) {
    rows.push_back({absl::StrCat(layer.name, " (", layer.op, ")"), JoinShapes(layer.output_shapes),
                    absl::StrCat(layer.parameters), absl::StrCat(layer.flops),
                    absl::StrCat(layer.bytes), absl::StrJoin(layer.previous, ", ")});
  }
  rows.push_back({"Total", "", absl::StrCat(summary.parameters), absl::StrCat(summary.flops),
                  absl::StrCat(summary.bytes), ""});
  std::string table = AlignColumns(rows, 2, 4);
  const std::string rule(table.find('\n'), '-');
  table.insert(table.find('\n') + 1, rule + "\n");
  table.insert(table.rfind("\nTotal ") + 1, rule + "\n");
  return absl::StrCat(table, "Auxiliary states: ", summary.aux_states, "\n");
}

std::string PrintSummary(const Symbol& symbol, const std::map<std::string, TShape>& shapes) {
  return PrintSummary(Summarize(symbol, shapes));
}

}  // namespace tessera
