#include "tessera/compat/mxnet/core/partition.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "tessera/graph/graph.h"
#include "tessera/graph/make_loop.h"
#include "tessera/graph/mask_property.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/property.h"
#include "tessera/ops/registry.h"

namespace tessera::mxnet {
namespace {

using graph::Node;
using graph::NodeEntry;

/// An output of a node.
using Output = std::pair<const Node*, int>;

Output OutputOf(const NodeEntry& entry) { return {entry.node.get(), entry.index}; }

/// Returns the names under which operators are registered.
std::set<std::string> RegisteredNames(const std::vector<std::string>& operators) {
  std::set<std::string> names;
  for (const std::string& name : operators) {
    const OperatorEntry* const entry = OperatorRegistry::Get().Find(name);
    names.insert(entry == nullptr ? name : entry->name);
  }
  return names;
}

/// Divides the nodes of a graph into parts and makes the new graph. A part is named by the number
/// of its first node; a node that is in no subgraph is a part of its own.
class Partition {
 public:
  Partition(const std::vector<NodeEntry>& heads, const std::set<std::string>& operators)
      : heads_(heads),
        order_(graph::TopologicalOrder(heads)),
        members_(order_.size()),
        is_chosen_(order_.size()) {
    for (size_t i = 0; i < order_.size(); ++i) {
      part_[order_[i].get()] = i;
      members_[i] = {i};
      is_chosen_[i] = MayBelong(*order_[i], operators);
    }
    for (size_t i = 0; i < order_.size(); ++i) {
      if (is_chosen_[i]) Join(i);
    }
  }

  std::vector<NodeEntry> Build() {
    std::set<Output> read;  // by another part, or by the graph's reader
    for (const NodeEntry& head : heads_) read.insert(OutputOf(head));
    for (const auto& node : order_) {
      for (const NodeEntry& input : node->inputs) {
        if (PartOf(input) != part_.at(node.get())) read.insert(OutputOf(input));
      }
    }
    for (const size_t part : OrderOfParts()) {
      if (is_chosen_[part]) {
        BuildSubgraph(part, read);
      } else {
        BuildNode(order_[part]);
      }
    }
    std::vector<NodeEntry> heads;
    for (const NodeEntry& head : heads_) heads.push_back(built_.at(OutputOf(head)));
    return heads;
  }

 private:
  static bool MayBelong(const Node& node, const std::set<std::string>& operators) {
    return !node.is_variable() && operators.contains(node.property->TypeString()) &&
           !node.property->IsLoss() && node.subgraphs.empty() &&
           node.property->purity() != Purity::kSynchronous &&
           node.property->TypeString() != graph::BooleanMaskProperty::kName &&
           graph::DeviceGroup(node).empty();
  }

  size_t PartOf(const NodeEntry& entry) const { return part_.at(entry.node.get()); }

  /// Returns the parts whose values a part reads, those read first in front.
  std::vector<size_t> InputsOf(size_t part) const {
    std::vector<size_t> inputs;
    for (const size_t member : members_[part]) {
      for (const NodeEntry& input : order_[member]->inputs) {
        if (PartOf(input) != part) inputs.push_back(PartOf(input));
      }
    }
    return inputs;
  }

  /// Returns whether a part is another one or reads values that were computed with its help.
  bool DependsOn(size_t part, size_t other) const {
    std::vector<size_t> pending = {part};
    std::vector<bool> seen(order_.size());
    seen[part] = true;
    while (!pending.empty()) {
      const size_t next = pending.back();
      pending.pop_back();
      if (next == other) return true;
      for (const size_t input : InputsOf(next)) {
        if (!seen[input]) pending.push_back(input);
        seen[input] = true;
      }
    }
    return false;
  }

  /// Adds a node to the first subgraph whose values it reads, if none of its other inputs depends
  /// on the subgraph. No part reads the node's values yet.
  void Join(size_t node) {
    const std::vector<size_t> inputs = InputsOf(node);
    for (const size_t part : inputs) {
      if (!is_chosen_[part]) continue;
      const bool returns = std::any_of(inputs.begin(), inputs.end(), [&](size_t input) {
        return input != part && DependsOn(input, part);
      });
      if (returns) continue;
      part_[order_[node].get()] = part;
      members_[part].push_back(node);
      members_[node].clear();
      return;
    }
  }

