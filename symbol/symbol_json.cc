// MXNet's graph format: nodes in topological order, each with its operator, name, attributes and
// inputs as [node, output, version]. Files since 2017 keep parameters and other attributes together
// under "attrs", at first under "attr". Older files have parameters under "param", attributes under
// "attr", inputs with two numbers, and no nodes for aux states. A node whose operator runs other
// graphs, such as the body of a loop, has them in the same form under "subgraphs".
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/base/foreign_file.h"
#include "tessera/base/quote.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/json_value.h"
#include "tessera/graph/unknown_operator.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

using graph::AnnotationNames;
using graph::AttributeName;
using graph::IndexedGraph;
using graph::JsonValue;
using graph::JsonWalker;
using graph::MakeNode;
using graph::MakeVariable;
using graph::Node;
using graph::NodeEntry;
using graph::UnknownOperatorProperty;
using nlohmann::ordered_json;

namespace {

// The version that first wrote the format in this form; readers choose by it.
constexpr int kFormatVersion = 10901;
// The first version whose files have a node for every variable.
constexpr int64_t kVersionWithAllVariables = 900;
// The first version in which the axis -1 of argmax and argmin is the last one, not all axes.
constexpr int64_t kVersionWithOptionalAxis = 905;
// A parameter of Intel's builds of 2017, which chose an implementation.
constexpr char kParameterOfOtherBuilds[] = "mkldnn_off";

/// Returns the error for a damaged graph, unlike one that asks for the impossible.
template <typename... Pieces>
Error Damaged(const Pieces&... pieces) {
  return DataLoss("symbol JSON: ", pieces...);
}

JsonValue Require(const std::optional<JsonValue>& field, const char* key,
                  const std::string& where) {
  if (!field) throw Damaged(where, " has no \"", key, "\"");
  return *field;
}

int Index(JsonValue value, size_t limit, const std::string& where) {
  const std::optional<int64_t> index = value.integer();
  if (!index || *index < 0 || *index >= static_cast<int64_t>(limit)) {
    throw Damaged(where, " is ", Excerpt(value.text()), ", expected an integer in [0, ", limit,
                  ")");
  }
  return static_cast<int>(*index);
}

/// Calls visit(key, text) for each member of a section, which may be missing.
template <typename Visit>
void VisitStrings(const std::optional<JsonValue>& section, const char* name,
                  const std::string& where, const Visit& visit) {
  if (!section || section->is_null()) return;
  if (!section->is_object()) throw Damaged(where, ": \"", name, "\" is not an object");
  for (JsonWalker member(*section); member.Next();) {
    if (!member.value().is_string()) {
      throw Damaged(where, ": \"", name, "\" entry \"", Excerpt(member.key()),
                    "\" is not a string");
    }
    visit(member.key(), member.value().string());
  }
}

bool IsEmptyList(JsonValue value) {
  return value.is_null() || (value.is_array() && value.size() == 0);
}

/// An attribute that MXNet once wrote without underscores, for the node itself (`lr_mult`) or for
/// one of its arguments (`weight_lr_mult`).
struct OldAnnotation {
  std::string_view argument;  // empty for the node itself
  std::string_view name;
};

std::optional<OldAnnotation> ParseOldAnnotation(std::string_view key) {
  for (const std::string_view name : AnnotationNames()) {
    if (!key.ends_with(name)) continue;
    if (key.size() == name.size()) return OldAnnotation{"", name};
    const std::string_view before = key.substr(0, key.size() - name.size());
    if (before.ends_with('_')) return OldAnnotation{before.substr(0, before.size() - 1), name};
  }
  return std::nullopt;
}

/// Returns whether an attribute with this key is not one of the operator's parameters.
bool IsAnnotation(std::string_view key) {
  const bool marked = key.size() >= 4 && key.starts_with("__") && key.ends_with("__");
  return marked || ParseOldAnnotation(key).has_value();
}

/// The fields of a node that matter for reading. If a key occurs twice, the last one counts.
struct NodeFields {
  explicit NodeFields(JsonValue node) {
    const std::pair<std::string_view, std::optional<JsonValue>*> fields[] = {
        {"op", &op},
        {"name", &name},
        {"inputs", &inputs},
        {"param", &param},
        {"attr", &attr},
        {"attrs", &attrs},
        {"control_deps", &control_deps},
        {"subgraphs", &subgraphs}};
    for (JsonWalker member(node); member.Next();) {
      const std::string key = member.key();
      for (const auto& [known, field] : fields) {
        if (key == known) *field = member.value();
      }
    }
  }

