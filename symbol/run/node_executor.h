#ifndef TESSERA_SYMBOL_RUN_NODE_EXECUTOR_H_
#define TESSERA_SYMBOL_RUN_NODE_EXECUTOR_H_

#include <map>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/operator.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/monitor_names.h"
#include "tessera/symbol/symbol.h"

namespace tessera::symbol_internal {

/// Runs a symbol on fixed arrays by calling its operators one by one, in place of a program: for
/// sparse arrays, whose sizes only values tell. The tape computes gradients.
///
/// Threads: one thread at a time calls it.
class NodeExecutor {
 public:
  /// A gradient that Backward computes.
  struct Gradient {
    NDArray array;
    OpReqType req = kNullOp;
  };

  /// Takes the arrays of the symbol's variables, and the gradients of those that have one, by name.
  NodeExecutor(const Symbol& symbol, const std::map<std::string, NDArray>& arrays,
               const std::map<std::string, Gradient>& gradients);

  /// Calls the operators and copies their results to `outputs`, one for each of the symbol's.
  void Forward(bool is_train, const std::vector<NDArray>& outputs);
  /// Computes the gradients of the last Forward. An output whose head gradient is_none() weighs 1.
  /// Requires: called at most once after each Forward.
  void Backward(const std::vector<NDArray>& head_gradients);
  /// See CachedOp::SetMonitor. The gradient's operators are not reported.
  void SetMonitor(CachedOp::Monitor monitor, bool all, MonitorNames names);

 private:
  CachedOp op_;
  std::vector<NDArray> inputs_;        // of op_, in its order; variables of the tape
  std::vector<NDArray> variables_;     // those of them that have a gradient
  std::vector<Gradient> gradients_;    // theirs
  std::vector<NDArray> results_ = {};  // of the last Forward, on the tape
};

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_RUN_NODE_EXECUTOR_H_
