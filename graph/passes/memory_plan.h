#ifndef TESSERA_GRAPH_PASSES_MEMORY_PLAN_H_
#define TESSERA_GRAPH_PASSES_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "tessera/graph/program.h"

namespace tessera::graph {

/// The memory block of each intermediate value.
struct MemoryPlan {
  std::vector<int> value_block;           ///< for each value; kNoValue for values in arrays
  std::vector<int64_t> block_size_bytes;  ///< for each block
  int inplace = 0;                        ///< values written over an input
  int64_t unplanned_bytes = 0;            ///< the size with a separate block for each value
};

/// Plans blocks by liveness, in the order of the steps. A value takes over the block of an input
/// that dies in the same step if the operator allows it, else the best fitting free block, else a
/// new one. Steps that write in place get the request kWriteInplace.
MemoryPlan PlanMemory(Program* program);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_MEMORY_PLAN_H_