  std::optional<JsonValue> op, name, inputs, param, attr, attrs, control_deps, subgraphs;
};

/// Reads nodes in order. Each refers only to earlier ones.
class GraphReader {
 public:
  /// `version` is MXNet's, for a graph that does not state it.
  GraphReader() = default;
  /// Reads a subgraph, whose outputs are counted with those of the graph around it.
  GraphReader(int64_t version, int64_t* total_outputs)
      : version_(version), total_outputs_(total_outputs) {}

  /// Returns the graph's outputs.
  std::vector<NodeEntry> Read(JsonValue graph) {
    if (!graph.is_object()) throw Damaged("the text is not a JSON object");
    std::optional<JsonValue> nodes, heads;
    for (JsonWalker member(graph); member.Next();) {
      const std::string key = member.key();
      if (key == "nodes") nodes = member.value();
      if (key == "heads") heads = member.value();
      if (key == "attrs") ReadVersion(member.value());
    }
    if (!Require(nodes, "nodes", "the graph").is_array()) {
      throw Damaged("\"nodes\" is not an array");
    }
    for (JsonWalker node(*nodes); node.Next();) ReadNode(node.value());
    if (!Require(heads, "heads", "the graph").is_array() || heads->size() == 0) {
      throw Damaged("\"heads\" is not a list of outputs");
    }
    std::vector<NodeEntry> outputs;
    for (JsonWalker head(*heads); head.Next();) {
      outputs.push_back(ReadEntry(head.value(), "a head"));
    }
    return outputs;
  }

 private:
  // No operator has more parameters. Attributes of users are not counted.
  static constexpr size_t kMaxParameters = 1000;
  // Few operators have more outputs. The graph states no number for operators that are unknown.
  static constexpr size_t kMaxOutputsOfUnknown = 1000;
  // MXNet itself names weights, biases and states alone, of which no operator has more.
  static constexpr size_t kMaxMissingInputs = 100;
  // Of a file. A short text can state any number.
  static constexpr int64_t kMaxOutputs = 1 << 20;

  void CountOutputs(int64_t added, const std::string& where) {
    *total_outputs_ += added;
    if (*total_outputs_ > kMaxOutputs) {
      throw Damaged(where, ": the graph has more than ", kMaxOutputs, " outputs of nodes");
    }
  }

  /// Reads "mxnet_version": ["int", 10901].
  void ReadVersion(JsonValue attributes) {
    if (!attributes.is_object()) return;
    for (JsonWalker member(attributes); member.Next();) {
      if (member.key() != "mxnet_version" || !member.value().is_array()) continue;
      for (JsonWalker element(member.value()); element.Next();) {
        version_ = element.value().integer().value_or(version_);
      }
    }
  }

  static std::string NameOf(const NodeFields& fields) {
    return fields.name && fields.name->is_string() ? Excerpt(fields.name->string()) : "";
  }

