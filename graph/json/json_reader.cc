// Files since 2017 keep parameters and other attributes together under "attrs", at first under
// "attr". Older files have parameters under "param", attributes under "attr", inputs with two
// numbers, and no nodes for aux states.
#include "tessera/graph/json/json_reader.h"

#include <optional>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/json/json_fused.h"
#include "tessera/graph/make_loop.h"
#include "tessera/graph/mask_property.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

// No operator has more parameters. Attributes of users are not counted.
constexpr size_t kMaxParameters = 1000;
// Few operators have more outputs. The graph states no number for operators that are unknown.
constexpr size_t kMaxOutputsOfUnknown = 1000;
// The bound of a whole file, because a short text can state any number.
constexpr int64_t kMaxOutputs = 1 << 20;

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

}  // namespace

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

  bool is_variable() const { return op->text() == "\"null\""; }
  /// Returns the name for an error.
  std::string NameExcerpt() const {
    return name && name->is_string() ? Excerpt(name->string()) : "";
  }
  /// Returns whether the entry of "attr" or "attrs" is a parameter. If there is a "param", "attr"
  /// has none.
  bool IsParameter(std::string_view section, std::string_view key) const {
    return !is_variable() && (section == "attrs" || !param) && !IsAnnotation(key);
  }
  /// Calls visit(key, text, whether it is a parameter) for each entry of "attr" and "attrs".
  template <typename Visit>
  void VisitAttributes(const std::string& where, const Visit& visit) const {
    for (const auto& [section, members] : {std::pair("attr", attr), std::pair("attrs", attrs)}) {
      VisitStrings(members, section, where, [&](std::string key, std::string value) {
        const bool is_parameter = IsParameter(section, key);
        visit(std::move(key), std::move(value), is_parameter);
      });
    }
  }

  std::optional<JsonValue> op, name, inputs, param, attr, attrs, control_deps, subgraphs;
};

std::vector<NodeEntry> GraphReader::Read(JsonValue graph) {
  if (!graph.is_object()) throw Damaged("the text is not a JSON object");
  std::optional<JsonValue> nodes, heads;
  for (JsonWalker member(graph); member.Next();) {
    const std::string key = member.key();
    if (key == "nodes") nodes = member.value();
    if (key == "heads") heads = member.value();
    if (key == "attrs") ReadVersion(member.value());
  }
  if (!Require(nodes, "nodes", "the graph").is_array()) throw Damaged("\"nodes\" is not an array");
  for (JsonWalker node(*nodes); node.Next();) ReadNode(node.value());
  if (!Require(heads, "heads", "the graph").is_array() || heads->size() == 0) {
    throw Damaged("\"heads\" is not a list of outputs");
  }
  std::vector<NodeEntry> outputs;
  for (JsonWalker head(*heads); head.Next();) outputs.push_back(ReadEntry(head.value(), "a head"));
  return outputs;
}

void GraphReader::CountOutputs(int64_t added, const std::string& where) {
  *total_outputs_ += added;
  if (*total_outputs_ > kMaxOutputs) {
    throw Damaged(where, ": the graph has more than ", kMaxOutputs, " outputs of nodes");
  }
}

/// Reads "mxnet_version": ["int", 10901].
void GraphReader::ReadVersion(JsonValue attributes) {
  if (!attributes.is_object()) return;
  for (JsonWalker member(attributes); member.Next();) {
    if (member.key() != "mxnet_version" || !member.value().is_array()) continue;
    for (JsonWalker element(member.value()); element.Next();) {
      version_ = element.value().integer().value_or(version_);
    }
  }
}

NodeEntry GraphReader::ReadEntry(JsonValue entry, const std::string& where) {
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
  const auto replaced = replaced_.find(id);
  if (replaced != replaced_.end()) return replaced->second[static_cast<size_t>(output)];
  return {nodes_[id], output};
}

