#ifndef TESSERA_GRAPH_JSON_JSON_UPGRADE_H_
#define TESSERA_GRAPH_JSON_JSON_UPGRADE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tessera/ops/property.h"

namespace tessera::graph {

/// The version of a graph that does not state it. MXNet takes such a graph for one of 0.8.
inline constexpr int64_t kUnstatedVersion = 800;

/// Changes parameters that mean something else since `version` of MXNet (10901 for 1.9.1).
void UpgradeParameters(int64_t version, std::string_view op, ParameterMap* parameters);

/// Returns whether graphs of `version` state the initializers that MXNet itself gives to variables.
bool HasInitializers(int64_t version);

/// Returns whether a graph of `version` may have a node of `property` with `given` inputs. Graphs
/// before 0.9 may leave out variables that MXNet names itself. Those of every version may leave out
/// the inputs that the operator changes, which are the last ones.
bool MayHaveInputs(int64_t version, const OperatorProperty& property, size_t given);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_JSON_JSON_UPGRADE_H_
