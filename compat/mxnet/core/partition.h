#ifndef TESSERA_COMPAT_MXNET_CORE_PARTITION_H_
#define TESSERA_COMPAT_MXNET_CORE_PARTITION_H_

#include <string>
#include <vector>

#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// Returns a copy of a graph in which nodes of the given operators, by any of their names, are in
/// nodes of _CachedOp, each with a part of the graph. A part grows from its first node along the
/// edges, in topological order, as long as no value leaves it and comes back. Arguments and states
/// stay the same. Losses, which start the gradient of a graph, nodes that run graphs or belong to a
/// device group, boolean_mask and functions of a client stay outside. A graph with nodes of
/// gradients stays as it is.
Symbol PartitionByOperators(const Symbol& symbol, const std::vector<std::string>& operators);

/// Keep the operators of a backend for one of MXNet's interfaces of backends, and return or remove
/// them; empty without any. Thread-safe.
enum class BackendInterface {
  kOfExecutors,    ///< MXSetSubgraphPropertyOpNames
  kOfOptimizeFor,  ///< MXSetSubgraphPropertyOpNamesV2
};
void SetBackendOperators(BackendInterface interface, const std::string& backend,
                         std::vector<std::string> operators);
std::vector<std::string> BackendOperators(BackendInterface interface, const std::string& backend);
void RemoveBackendOperators(BackendInterface interface, const std::string& backend);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_PARTITION_H_
