#ifndef TESSERA_SYMBOL_CACHED_OP_H_
#define TESSERA_SYMBOL_CACHED_OP_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/symbol/memory_plan_summary.h"
#include "tessera/symbol/monitor_names.h"
#include "tessera/symbol/symbol.h"

namespace tessera {

namespace symbol_internal {
class CachedGraph;
}  // namespace symbol_internal

/// Options of CachedOp.
struct CachedOpOptions {
  /// Keeps the memory for intermediate results from call to call, instead of taking it from storage
  /// at each call. Calls on the same memory follow each other.
  bool static_alloc = false;
  /// Signatures whose compiled form is kept, at least 1; the least recently used one is dropped.
  int max_signatures = 64;
  /// Calls the operators one by one, without compiling. Graphs in which shapes depend on values,
  /// and those with an operator of Purity::kSynchronous, are always called so, and so are graphs
  /// that make sparse values and calls with inputs that are sparse or have sparse gradients.
  bool node_by_node = false;
  /// The most bytes that the plan of one call may take, with its gradient if the call is recorded
  /// (MemoryPlanSummary::planned_bytes), or 0 for no limit. The gradient recomputes forward results
  /// if the plan is larger otherwise, and a call throws if that is not enough; see BindArguments. A
  /// gradient that retains the graph takes more, and calls of operators one by one have no plan.
  int64_t memory_budget_bytes = 0;
  /// Lets gradients recompute results of cheap operators; see BindArguments.
  bool recomputes = false;
};

/// A symbol as a function of arrays, compiled once for each signature: the inputs' shapes, types
/// and device, the thread's modes (autograd::IsTraining), and which inputs need gradients.
///
///     const CachedOp net(symbol);
///     const NDArray y = net({data, weight, bias})[0];
///
/// Inputs are the symbol's variables, arguments and aux states together, in the order of a
/// depth-first walk from its outputs. Calls return at once with new arrays; outputs of the symbol
/// that are variables share memory with the inputs. Aux states are changed in training.
///
/// Outside of training and recording, weights of layers absorb BatchNorm. The new weights are kept
/// while calls have the same weights and statistics, and computed again after an operation was
/// pushed that writes one of them, or for other arrays; see Bind for memory that other code writes.
///
/// While the thread records, a call is one node of the tape, which keeps the memory that its
/// gradient needs until Backward has used it. A gradient of the gradient needs node_by_node.
///
/// Threads: calls may overlap, also on the same inputs.
class CachedOp {
 public:
  /// Throws Error(kInvalidArgument) for options that are out of range.
  explicit CachedOp(const Symbol& symbol, CachedOpOptions options = {});

  /// Calls the function. Throws Error(kInvalidArgument) that names the input or node if the number
  /// of inputs, a shape, a type or a device does not fit. Later errors are thrown by the first wait
  /// on an output.
  std::vector<NDArray> operator()(std::span<const NDArray> inputs) const;
  std::vector<NDArray> operator()(std::initializer_list<NDArray> inputs) const {
    return (*this)(std::span<const NDArray>(inputs.begin(), inputs.size()));
  }

  /// Compiles the function for these inputs, as a call in the thread's modes would, without running
  /// it. Returns the memory of a call's intermediate results: if calls are recorded, also of those
  /// of the gradient, unless Backward retains the graph. The gradient takes its part when it runs.
  /// All is 0 if operators are called one by one. Throws what a call throws at once.
  MemoryPlanSummary memory_plan(std::span<const NDArray> inputs) const;

  /// Is called with the name of a value, the name of its operator, and the value, in the thread
  /// that calls the CachedOp. The value may still be pending.
  using Monitor =
      std::function<void(const std::string& name, const std::string& op, const NDArray& value)>;

  /// Lets later calls report each operator's outputs, and before them its inputs if `all`, under
  /// `names`. Such calls run the operators one by one. An empty function ends that.
  void SetMonitor(Monitor monitor, bool all, MonitorNames names = {});

  /// Returns the names of the inputs, in order.
  const std::vector<std::string>& input_names() const;
  /// Returns the number of signatures that are compiled now.
  int num_signatures() const;

 private:
  std::shared_ptr<symbol_internal::CachedGraph> graph_;  // also held by calls on the tape
};

}  // namespace tessera

#endif  // TESSERA_SYMBOL_CACHED_OP_H_
