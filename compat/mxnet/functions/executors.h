#ifndef TESSERA_COMPAT_MXNET_FUNCTIONS_EXECUTORS_H_
#define TESSERA_COMPAT_MXNET_FUNCTIONS_EXECUTORS_H_

#include <memory>
#include <vector>

#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// The object behind an executor's handle: an executor that may be called in any order, as MXNet's
/// may. Threads: as Executor.
class ApiExecutor {
 public:
  ApiExecutor(Symbol symbol, std::shared_ptr<Executor> executor);

  const std::shared_ptr<Executor>& executor() const { return executor_; }

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
  /// Calls `monitor` as Executor::SetMonitorCallback does, with MXNet's names: "act_input0" for the
  /// input of an operator whose inputs have no names there.
  void SetMonitor(const MonitorCallback& monitor, bool monitor_all);

 private:
  enum class Results { kNone, kKept, kUsed };

  Symbol symbol_;
  std::shared_ptr<Executor> executor_;
  bool merges_;  // see OptimizedSymbol
  Results results_ = Results::kNone;
  bool last_is_train_ = true;
};

/// The handles of executors.
Handles<ApiExecutor>& Executors();

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_FUNCTIONS_EXECUTORS_H_
