#ifndef TESSERA_GRAPH_DUMP_H_
#define TESSERA_GRAPH_DUMP_H_

#include <string>
#include <string_view>
#include <vector>

#include "tessera/graph/node.h"
#include "tessera/graph/text.h"

namespace tessera::graph {

/// Writes a graph after each of its passes into files, if the setting TESSERA_DUMP_GRAPH names a
/// folder. The files of the process's first such graph are `graph_0/00_<pass>.txt` (ToText) and
/// `graph_0/00_<pass>.dot` (ToGraphviz); the passes and the graphs are counted. Files of an earlier
/// process are overwritten.
///
/// Threads: several threads may dump graphs at a time, each its own.
class GraphDump {
 public:
  /// Makes the graph's folder. Throws Error(kFailedPrecondition) that names the setting, the folder
  /// and the reason if that is not possible.
  GraphDump();

  /// Returns whether the setting names a folder. If not, Write does nothing.
  bool enabled() const { return !folder_.empty(); }

  /// Writes the graph after a pass. Throws Error(kFailedPrecondition) that names the setting, the
  /// file and the reason if that is not possible.
  void Write(std::string_view pass, const std::vector<NodeEntry>& heads,
             const TextNotes& notes = {});

 private:
  void WriteFile(const std::string& path, const std::string& text) const;

  std::string folder_;  // of this graph; empty without the setting
  int next_ = 0;        // the number of the next pass
};

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_DUMP_H_
