#ifndef TESSERA_SYMBOL_MEMORY_PLAN_SUMMARY_H_
#define TESSERA_SYMBOL_MEMORY_PLAN_SUMMARY_H_

#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

/// The memory that a graph's run takes for its intermediate results, and for the workspaces of
/// operators that state their size.
struct MemoryPlanSummary {
  int values = 0;               ///< intermediate results
  int inplace = 0;              ///< results written over an input
  int64_t planned_bytes = 0;    ///< the size of the memory that they share
  int64_t unplanned_bytes = 0;  ///< the size with separate memory for each result and workspace
  /// The most that one step needs for its workspace and for the results that it uses or keeps;
  /// planned_bytes is at least as large.
  int64_t liveness_bytes = 0;
};

}  // namespace tessera

#endif  // TESSERA_SYMBOL_MEMORY_PLAN_SUMMARY_H_