  NodeEntry ReadEntry(JsonValue entry, const std::string& where) {
    const int64_t size = entry.is_array() ? entry.size() : 0;
    if (size != 2 && size != 3) {
      throw Damaged(where, " is ", Excerpt(entry.text()),
                    ", expected [node, output] or [node, output, version]");
    }
    JsonWalker number(entry);
    number.Next();
    const auto id = static_cast<size_t>(Index(number.value(), nodes_.size(), where + ": the node"));
    number.Next();
    const auto unknown = unknown_.find(id);
    const size_t num_outputs =
        unknown == unknown_.end() ? static_cast<size_t>(num_outputs_[id]) : kMaxOutputsOfUnknown;
    const int output = Index(number.value(), num_outputs, where + ": the output");
    if (unknown != unknown_.end()) {
      const int before = unknown->second->NumVisibleOutputs();
      unknown->second->AddOutputsUpTo(output);
      CountOutputs(unknown->second->NumVisibleOutputs() - before, where);
    }
    return {nodes_[id], output};
  }

  void ReadNode(JsonValue json) {
    const std::string position = "node " + std::to_string(nodes_.size());
    if (!json.is_object()) throw Damaged(position, " is not an object");
    const NodeFields fields(json);
    if (!Require(fields.op, "op", position).is_string() ||
        !Require(fields.name, "name", position).is_string()) {
      throw Damaged(position, ": \"op\" and \"name\" must be strings");
    }
    const std::string where = position + " (" + NameOf(fields) + ")";
    if (!Require(fields.inputs, "inputs", where).is_array()) {
      throw Damaged(where, ": \"inputs\" is not an array");
    }
    if (fields.control_deps && !IsEmptyList(*fields.control_deps)) {
      throw Unimplemented("symbol JSON: ", where,
                          " has \"control_deps\", which are not implemented");
    }
    const std::string op = fields.op->string();
    const bool is_variable = op == "null";
    // If there is a "param", "attr" holds no parameters.
    const auto is_parameter = [&](std::string_view section, const std::string& key) {
      return !is_variable && (section == "attrs" || !fields.param) && !IsAnnotation(key);
    };
    if (is_variable) {
      if (fields.inputs->size() != 0) throw Damaged(where, ": a variable has inputs");
      nodes_.push_back(MakeVariable(fields.name->string()).node);
    } else {
      ParameterMap parameters;
      const auto read = [&](std::string key, std::string value) {
        parameters[std::move(key)] = std::move(value);
        if (parameters.size() > kMaxParameters) {
          throw Damaged(where, " has more than ", kMaxParameters, " parameters");
        }
      };
      VisitStrings(fields.param, "param", where, read);
      for (const auto& [section, members] :
           {std::pair("attr", fields.attr), std::pair("attrs", fields.attrs)}) {
        VisitStrings(members, section, where, [&](std::string key, std::string value) {
          if (is_parameter(section, key)) read(std::move(key), std::move(value));
        });
      }
      nodes_.push_back(ReadOperator(op, std::move(parameters), fields, where));
    }
    ReadSubgraphs(fields, where);
    num_outputs_.push_back(nodes_.back()->num_outputs());
    CountOutputs(num_outputs_.back(), where);
    for (const auto& [section, members] :
         {std::pair("attr", fields.attr), std::pair("attrs", fields.attrs)}) {
      VisitStrings(members, section, where, [&](const std::string& key, std::string value) {
        if (!is_parameter(section, key)) Annotate(key, std::move(value));
      });
    }
  }