void GraphReader::ReadNode(JsonValue json) {
  const std::string position = "node " + std::to_string(nodes_.size());
  if (!json.is_object()) throw Damaged(position, " is not an object");
  const NodeFields fields(json);
  if (!Require(fields.op, "op", position).is_string() ||
      !Require(fields.name, "name", position).is_string()) {
    throw Damaged(position, ": \"op\" and \"name\" must be strings");
  }
  const std::string where = position + " (" + fields.NameExcerpt() + ")";
  if (!Require(fields.inputs, "inputs", where).is_array()) {
    throw Damaged(where, ": \"inputs\" is not an array");
  }
  if (fields.control_deps && !IsEmptyList(*fields.control_deps)) {
    throw Unimplemented("symbol JSON: ", where, " has \"control_deps\", which are not implemented");
  }
  if (IsFused(fields.op->string())) {
    ReadFused(fields, where);
    return;
  }
  std::vector<std::vector<NodeEntry>> subgraphs = ReadSubgraphs(fields, where);
  if (fields.is_variable()) {
    if (fields.inputs->size() != 0) throw Damaged(where, ": a variable has inputs");
    nodes_.push_back(MakeVariable(fields.name->string()).node);
  } else {
    nodes_.push_back(ReadOperator(fields, where, std::move(subgraphs)));
  }
  // The outputs of an unknown operator are not counted on its node before all are known.
  const bool is_unknown = unknown_.contains(nodes_.size() - 1);
  num_outputs_.push_back(is_unknown ? 1 : nodes_.back()->num_outputs());
  CountOutputs(num_outputs_.back(), where);
  ReadAttributes(fields, where);
}

ParameterMap GraphReader::ReadParameters(const NodeFields& fields, const std::string& where) const {
  ParameterMap parameters;
  const auto read = [&](std::string key, std::string value) {
    parameters[std::move(key)] = std::move(value);
    if (parameters.size() > kMaxParameters) {
      throw Damaged(where, " has more than ", kMaxParameters, " parameters");
    }
  };
  VisitStrings(fields.param, "param", where, read);
  fields.VisitAttributes(where, [&](std::string key, std::string value, bool is_parameter) {
    if (is_parameter) read(std::move(key), std::move(value));
  });
  return parameters;
}

std::shared_ptr<const OperatorProperty> GraphReader::MakeProperty(
    const NodeFields& fields, ParameterMap* parameters,
    const std::vector<std::vector<NodeEntry>>& subgraphs) {
  const std::string op = fields.op->string();
  const bool is_loop = NumLoopGraphs(op) > 0, is_mask = op == BooleanMaskProperty::kName;
  if (!is_loop && !is_mask && OperatorRegistry::Get().Find(op) == nullptr) {
    auto unknown =
        std::make_shared<UnknownOperatorProperty>(op, static_cast<int>(fields.inputs->size()));
    unknown->Init(*parameters);
    unknown_.emplace(nodes_.size(), unknown);
    return unknown;
  }
  try {
    if (is_loop) return MakeLoop(op, *parameters, subgraphs);
    if (is_mask) return BooleanMaskProperty::Make(*parameters);
    UpgradeParameters(version_, op, parameters);
    return OperatorRegistry::Get().Create(op, *parameters);
  } catch (const Error& error) {
    if (is_loop || is_mask || TakesParameters(op)) {
      throw Error(error.code(), "node \"" + fields.NameExcerpt() + "\": " + error.what());
    }
    return OperatorRegistry::Get().Create(op, {});
  }
}

std::shared_ptr<Node> GraphReader::ReadOperator(const NodeFields& fields, const std::string& where,
                                                std::vector<std::vector<NodeEntry>> subgraphs) {
  ParameterMap parameters = ReadParameters(fields, where);
  std::shared_ptr<const OperatorProperty> property = MakeProperty(fields, &parameters, subgraphs);
  const std::vector<NodeEntry> inputs = ReadInputs(*property, fields, where);
  std::shared_ptr<Node> node = MakeNode(std::move(property), fields.name->string(), inputs).node;
  node->SetGivenParameters(std::move(parameters));
  node->subgraphs = std::move(subgraphs);
  return node;
}

