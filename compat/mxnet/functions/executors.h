#ifndef TESSERA_COMPAT_MXNET_FUNCTIONS_EXECUTORS_H_
#define TESSERA_COMPAT_MXNET_FUNCTIONS_EXECUTORS_H_

#include <atomic>
#include <memory>
#include <vector>

#include "tessera/compat/mxnet/core/exclusive_use.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// The object behind an executor's handle: an executor that may be called in any order, as MXNet's
/// may.
///
/// Threads: one call at a time runs an executor, or one of those that share its memory, sets a
/// monitor or makes another executor that shares the memory; a call that overlaps with it, or that
/// its monitor makes, throws Error(kFailedPrecondition) and changes nothing. Other calls, such as
/// those that return its arrays, may overlap with everything.
class ApiExecutor {
 public:
  /// `shared` is an executor whose memory this one shares, or null.
  ApiExecutor(Symbol symbol, std::shared_ptr<Executor> executor,
              const ApiExecutor* shared = nullptr);

  const std::shared_ptr<Executor>& executor() const { return executor_; }
  /// Returns the right to make an executor that shares the memory. Throws as the other calls do.
  ExclusiveUse Use() const;

  void Forward(bool is_train);
  /// Runs the executor's Backward. Before the first Forward it runs that in training mode; after
  /// another Backward it runs Forward again, unless the graph is random or has aux states. Head
  /// gradients beyond the outputs are ignored. Throws what Executor::Backward throws.
  void Backward(std::vector<NDArray> head_grads);
  /// Returns an executor of the same symbol for other shapes, which shares memory with this one.
  /// Shapes of names that are no inputs are ignored.
  ApiExecutor Reshape(ReshapeOptions options) const;

  /// Returns the bound graph, in which equal subexpressions are one unless the environment had
  /// MXNET_ELIMINATE_COMMON_EXPR=0 when it was bound.
  Symbol OptimizedSymbol() const;
  /// Calls `monitor` as Executor::SetMonitorCallback does, with MXNet's names.
  void SetMonitor(const MonitorCallback& monitor, bool monitor_all);

 private:
  enum class Results { kNone, kKept, kUsed };

  void Run(bool is_train);

  Symbol symbol_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<std::atomic<bool>> in_use_;  // of all executors that share memory
  bool merges_;                                // see OptimizedSymbol
  Results results_ = Results::kNone;
  bool last_is_train_ = true;
};

/// Returns whether the environment has MXNET_BACKWARD_DO_MIRROR with a number other than 0: graphs
/// that are bound or compiled then let their gradients recompute the results of cheap operators.
bool MirrorsBackward();

/// The handles of executors.
Handles<ApiExecutor>& Executors();

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_FUNCTIONS_EXECUTORS_H_
