#ifndef TESSERA_SYMBOL_MEMORY_PLAN_SUMMARY_H_
#define TESSERA_SYMBOL_MEMORY_PLAN_SUMMARY_H_

#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

/// The memory that a graph's run takes for its intermediate results.
struct MemoryPlanSummary {
  int values = 0;               ///< intermediate results
  int inplace = 0;              ///< results written over an input
  int64_t planned_bytes = 0;    ///< the size of the memory that they share
  int64_t unplanned_bytes = 0;  ///< the size with separate memory for each result
  /// The most that the results which one step uses or keeps need together; planned_bytes is at
  /// least as large.
  int64_t liveness_bytes = 0;
};

}  // namespace tessera

#endif  // TESSERA_SYMBOL_MEMORY_PLAN_SUMMARY_H_
