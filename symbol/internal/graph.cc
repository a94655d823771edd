#include "tessera/symbol/internal/graph.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "tessera/base/error.h"

namespace tessera::symbol_internal {

std::span<const std::string_view> AnnotationNames() {
  static constexpr std::string_view kNames[] = {
      "ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage", "profiler_scope"};
  return kNames;
}

std::string_view AttributeName(const Node& node, std::string_view key) {
  if (key.size() < 4 || !key.starts_with("__") || !key.ends_with("__")) return key;
  const std::string_view name = key.substr(2, key.size() - 4);
  const auto known = AnnotationNames();
  const bool same =
      !node.is_variable() || std::find(known.begin(), known.end(), name) != known.end();
  return same ? name : key;
}

Node::~Node() {
  // Recursive destructors would overflow the stack for a long chain of nodes.
  std::vector<NodeEntry> doomed = std::move(inputs);
  while (!doomed.empty()) {
    const std::shared_ptr<Node> node = std::move(doomed.back().node);
    doomed.pop_back();
    if (node.use_count() == 1) {
      std::move(node->inputs.begin(), node->inputs.end(), std::back_inserter(doomed));
      node->inputs.clear();
    }
  }
}

int Node::num_outputs() const {
  return is_variable() ? 1 : static_cast<int>(property->ListOutputs().size());
}

int Node::num_arguments() const {
  return is_variable() ? 0 : static_cast<int>(property->ListArguments().size());
}

std::string Node::OutputName(int index) const {
  if (is_variable()) return name;
  return name + "_" + property->ListOutputs()[static_cast<size_t>(index)];
}

IndexedGraph::IndexedGraph(const std::vector<NodeEntry>& heads) {
  // Depth-first without recursion, because graphs may be deeper than the stack.
  struct Visit {
    const Node* node;
    size_t next_input;
  };
  std::unordered_set<const Node*> seen;
  std::unordered_set<const Node*> aux;
  std::vector<Visit> stack;
  for (const NodeEntry& head : heads) {
    if (seen.insert(head.node.get()).second) stack.push_back({head.node.get(), 0});
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next_input < top.node->inputs.size()) {
        const Node* input = top.node->inputs[top.next_input].node.get();
        if (top.next_input >= static_cast<size_t>(top.node->num_arguments())) aux.insert(input);
        ++top.next_input;
        if (seen.insert(input).second) stack.push_back({input, 0});
      } else {
        node_ids_[top.node] = static_cast<int>(nodes_.size());
        nodes_.push_back(top.node);
        stack.pop_back();
      }
    }
  }
  std::set<std::string> names;
  entry_begin_.push_back(0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    entry_begin_.push_back(entry_begin_.back() + nodes_[i]->num_outputs());
    if (!nodes_[i]->is_variable()) continue;
    if (!names.insert(nodes_[i]->name).second) {
      throw InvalidArgument("Symbol: two different variables are called \"", nodes_[i]->name,
                            "\"; names of arguments must be unique");
    }
    (aux.contains(nodes_[i]) ? aux_states_ : arguments_).push_back(static_cast<int>(i));
  }
  for (const NodeEntry& head : heads) heads_.push_back(EntryId(head));
}

std::vector<int> IndexedGraph::InputIds(int node) const {
  std::vector<int> ids;
  for (const NodeEntry& input : nodes_[static_cast<size_t>(node)]->inputs) {
    ids.push_back(EntryId(input));
  }
  return ids;
}

NodeEntry MakeVariable(std::string name) {
  auto node = std::make_shared<Node>();
  node->name = std::move(name);
  return {std::move(node), 0};
}

NodeEntry MakeNode(std::shared_ptr<const OperatorProperty> property, std::string name,
                   const std::vector<NodeEntry>& arguments) {
  auto node = std::make_shared<Node>();
  std::vector<std::string> names = property->ListArguments();
  if (arguments.size() > names.size()) {
    throw InvalidArgument(property->TypeString(), ": ", arguments.size(),
                          " inputs were given, expected at most ", names.size());
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const bool given = i < arguments.size() && arguments[i].node != nullptr;
    node->inputs.push_back(given ? arguments[i] : MakeVariable(name + "_" + names[i]));
  }
  for (const std::string& aux : property->ListAuxiliaryStates()) {
    node->inputs.push_back(MakeVariable(name + "_" + aux));
  }
  node->property = std::move(property);
  node->name = std::move(name);
  return {std::move(node), 0};
}

}  // namespace tessera::symbol_internal
