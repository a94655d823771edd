// MXNet's graph format: nodes in topological order, each with its operator, name, attributes and
// inputs as [node, output, version]. Files since 2017 keep parameters and other attributes together
// under "attrs", at first under "attr". Older files have parameters under "param", attributes under
// "attr", inputs with two numbers, and no nodes for aux states.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "tessera/base/atomic_file.h"
#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/ops/registry.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

using graph::AnnotationNames;
using graph::AttributeName;
using graph::IndexedGraph;
using graph::MakeNode;
using graph::MakeVariable;
using graph::Node;
using graph::NodeEntry;
using nlohmann::ordered_json;

namespace {

// The version that first wrote the format in this form; readers choose by it.
constexpr int kFormatVersion = 10901;

/// Returns the error for a damaged graph, unlike one that asks for the impossible.
template <typename... Pieces>
Error Damaged(const Pieces&... pieces) {
  return DataLoss("symbol JSON: ", pieces...);
}

const ordered_json& Field(const ordered_json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) throw Damaged(where, " has no \"", key, "\"");
  return *found;
}

int Index(const ordered_json& value, size_t limit, const std::string& where) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 ||
      value.get<int64_t>() >= static_cast<int64_t>(limit)) {
    throw Damaged(where, " is ", value.dump(), ", expected an integer in [0, ", limit, ")");
  }
  return static_cast<int>(value.get<int64_t>());
}

std::map<std::string, std::string> Strings(const ordered_json& node, const char* key,
                                           const std::string& where) {
  std::map<std::string, std::string> strings;
  const auto found = node.find(key);
  if (found == node.end() || found->is_null()) return strings;
  if (!found->is_object()) throw Damaged(where, ": \"", key, "\" is not an object");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) {
      throw Damaged(where, ": \"", key, "\" entry \"", name, "\" is not a string");
    }
    strings[name] = value.get<std::string>();
  }
  return strings;
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

/// Sets the annotation at the node, or at the variable of the argument that it is for.
void Annotate(Node* node, const std::string& key, const std::string& value) {
  if (const auto old = ParseOldAnnotation(key); old && !node->is_variable()) {
    const std::vector<std::string> arguments = node->property->ListArguments();
    const auto argument = std::find(arguments.begin(), arguments.end(), old->argument);
    if (argument != arguments.end()) {
      Node& input = *node->inputs[static_cast<size_t>(argument - arguments.begin())].node;
      if (input.is_variable()) {
        input.attributes[std::string(old->name)] = value;
        return;
      }
    }
  }
  node->attributes[std::string(AttributeName(*node, key))] = value;
}

/// Reads nodes in order. Each refers only to earlier ones.
class GraphReader {
 public:
  Symbol Read(const ordered_json& graph) {
    if (!graph.is_object()) throw Damaged("the text is not a JSON object");
    const ordered_json& nodes = Field(graph, "nodes", "the graph");
    if (!nodes.is_array()) throw Damaged("\"nodes\" is not an array");
    RequireKnownOperators(nodes);
    for (const ordered_json& node : nodes) ReadNode(node);
    const ordered_json& heads = Field(graph, "heads", "the graph");
    if (!heads.is_array() || heads.empty()) throw Damaged("\"heads\" is not a list of outputs");
    std::vector<NodeEntry> outputs;
    for (const ordered_json& head : heads) outputs.push_back(ReadEntry(head, "a head"));
    return Symbol(std::move(outputs));
  }

 private:
  /// Throws one error for all unknown operators, each with the first node that uses it.
  static void RequireKnownOperators(const ordered_json& nodes) {
    std::set<std::string> seen;
    std::string errors;
    for (const ordered_json& node : nodes) {
      // ReadNode reports damaged nodes.
      if (!node.is_object() || !node.contains("op") || !node["op"].is_string()) continue;
      const std::string op = node["op"];
      if (op == "null" || OperatorRegistry::Get().Find(op) != nullptr) continue;
      if (!seen.insert(op).second) continue;
      const std::string name = node.contains("name") ? node["name"].dump() : "\"\"";
      errors += (errors.empty() ? "" : "; ") + ("node " + name + ": ") +
                OperatorRegistry::Get().UnknownOperator(op).what();
    }
    if (!errors.empty()) throw NotFound(errors);
  }

  static std::unique_ptr<OperatorProperty> MakeProperty(const std::string& op,
                                                        const ParameterMap& parameters,
                                                        const std::string& name) {
    try {
      return OperatorRegistry::Get().Create(op, parameters);
    } catch (const Error& error) {
      throw Error(error.code(), "node \"" + name + "\": " + error.what());
    }
  }