/// Reads a node that stands for the operators of its subgraph.
void GraphReader::ReadFused(const NodeFields& fields, const std::string& where) {
  const FusedNode fused = {.op = fields.op->string(),
                           .name = fields.name->string(),
                           .parameters = ReadParameters(fields, where),
                           .inputs = ReadInputs(fields, where),
                           .subgraphs = ReadSubgraphs(fields, where)};
  std::vector<NodeEntry> outputs;
  try {
    outputs = ReplaceFused(fused);
  } catch (const Error& error) {
    throw Error(error.code(), "node \"" + fields.NameExcerpt() + "\": " + error.what());
  }
  num_outputs_.push_back(static_cast<int>(outputs.size()));
  CountOutputs(num_outputs_.back(), where);
  replaced_.emplace(nodes_.size(), outputs);
  nodes_.push_back(outputs[0].node);
}

std::vector<NodeEntry> GraphReader::ReadInputs(const NodeFields& fields, const std::string& where) {
  std::vector<NodeEntry> inputs;
  for (JsonWalker input(*fields.inputs); input.Next();) {
    inputs.push_back(ReadEntry(input.value(), where + ": an input"));
  }
  return inputs;
}

std::vector<NodeEntry> GraphReader::ReadInputs(const OperatorProperty& property,
                                               const NodeFields& fields, const std::string& where) {
  const auto given = static_cast<size_t>(fields.inputs->size());
  const std::vector<int> mutated = property.MutatedInputs();
  if (!MayHaveInputs(version_, property, given)) {
    throw Damaged(where, " has ", given, " inputs, but ", property.TypeString(), " takes ",
                  property.ListArguments().size(), ", of which it changes ", mutated.size());
  }
  std::vector<NodeEntry> inputs = ReadInputs(fields, where);
  for (const int input : mutated) {
    const auto i = static_cast<size_t>(input);
    if (i < inputs.size() && !inputs[i].node->is_variable()) {
      throw Damaged(where, ": input ", i, ", which the operator changes, is not a variable");
    }
  }
  return inputs;
}

/// Sets the last node's attributes, and those that it states for the variables of its arguments.
void GraphReader::ReadAttributes(const NodeFields& fields, const std::string& where) {
  Annotator annotator(nodes_.back().get());
  fields.VisitAttributes(where, [&](const std::string& key, std::string value, bool is_parameter) {
    if (!is_parameter) annotator.Set(key, std::move(value));
  });
  const Node& node = *nodes_.back();
  if (node.is_variable()) return;
  // Variables that the file leaves out are like those that Symbol::Apply makes.
  for (size_t i = static_cast<size_t>(fields.inputs->size()); i < node.inputs.size(); ++i) {
    CopyAttributes(node, node.inputs[i].node.get());
  }
  if (!HasInitializers(version_)) StateInitializers(node);
}

/// Returns the outputs of each of a node's subgraphs.
std::vector<std::vector<NodeEntry>> GraphReader::ReadSubgraphs(const NodeFields& fields,
                                                               const std::string& where) {
  std::vector<std::vector<NodeEntry>> subgraphs;
  if (!fields.subgraphs || IsEmptyList(*fields.subgraphs)) return subgraphs;
  if (!fields.subgraphs->is_array()) throw Damaged(where, ": \"subgraphs\" is not an array");
  if (fields.is_variable()) throw Damaged(where, ": a variable has subgraphs");
  for (JsonWalker subgraph(*fields.subgraphs); subgraph.Next();) {
    try {
      subgraphs.push_back(GraphReader(version_, total_outputs_).Read(subgraph.value()));
    } catch (const Error& error) {
      throw Error(error.code(), "node \"" + fields.NameExcerpt() + "\", subgraph " +
                                    std::to_string(subgraphs.size()) + ": " + error.what());
    }
  }
  return subgraphs;
}

}  // namespace tessera::graph
