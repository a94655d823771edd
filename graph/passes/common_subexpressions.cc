// Nodes are numbered by value, in topological order: nodes that compute the same get one number,
// because their inputs have equal numbers. The node of a number is then built where the first node
// with that number stood. All its inputs stand before it, and every other node keeps its place
// among the others, so random and mutating nodes run in their old order.
#include "tessera/graph/passes/common_subexpressions.h"

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/passes/rewrite.h"

namespace tessera::graph {
namespace {

constexpr int kNone = -1;

/// The nodes that compute the same value.
struct ValueClass {
  const Node* kept = nullptr;             ///< the node whose name and attributes stay
  std::shared_ptr<Node> built = nullptr;  ///< the node in the new graph, once it is built
};

class Numbering {
 public:
  explicit Numbering(const std::vector<NodeEntry>& heads)
      : order_(TopologicalOrder(heads)), facts_(heads, order_) {
    class_of_.reserve(order_.size());
    classes_.reserve(order_.size());
    buckets_.reserve(order_.size());
    for (const auto& node : order_) class_of_[node.get()] = ClassOf(*node);
  }

  const std::vector<std::shared_ptr<Node>>& order() const { return order_; }
  ValueClass& Of(const Node& node) { return classes_[static_cast<size_t>(class_of_.at(&node))]; }

 private:
  /// Operator, group, the class of the node whose gradient it is, and the inputs as class and
  /// output.
  using Key = std::tuple<absl::string_view, std::string, int, std::vector<std::pair<int, int>>>;
  /// The classes with one key. Parameters are printed only when a key occurs a second time, with
  /// the implementation.
  struct Bucket {
    int first = kNone;
    absl::flat_hash_map<std::string, int> by_parameters = {};
  };

  int Add(const Node& node) {
    classes_.push_back({&node});
    return static_cast<int>(classes_.size()) - 1;
  }

  int ClassOf(const Node& node) {
    if (!facts_.IsFunction(node) || node.property->IsLoss()) return Add(node);
    int& known = Find(node);
    if (known == kNone) return known = Add(node);
    ValueClass& same = classes_[static_cast<size_t>(known)];
    if (facts_.IsHead(node)) {
      if (facts_.IsHead(*same.kept)) return Add(node);
      same.kept = &node;
    }
    return known;
  }

  /// Returns where the number of the class of nodes like this one is noted.
  int& Find(const Node& node) {
    Bucket& bucket = buckets_[KeyOf(node)];
    if (bucket.first == kNone) return bucket.first;
    if (bucket.by_parameters.empty()) {
      const Node& first = *classes_[static_cast<size_t>(bucket.first)].kept;
      bucket.by_parameters.emplace(ParameterText(first), bucket.first);
    }
    return bucket.by_parameters.try_emplace(ParameterText(node), kNone).first->second;
  }

  Key KeyOf(const Node& node) {
    std::vector<std::pair<int, int>> inputs;
    inputs.reserve(node.inputs.size());
    for (const NodeEntry& input : node.inputs) {
      inputs.emplace_back(class_of_.at(input.node.get()), input.index);
    }
    return {node.property->TypeString(), DeviceGroup(node), ForwardClass(node.forward.get()),
            std::move(inputs)};
  }

  int ForwardClass(const Node* forward) {
    if (forward == nullptr) return kNone;
    const auto found = class_of_.find(forward);
    if (found != class_of_.end()) return found->second;
    // The graph does not have the node itself, so that it gets a number that no class has.
    return outside_.try_emplace(forward, kNone - 1 - static_cast<int>(outside_.size()))
        .first->second;
  }

  static std::string ParameterText(const Node& node) {
    const std::string implementation = NamedImplementation(node);
    std::string text = absl::StrCat(implementation.size(), " ", implementation);
    for (const auto& [name, value] : node.property->GetParams()) {
      absl::StrAppend(&text, name.size(), " ", name, value.size(), " ", value);
    }
    return text;
  }

  const std::vector<std::shared_ptr<Node>> order_;
  const GraphFacts facts_;
  std::vector<ValueClass> classes_;
  absl::flat_hash_map<const Node*, int> class_of_;
  absl::flat_hash_map<Key, Bucket> buckets_;
  absl::flat_hash_map<const Node*, int> outside_;
};

}  // namespace

std::vector<NodeEntry> MergeCommonSubexpressions(const std::vector<NodeEntry>& heads) {
  Numbering numbering(heads);
  const auto replace = [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    ValueClass& same = numbering.Of(node);
    if (same.built == nullptr) {
      same.built = rebuilt;
      if (same.kept != &node) {
        same.built = std::make_shared<Node>(*rebuilt);
        same.built->name = same.kept->name;
        same.built->attributes = same.kept->attributes;
      }
    }
    return Replacement{same.built};
  };
  return RewriteGraph(heads, numbering.order(), replace);
}

}  // namespace tessera::graph