  NodeEntry ReadEntry(const ordered_json& entry, const std::string& where) const {
    if (!entry.is_array() || entry.size() < 2 || entry.size() > 3) {
      throw Damaged(where, " is ", entry.dump(),
                    ", expected [node, output] or [node, output, version]");
    }
    const int id = Index(entry[0], nodes_.size(), where + ": the node");
    const std::shared_ptr<Node>& node = nodes_[static_cast<size_t>(id)];
    return {node,
            Index(entry[1], static_cast<size_t>(node->num_outputs()), where + ": the output")};
  }

  void ReadNode(const ordered_json& json) {
    const std::string position = "node " + std::to_string(nodes_.size());
    if (!json.is_object()) throw Damaged(position, " is not an object");
    const ordered_json& op = Field(json, "op", position);
    const ordered_json& name = Field(json, "name", position);
    if (!op.is_string() || !name.is_string()) {
      throw Damaged(position, ": \"op\" and \"name\" must be strings");
    }
    const std::string where = position + " (" + name.get<std::string>() + ")";
    std::vector<NodeEntry> inputs;
    const ordered_json& input_list = Field(json, "inputs", where);
    if (!input_list.is_array()) throw Damaged(where, ": \"inputs\" is not an array");
    for (const ordered_json& input : input_list) {
      inputs.push_back(ReadEntry(input, where + ": an input"));
    }
    ParameterMap parameters = Strings(json, "param", where);
    std::map<std::string, std::string> annotations;
    for (const char* section : {"attr", "attrs"}) {
      // If there is a "param", "attr" holds no parameters.
      const bool mixed =
          op != "null" && (section == std::string_view("attrs") || !json.contains("param"));
      for (auto& [key, value] : Strings(json, section, where)) {
        (mixed && !IsAnnotation(key) ? parameters : annotations)[key] = value;
      }
    }
    if (op == "null") {
      if (!inputs.empty()) throw Damaged(where, ": a variable has inputs");
      nodes_.push_back(MakeVariable(name.get<std::string>()).node);
    } else {
      nodes_.push_back(ReadOperator(op.get<std::string>(), parameters, name.get<std::string>(),
                                    std::move(inputs), where));
    }
    for (const auto& [key, value] : annotations) Annotate(nodes_.back().get(), key, value);
  }

  static std::shared_ptr<Node> ReadOperator(const std::string& op, const ParameterMap& parameters,
                                            const std::string& name, std::vector<NodeEntry> inputs,
                                            const std::string& where) {
    std::shared_ptr<const OperatorProperty> property = MakeProperty(op, parameters, name);
    const size_t all = property->ListArguments().size();
    // Old files leave out the inputs that the operator changes, which are the last ones.
    const std::vector<int> mutated = property->MutatedInputs();
    if (inputs.size() != all && inputs.size() != all - mutated.size()) {
      throw Damaged(where, " has ", inputs.size(), " inputs, but ", property->TypeString(),
                    " takes ", all, ", of which it changes ", mutated.size());
    }
    for (const int input : mutated) {
      const auto i = static_cast<size_t>(input);
      if (i < inputs.size() && !inputs[i].node->is_variable()) {
        throw Damaged(where, ": input ", i, ", which the operator changes, is not a variable");
      }
    }
    return MakeNode(std::move(property), name, inputs).node;
  }

  std::vector<std::shared_ptr<Node>> nodes_;
};

}  // namespace

std::string Symbol::ToJson() const {
  const IndexedGraph graph(outputs_);
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
    if (node->is_variable()) arg_nodes.push_back(id);
    nodes.push_back(std::move(json));
    node_row_ptr.push_back(graph.EntryId(id, 0) + node->num_outputs());
  }
  ordered_json heads = ordered_json::array();
  for (const NodeEntry& head : outputs_) heads.push_back({ids.at(head.node.get()), head.index, 0});
  ordered_json json;
  json["nodes"] = std::move(nodes);
  json["arg_nodes"] = std::move(arg_nodes);
  json["node_row_ptr"] = std::move(node_row_ptr);
  json["heads"] = std::move(heads);
  json["attrs"] = {{"mxnet_version", {"int", kFormatVersion}}};
  try {
    return json.dump(2) + "\n";
  } catch (const ordered_json::exception& error) {
    throw InvalidArgument("Symbol::ToJson: a name or attribute is not UTF-8: ", error.what());
  }
}

Symbol Symbol::FromJson(std::string_view json) {
  ordered_json graph;
  try {
    graph = ordered_json::parse(json);
  } catch (const ordered_json::exception& error) {
    // The message begins after the library's own number for the error, in brackets.
    const std::string_view what = error.what();
    const size_t begin = what.find("] ");
    throw Damaged("not JSON: ", begin == what.npos ? what : what.substr(begin + 2));
  }
  return GraphReader().Read(graph);
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
  std::string text;
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
