#ifndef TESSERA_GRAPH_JSON_H_
#define TESSERA_GRAPH_JSON_H_

#include <string>
#include <string_view>
#include <vector>

#include "tessera/graph/node.h"

namespace tessera::graph {

/// Returns a graph in MXNet's format (`*-symbol.json`), which MXNet 0.9 to 2.0 read. Parameters are
/// written as they were given. With `numpy_shape`, the graph gets the attribute `is_np_shape`.
/// Takes linear time. Throws Error(kInvalidArgument) for a name or attribute that is not UTF-8, and
/// Error(kUnimplemented) for a node that runs another operator's Backward, which files cannot
/// express.
std::string WriteJson(const std::vector<NodeEntry>& heads, bool numpy_shape = false);

/// Returns the outputs of a graph in MXNet's format, as MXNet 0.5 to 2.0 wrote it. See
/// Symbol::FromJson for what is read and for errors. Takes time linear in the text.
std::vector<NodeEntry> ReadJson(std::string_view text);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_JSON_H_