  std::shared_ptr<Node> ReadOperator(const std::string& op, ParameterMap parameters,
                                     const NodeFields& fields, const std::string& where) {
    UpgradeParameters(op, &parameters);
    std::shared_ptr<const OperatorProperty> property;
    if (OperatorRegistry::Get().Find(op) == nullptr) {
      auto unknown =
          std::make_shared<UnknownOperatorProperty>(op, static_cast<int>(fields.inputs->size()));
      unknown->Init(parameters);
      unknown_.emplace(nodes_.size(), unknown);
      property = std::move(unknown);
    } else {
      parameters.erase(kParameterOfOtherBuilds);
      try {
        property = OperatorRegistry::Get().Create(op, parameters);
      } catch (const Error& error) {
        throw Error(error.code(), "node \"" + NameOf(fields) + "\": " + error.what());
      }
    }
    const std::vector<std::string> arguments = property->ListArguments();
    const std::vector<int> mutated = property->MutatedInputs();
    const auto given = static_cast<size_t>(fields.inputs->size());
    // Old files leave out the inputs that the operator changes, which are the last ones, and MXNet
    // before 0.9 other variables that it could name itself.
    const bool may_be_short =
        version_ < kVersionWithAllVariables || given == arguments.size() - mutated.size();
    if (given > arguments.size() || (given < arguments.size() && !may_be_short) ||
        arguments.size() - given > kMaxMissingInputs) {
      throw Damaged(where, " has ", given, " inputs, but ", property->TypeString(), " takes ",
                    arguments.size(), ", of which it changes ", mutated.size());
    }
    std::vector<NodeEntry> inputs;
    for (JsonWalker input(*fields.inputs); input.Next();) {
      inputs.push_back(ReadEntry(input.value(), where + ": an input"));
    }
    for (const int input : mutated) {
      const auto i = static_cast<size_t>(input);
      if (i < inputs.size() && !inputs[i].node->is_variable()) {
        throw Damaged(where, ": input ", i, ", which the operator changes, is not a variable");
      }
    }
    argument_positions_.clear();
    for (size_t i = 0; i < arguments.size(); ++i) argument_positions_.emplace(arguments[i], i);
    return MakeNode(std::move(property), fields.name->string(), inputs).node;
  }

  /// Changes parameters that mean something else since the graph's version.
  void UpgradeParameters(const std::string& op, ParameterMap* parameters) const {
    if (version_ >= kVersionWithOptionalAxis || (op != "argmax" && op != "argmin")) return;
    const auto axis = parameters->find("axis");
    if (axis != parameters->end() && axis->second == "-1") parameters->erase(axis);
  }

  /// Reads the subgraphs of the last node.
  void ReadSubgraphs(const NodeFields& fields, const std::string& where) {
    if (!fields.subgraphs || IsEmptyList(*fields.subgraphs)) return;
    if (!fields.subgraphs->is_array()) throw Damaged(where, ": \"subgraphs\" is not an array");
    Node& node = *nodes_.back();
    for (JsonWalker subgraph(*fields.subgraphs); subgraph.Next();) {
      if (node.is_variable()) throw Damaged(where, ": a variable has subgraphs");
      try {
        node.subgraphs.push_back(GraphReader(version_, total_outputs_).Read(subgraph.value()));
      } catch (const Error& error) {
        throw Error(error.code(), "node \"" + NameOf(fields) + "\", subgraph " +
                                      std::to_string(node.subgraphs.size()) + ": " + error.what());
      }
    }
  }

  /// Sets the annotation at the last node, or at the variable of the argument that it is for.
  void Annotate(const std::string& key, std::string value) {
    Node* const node = nodes_.back().get();
    if (const auto old = ParseOldAnnotation(key); old && !node->is_variable()) {
      const auto position = argument_positions_.find(std::string(old->argument));
      if (position != argument_positions_.end()) {
        Node& input = *node->inputs[position->second].node;
        if (input.is_variable()) {
          input.attributes[std::string(old->name)] = std::move(value);
          return;
        }
      }
    }
    node->attributes[std::string(AttributeName(*node, key))] = std::move(value);
  }

