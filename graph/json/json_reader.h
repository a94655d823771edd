#ifndef TESSERA_GRAPH_JSON_JSON_READER_H_
#define TESSERA_GRAPH_JSON_JSON_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/graph/json/json_upgrade.h"
#include "tessera/graph/json/json_value.h"
#include "tessera/graph/node.h"
#include "tessera/graph/unknown_operator.h"

namespace tessera::graph {

struct NodeFields;

/// Reads a graph in MXNet's format, of any version. Its nodes come in order, so that each refers
/// only to earlier ones.
class GraphReader {
 public:
  GraphReader() = default;
  /// Reads a subgraph, whose outputs are counted with those of the graph around it.
  GraphReader(int64_t version, int64_t* total_outputs)
      : version_(version), total_outputs_(total_outputs) {}

  /// Returns the graph's outputs. Throws Error(kDataLoss) that states the node for a text that is
  /// no graph; Symbol::FromJson lists the other errors.
  std::vector<NodeEntry> Read(JsonValue graph);

 private:
  void CountOutputs(int64_t added, const std::string& where);
  void ReadVersion(JsonValue attributes);
  NodeEntry ReadEntry(JsonValue entry, const std::string& where);
  void ReadNode(JsonValue json);
  std::shared_ptr<Node> ReadOperator(const NodeFields& fields, const std::string& where,
                                     std::vector<std::vector<NodeEntry>> subgraphs);
  std::shared_ptr<const OperatorProperty> MakeProperty(
      const NodeFields& fields, ParameterMap* parameters,
      const std::vector<std::vector<NodeEntry>>& subgraphs);
  ParameterMap ReadParameters(const NodeFields& fields, const std::string& where) const;
  void ReadFused(const NodeFields& fields, const std::string& where);
  std::vector<NodeEntry> ReadInputs(const NodeFields& fields, const std::string& where);
  std::vector<NodeEntry> ReadInputs(const OperatorProperty& property, const NodeFields& fields,
                                    const std::string& where);
  void ReadAttributes(const NodeFields& fields, const std::string& where);
  std::vector<std::vector<NodeEntry>> ReadSubgraphs(const NodeFields& fields,
                                                    const std::string& where);

  int64_t version_ = kUnstatedVersion;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<int> num_outputs_;  // of each node
  int64_t own_outputs_ = 0;
  int64_t* total_outputs_ = &own_outputs_;  // with those of the graphs around this one
  // Nodes of unknown operators, by their position.
  std::unordered_map<size_t, std::shared_ptr<UnknownOperatorProperty>> unknown_;
  // The outputs of nodes that stand for several operators, by the node's position.
  std::unordered_map<size_t, std::vector<NodeEntry>> replaced_;
};

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_JSON_JSON_READER_H_
