#include "tessera/graph/passes/join_relu.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tessera/graph/attributes.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/property.h"

namespace tessera::graph {
namespace {

bool IsRelu(const Node& node) {
  if (node.is_variable()) return false;
  const std::string& op = node.property->TypeString();
  return op == "relu" ||
         (op == "Activation" && node.property->GetParams().at("act_type") == "relu");
}

/// The readers of a graph's values.
class Readers {
 public:
  Readers(const std::vector<NodeEntry>& heads, const std::vector<std::shared_ptr<Node>>& order) {
    for (const NodeEntry& head : heads) ++count_[{head.node.get(), head.index}];
    for (const auto& node : order) {
      for (const NodeEntry& input : node->inputs) ++count_[{input.node.get(), input.index}];
    }
  }

  /// Returns whether `relu` and the node that it reads become one.
  bool MayJoin(const Node& relu) const {
    const NodeEntry& input = relu.inputs[0];
    const Node& norm = *input.node;
    if (norm.is_variable() || norm.property->TypeString() != "BatchNorm" || input.index != 0) {
      return false;
    }
    for (int i = 0; i < norm.num_outputs(); ++i) {
      if (Count({&norm, i}) != (i == 0 ? 1 : 0)) return false;
    }
    // The averages change when relu runs, which nobody else may notice.
    const std::vector<int> mutated = norm.property->MutatedInputs();
    const bool is_alone = std::all_of(mutated.begin(), mutated.end(), [&](int i) {
      const NodeEntry& average = norm.inputs[static_cast<size_t>(i)];
      return Count({average.node.get(), average.index}) == 1;
    });
    return is_alone && DeviceGroup(norm) == DeviceGroup(relu) &&
           NamedImplementation(norm).empty() && NamedImplementation(relu).empty();
  }

 private:
  int Count(const std::pair<const Node*, int>& value) const {
    const auto found = count_.find(value);
    return found == count_.end() ? 0 : found->second;
  }

  std::map<std::pair<const Node*, int>, int> count_;  // by node and output
};

}  // namespace

std::vector<NodeEntry> JoinRelu(const std::vector<NodeEntry>& heads) {
  const std::vector<std::shared_ptr<Node>> order = TopologicalOrder(heads);
  const Readers readers(heads, order);
  const auto replace = [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    if (!IsRelu(node) || !readers.MayJoin(node)) return Replacement{rebuilt};
    const Node& norm = *rebuilt->inputs[0].node;
    return Replacement{MakeOperatorLike(norm, "_contrib_BatchNormWithReLU", node.name, norm.inputs,
                                        norm.property->GetParams())
                           .node};
  };
  return RewriteGraph(heads, order, replace);
}

}  // namespace tessera::graph
