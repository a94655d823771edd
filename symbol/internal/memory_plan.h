#ifndef TESSERA_SYMBOL_INTERNAL_MEMORY_PLAN_H_
#define TESSERA_SYMBOL_INTERNAL_MEMORY_PLAN_H_

#include <cstdint>
#include <vector>

#include "tessera/symbol/internal/program.h"

namespace tessera::symbol_internal {

/// Which memory block each intermediate value takes.
struct MemoryPlan {
  std::vector<int> value_block;  ///< for each value; kNoValue for values held in arrays
  std::vector<int64_t> block_size_bytes;
  int inplace = 0;              ///< values written over an input
  int64_t unplanned_bytes = 0;  ///< what a block of its own for each would take
};

/// Plans blocks by liveness, walking the steps in order: a value takes over the block of an input
/// that dies in the same step where the operator allows it, else the best fitting free block, else
/// a new one. Steps that write in place get kWriteInplace as their request.
MemoryPlan PlanMemory(const IndexedGraph& graph, Program* program);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_INTERNAL_MEMORY_PLAN_H_