  int64_t version_;  // 10901 for 1.9.1, 0 if unknown
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<int> num_outputs_;  // of each node
  int64_t own_outputs_ = 0;
  int64_t* total_outputs_ = &own_outputs_;  // with those of the graphs around this one
  std::unordered_map<std::string, size_t> argument_positions_;  // of the last operator, by name
  // Nodes of unknown operators, by their position.
  std::unordered_map<size_t, std::shared_ptr<UnknownOperatorProperty>> unknown_;
};

/// Returns the fields of a graph, or of a subgraph, which are all but its version.
ordered_json GraphToJson(const std::vector<NodeEntry>& outputs) {
  const IndexedGraph graph(outputs);
  std::unordered_map<const Node*, int> ids;
  ordered_json nodes = ordered_json::array();
  ordered_json arg_nodes = ordered_json::array();
  ordered_json node_row_ptr = ordered_json::array({0});
  for (const Node* node : graph.nodes()) {
    const int id = static_cast<int>(ids.size());
    ids[node] = id;
    ordered_json json;
    json["op"] = node->is_variable() ? "null" : node->property->TypeString();
    json["name"] = node->name;
    ParameterMap attrs = node->is_variable() ? ParameterMap() : node->property->GetParams();
    for (const auto& [key, value] : node->attributes) {
      // Underscores keep readers from taking an operator's attribute for a parameter.
      const std::string marked = "__" + key + "__";
      attrs[AttributeName(*node, marked) == key ? marked : key] = value;
    }
    if (!attrs.empty()) json["attrs"] = attrs;
    json["inputs"] = ordered_json::array();
    for (const NodeEntry& input : node->inputs) {
      json["inputs"].push_back({ids.at(input.node.get()), input.index, 0});
    }
    for (const std::vector<NodeEntry>& subgraph : node->subgraphs) {
      json["subgraphs"].push_back(GraphToJson(subgraph));
    }
    if (node->is_variable()) arg_nodes.push_back(id);
    nodes.push_back(std::move(json));
    node_row_ptr.push_back(graph.EntryId(id, 0) + node->num_outputs());
  }
  ordered_json heads = ordered_json::array();
  for (const NodeEntry& head : outputs) heads.push_back({ids.at(head.node.get()), head.index, 0});
  ordered_json json;
  json["nodes"] = std::move(nodes);
  json["arg_nodes"] = std::move(arg_nodes);
  json["node_row_ptr"] = std::move(node_row_ptr);
  json["heads"] = std::move(heads);
  return json;
}

}  // namespace

std::string Symbol::ToJson() const {
  ordered_json json = GraphToJson(outputs_);
  json["attrs"] = {{"mxnet_version", {"int", kFormatVersion}}};
  try {
    return json.dump(2) + "\n";
  } catch (const ordered_json::exception& error) {
    throw InvalidArgument("Symbol::ToJson: a name or attribute is not UTF-8: ", error.what());
  }
}

Symbol Symbol::FromJson(std::string_view json) {
  const std::string_view foreign = DescribeForeignFile(json);
  if (!foreign.empty()) throw Damaged("not JSON, but ", foreign);
  return Symbol(GraphReader().Read(JsonValue::Parse("symbol JSON", json)));
}

void Symbol::Save(const std::string& path) const {
  const std::string text = ToJson();
  AtomicFile file(path, "Symbol::Save");
  file.Write(text.data(), static_cast<int64_t>(text.size()));
  file.Commit();
}

Symbol Symbol::Load(const std::string& path, std::string* contents) {
  const std::string name = "Symbol::Load: " + path;
  // The type is checked first, because opening a pipe without a writer would block.
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw NotFound(name, ": there is no such file");
  }
  if (failure) throw FailedPrecondition(name, ": ", failure.message());
  if (!std::filesystem::is_regular_file(status)) {
    throw FailedPrecondition(name, ": not an ordinary file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FailedPrecondition(name, ": cannot be opened: ", std::strerror(errno));
  // The size is only a hint: the file may grow. It is bounded, because a sparse file may state any.
  constexpr std::uintmax_t kMaxReserved = std::uintmax_t{1} << 30;
  const std::uintmax_t size_bytes = std::filesystem::file_size(path, failure);
  std::string text;
  if (!failure) text.reserve(static_cast<size_t>(std::min(size_bytes, kMaxReserved)));
  char block[4096];
  // Iterators are not used, because they would let the exception of a failed read through.
  while (file.read(block, sizeof(block)), file.gcount() > 0) {
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) {
    throw DataLoss(name, " cannot be read, expected a file with a saved network");
  }
  try {
    Symbol symbol = FromJson(text);
    if (contents != nullptr) *contents = std::move(text);
    return symbol;
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what());
  }
}

}  // namespace tessera