  /// Returns the parts, each behind those that it reads, in the order in which the heads need them.
  std::vector<size_t> OrderOfParts() const {
    struct Visit {
      size_t part;
      std::vector<size_t> inputs;
      size_t next = 0;
    };
    std::vector<size_t> order;
    std::vector<bool> seen(order_.size());
    std::vector<Visit> visits;
    const auto enter = [&](size_t part) {
      if (seen[part]) return;
      seen[part] = true;
      visits.push_back({part, InputsOf(part)});
    };
    for (const NodeEntry& head : heads_) {
      enter(PartOf(head));
      while (!visits.empty()) {
        Visit& visit = visits.back();
        if (visit.next < visit.inputs.size()) {
          enter(visit.inputs[visit.next++]);
        } else {
          order.push_back(visit.part);
          visits.pop_back();
        }
      }
    }
    return order;
  }

  /// Builds a node that is in no subgraph. It is shared with the old graph if it reads the same.
  void BuildNode(const std::shared_ptr<Node>& node) {
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& input : node->inputs) inputs.push_back(built_.at(OutputOf(input)));
    std::shared_ptr<Node> result = node;
    if (inputs != node->inputs) {
      result = std::make_shared<Node>(*node);
      result->inputs = std::move(inputs);
    }
    for (int i = 0; i < node->num_outputs(); ++i) built_[{node.get(), i}] = {result, i};
  }

  void BuildSubgraph(size_t part, const std::set<Output>& read) {
    std::map<Output, NodeEntry> inside;     // for the outputs of the old graph
    std::map<const Node*, Output> outside;  // for the subgraph's variables
    std::vector<Output> outputs;
    std::vector<NodeEntry> heads;
    for (const size_t member : members_[part]) {
      const std::shared_ptr<Node>& node = order_[member];
      const auto copy = std::make_shared<Node>(*node);
      for (NodeEntry& input : copy->inputs) {
        NodeEntry& entry = inside[OutputOf(input)];
        if (entry.node == nullptr) {
          entry = graph::MakeVariable(input.node->OutputName(input.index));
          outside[entry.node.get()] = OutputOf(input);
        }
        input = entry;
      }
      for (int i = 0; i < node->num_outputs(); ++i) {
        inside[{node.get(), i}] = {copy, i};
        if (!read.contains({node.get(), i})) continue;
        outputs.emplace_back(node.get(), i);
        heads.push_back({copy, i});
      }
    }
    const graph::IndexedGraph index(heads);
    std::vector<NodeEntry> inputs;
    for (const int variable : index.variables()) {
      inputs.push_back(built_.at(outside.at(&index.node(variable))));
    }
    const NodeEntry result =
        graph::MakeNode(graph::MakeLoop("_CachedOp", {}, {heads}),
                        "_CachedOp" + std::to_string(num_subgraphs_++), inputs);
    result.node->subgraphs = {std::move(heads)};
    for (size_t i = 0; i < outputs.size(); ++i) {
      built_[outputs[i]] = {result.node, static_cast<int>(i)};
    }
  }

  const std::vector<NodeEntry>& heads_;
  const std::vector<std::shared_ptr<Node>> order_;
  std::unordered_map<const Node*, size_t> part_;
  std::vector<std::vector<size_t>> members_;  ///< of each part, in order
  std::vector<bool> is_chosen_;               ///< for each node, whether it is in a subgraph
  std::map<Output, NodeEntry> built_;         ///< the new values for the old ones
  int num_subgraphs_ = 0;
};

/// The operators of backends.
struct Backends {
  std::mutex mutex;
  std::map<std::pair<BackendInterface, std::string>, std::vector<std::string>> operators;

  static Backends& Get() {
    static Backends backends;
    return backends;
  }
};

}  // namespace

Symbol PartitionByOperators(const Symbol& symbol, const std::vector<std::string>& operators) {
  const std::vector<std::shared_ptr<Node>> order = graph::TopologicalOrder(symbol.outputs());
  const bool has_gradients = std::any_of(order.begin(), order.end(),
                                         [](const auto& node) { return node->forward != nullptr; });
  if (has_gradients) return symbol.Copy();
  const Symbol copy = symbol.Copy();
  return Symbol(Partition(copy.outputs(), RegisteredNames(operators)).Build());
}

void SetBackendOperators(BackendInterface interface, const std::string& backend,
                         std::vector<std::string> operators) {
  const std::lock_guard lock(Backends::Get().mutex);
  Backends::Get().operators[{interface, backend}] = std::move(operators);
}

std::vector<std::string> BackendOperators(BackendInterface interface, const std::string& backend) {
  const std::lock_guard lock(Backends::Get().mutex);
  const auto found = Backends::Get().operators.find({interface, backend});
  return found == Backends::Get().operators.end() ? std::vector<std::string>() : found->second;
}

void RemoveBackendOperators(BackendInterface interface, const std::string& backend) {
  const std::lock_guard lock(Backends::Get().mutex);
  Backends::Get().operators.erase({interface, backend});
}

}  // namespace tessera::mxnet
