#ifndef TESSERA_GRAPH_PASSES_PLACEMENT_H_
#define TESSERA_GRAPH_PASSES_PLACEMENT_H_

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/graph/node.h"

namespace tessera::graph {

/// The devices that a caller chooses.
struct PlacementOptions {
  std::map<std::string, Device> groups = {};     ///< by the nodes' attribute `ctx_group`
  Device device = Device::Cpu();                 ///< for all other variables and operators
  std::map<std::string, Device> variables = {};  ///< of arrays that exist, by the variables' name
  /// The devices on which outputs are wanted; an output beyond the list, or without a device, stays
  /// where it is computed.
  std::vector<std::optional<Device>> heads = {};
};

/// A graph whose nodes have devices.
struct PlacedGraph {
  std::vector<NodeEntry> heads;                     ///< the outputs of the graph
  std::unordered_map<const Node*, Device> devices;  ///< of every node
};

/// Gives every node a device, and puts a `_CrossDeviceCopy` wherever a node reads a value from
/// another device; a value is copied once to each device. The devices are, in this order:
///
/// - that of `variables`, for a variable with an array;
/// - that of the node's `ctx_group`; if no groups are given, the attribute is ignored;
/// - for a node that computes a gradient: that of the node whose gradient it is;
/// - for a variable that an operator changes: that of the operator;
/// - for another variable: `device`;
/// - for another operator: that of its first input; without inputs, that of its first reader;
/// - `device`.
///
/// A `_CrossDeviceCopy` itself lies on the device of its readers. Throws Error(kInvalidArgument)
/// that names the node: for a group that is not in `groups`, and for an operator that changes a
/// value on another device. Linear time, except for the logarithm of an ordered map.
PlacedGraph PlaceDevices(const std::vector<NodeEntry>& heads, const PlacementOptions& options);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_PLACEMENT_H_
