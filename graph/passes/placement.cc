#include "tessera/graph/passes/placement.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/passes/rewrite.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

using Order = std::vector<std::shared_ptr<Node>>;
using Devices = std::unordered_map<const Node*, Device>;

/// Finds the device of each node of the given graph.
class Placement {
 public:
  Placement(const Order& order, const PlacementOptions& options)
      : order_(order), options_(options) {}

  Devices Place() {
    for (const auto& node : order_) {
      PlaceNamed(*node);
      if (node->is_variable()) continue;
      for (const int i : node->property->MutatedInputs()) mutated_.insert(InputNode(*node, i));
    }
    for (const auto& node : order_) {
      PlaceByInput(*node);
      PlaceMutated(*node);
    }
    // A node without an input on a device takes the device of its readers, the last node first.
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      const Device device = devices_.try_emplace(node->get(), options_.device).first->second;
      for (const NodeEntry& input : (*node)->inputs) devices_.try_emplace(input.node.get(), device);
    }
    return std::move(devices_);
  }

 private:
  /// Places a node for which the caller or its group gives the device.
  void PlaceNamed(const Node& node) {
    if (node.is_variable()) {
      const auto given = options_.variables.find(node.name);
      if (given != options_.variables.end()) {
        devices_.emplace(&node, given->second);
        return;
      }
    }
    const std::string group = DeviceGroup(node);
    if (options_.groups.empty() || group.empty()) return;
    const auto device = options_.groups.find(group);
    if (device == options_.groups.end()) ThrowUnknownGroup(node, group);
    devices_.emplace(&node, device->second);
  }

  [[noreturn]] void ThrowUnknownGroup(const Node& node, const std::string& group) const {
    std::vector<std::string> known;
    for (const auto& [name, device] : options_.groups) known.push_back(name);
    throw InvalidArgument("node \"", Excerpt(node.name),
                          "\": no device is given for its ctx_group \"", Excerpt(group),
                          "\", only for ", ListNames(known));
  }

  static const Node* InputNode(const Node& node, int input) {
    return node.inputs[static_cast<size_t>(input)].node.get();
  }

  /// Places the variables that an operator with a device changes.
  void PlaceMutated(const Node& node) {
    const auto found = devices_.find(&node);
    if (node.is_variable() || found == devices_.end()) return;
    const Device device = found->second;
    for (const int i : node.property->MutatedInputs()) {
      devices_.try_emplace(InputNode(node, i), device);
    }
  }

  /// Places a node by those before it, which `order_` has placed if they have a device.
  void PlaceByInput(const Node& node) {
    if (devices_.contains(&node)) return;
    if (node.is_variable()) {
      if (!mutated_.contains(&node)) devices_.emplace(&node, options_.device);
      return;
    }
    if (node.forward != nullptr && TakeDevice(node, *node.forward)) return;
    for (const NodeEntry& input : node.inputs) {
      if (TakeDevice(node, *input.node)) return;
    }
  }

  bool TakeDevice(const Node& node, const Node& from) {
    const auto found = devices_.find(&from);
    if (found == devices_.end()) return false;
    const Device device = found->second;
    devices_.emplace(&node, device);
    return true;
  }

  const Order& order_;
  const PlacementOptions& options_;
  std::unordered_set<const Node*> mutated_;
  Devices devices_;
};

/// Makes the copies between devices, one of each value for each device.
class Copies {
 public:
  explicit Copies(Devices* devices) : devices_(*devices) {}

  /// Returns the value on `device`. `value` is an entry of the new graph.
  NodeEntry On(Device device, const NodeEntry& value) {
    if (devices_.at(value.node.get()) == device) return value;
    NodeEntry& copy =
        made_[{value.node.get(), value.index, static_cast<int>(device.type), device.id}];
    if (copy.node == nullptr) {
      copy = MakeNode(OperatorRegistry::Get().FindOrCreate("_CrossDeviceCopy", {}),
                      value.node->name + "_" + std::to_string(value.index) + "_copy", {value});
      devices_[copy.node.get()] = device;
    }
    return copy;
  }

 private:
  Devices& devices_;
  std::map<std::tuple<const Node*, int, int, int>, NodeEntry> made_;
};

[[noreturn]] void ThrowChangesElsewhere(const Node& node, size_t input, Device device,
                                        Device of_input) {
  throw InvalidArgument("node \"", Excerpt(node.name), "\" (", node.property->TypeString(), ") on ",
                        device, " changes its input \"", node.property->ListArguments()[input],
                        "\", which lies on ", of_input, "; expected one device");
}

}  // namespace

PlacedGraph PlaceDevices(const std::vector<NodeEntry>& heads, const PlacementOptions& options) {
  const Order order = TopologicalOrder(heads);
  const Devices given = Placement(order, options).Place();
  PlacedGraph placed;
  Copies copies(&placed.devices);
  const auto replace = [&](const Node& node, const std::shared_ptr<Node>& rebuilt) {
    const Device device = given.at(&node);
    std::shared_ptr<Node> made = rebuilt;
    std::vector<int> mutated;
    if (!node.is_variable()) mutated = node.property->MutatedInputs();
    const bool copies_itself =
        !node.is_variable() && node.property->TypeString() == "_CrossDeviceCopy";
    for (size_t i = 0; i < rebuilt->inputs.size() && !copies_itself; ++i) {
      const NodeEntry local = copies.On(device, rebuilt->inputs[i]);
      if (local == rebuilt->inputs[i]) continue;
      if (std::binary_search(mutated.begin(), mutated.end(), static_cast<int>(i))) {
        ThrowChangesElsewhere(node, i, device, given.at(node.inputs[i].node.get()));
      }
      if (made == rebuilt) made = std::make_shared<Node>(*rebuilt);
      made->inputs[i] = local;
    }
    placed.devices[made.get()] = device;
    return Replacement{std::move(made)};
  };
  placed.heads = RewriteGraph(heads, order, replace);
  for (size_t i = 0; i < heads.size() && i < options.heads.size(); ++i) {
    if (options.heads[i]) placed.heads[i] = copies.On(*options.heads[i], placed.heads[i]);
  }
  return placed;
}

}  // namespace tessera::graph
