#ifndef TESSERA_GRAPH_PASSES_RECOMPUTE_H_
#define TESSERA_GRAPH_PASSES_RECOMPUTE_H_

#include <cstdint>
#include <string_view>

#include "tessera/graph/passes/memory_plan.h"
#include "tessera/graph/program.h"

namespace tessera::graph {

// Recomputation: a gradient that reads a result of a forward step need not have it stored. A copy
// of the step computes the result once more, right before the first gradient step that reads it.
//
// A step is copied if calling it again gives the same bits (OperatorProperty::IsRepeatable) and no
// other step writes what it reads. Random and synchronous steps, steps that compute a gradient or
// run a graph, and outputs of the program are therefore stored. A copy of BatchNorm does not change
// the moving averages (its requests for them are kNullOp). An output that has less than a 64th of
// the bytes of its step's largest one, such as a mean of each channel, is stored too.

/// Returns the setting TESSERA_RECOMPUTE, which is read at each call. Throws
/// Error(kInvalidArgument) for a value that is no bool.
bool RecomputationIsOn();

/// The forward results that RecomputeMarked recomputes.
enum class MarkedSteps {
  kByAttribute,  ///< those of nodes with the attribute `__force_mirroring__`: 1, true or True
  /// Also those of element-wise steps and of BatchNorm, which cost little time. One that would need
  /// a chain of more than four copies is stored.
  kCheapToo,
};

/// Lets the gradient recompute the results of marked steps. Linear time, and n log n for copies.
void RecomputeMarked(Program* program, MarkedSteps marked);

/// Lets the gradient recompute forward results until PlanMemory(program, sharing) takes at most
/// `budget_bytes`. Returns whether the program has changed: one that fits stays as it is.
///
/// The forward steps are cut into stages. What crosses a cut is stored, and the gradient recomputes
/// what else a stage has computed when it arrives there (Chen, Xu, Zhang and Guestrin, Training
/// Deep Nets with Sublinear Memory Cost, 2016). Stages end where few bytes cross, in a residual
/// network between blocks, at a single value. The results of a stage and what is stored before it
/// have together at most a size that bisection finds: that of the smallest plan. The last stage,
/// and as many of those before it as the budget allows, are stored whole.
///
/// Throws Error(kInvalidArgument), which begins with `caller`, names the option
/// memory_budget_bytes, the budget and the smallest plan, if that is larger than the budget. Makes
/// up to 30 plans.
bool FitMemoryBudget(Program* program, MemorySharing sharing, int64_t budget_bytes,
                     std::string_view caller);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_RECOMPUTE_H_
