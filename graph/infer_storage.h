#ifndef TESSERA_GRAPH_INFER_STORAGE_H_
#define TESSERA_GRAPH_INFER_STORAGE_H_

#include <map>
#include <string>

#include "tessera/graph/graph.h"
#include "tessera/ops/sparse.h"

namespace tessera::graph {

/// Storage types of every entry of a graph, by number; see IndexedGraph.
struct GraphStorage {
  StorageTypes entries;
  /// Those of the gradients with respect to the entries; kUndefined where no head depends on one.
  StorageTypes gradients;

  /// Returns whether an entry is sparse.
  bool HasSparseEntry() const;
};

/// Infers the storage types that values have if the operators are called one by one. `known` has
/// those of variables, by name; other variables are dense. The gradient of a head has the storage
/// type of the head. A sum of gradients is dense unless all of them have one storage type.
GraphStorage InferStorage(const IndexedGraph& graph,
                          const std::map<std::string, StorageType>& known);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_INFER_STORAGE_H_
