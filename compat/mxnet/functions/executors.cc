#include "tessera/compat/mxnet/functions/executors.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tessera/compat/mxnet/core/monitor_names.h"
#include "tessera/compat/mxnet/functions/ignored_names.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/common_subexpressions.h"

namespace tessera::mxnet {
namespace {

bool MergesCommonSubexpressions() {
  const char* const value = std::getenv("MXNET_ELIMINATE_COMMON_EXPR");
  return value == nullptr || std::string_view(value) != "0";
}

/// Returns whether running the graph twice gives the results of running it once.
bool IsRepeatable(const Symbol& symbol) {
  const graph::IndexedGraph graph(symbol.outputs());
  return std::all_of(graph.nodes().begin(), graph.nodes().end(), [](const graph::Node* node) {
    return node->is_variable() || node->property->purity() == Purity::kPure;
  });
}

}  // namespace

bool MirrorsBackward() {
  const char* const value = std::getenv("MXNET_BACKWARD_DO_MIRROR");
  return value != nullptr && std::atoi(value) != 0;
}

Handles<ApiExecutor>& Executors() {
  static auto* const executors = new Handles<ApiExecutor>("an Executor", 4);
  return *executors;
}

ApiExecutor::ApiExecutor(Symbol symbol, std::shared_ptr<Executor> executor,
                         const ApiExecutor* shared)
    : symbol_(std::move(symbol)),
      executor_(std::move(executor)),
      in_use_(shared == nullptr ? std::make_shared<std::atomic<bool>>(false) : shared->in_use_),
      merges_(MergesCommonSubexpressions()) {}

ExclusiveUse ApiExecutor::Use() const {
  return ExclusiveUse(in_use_.get(),
                      "the Executor, or one that shares its memory, runs in another call; expected "
                      "calls that follow each other, or an executor for each thread");
}

void ApiExecutor::Forward(bool is_train) {
  const ExclusiveUse use = Use();
  Run(is_train);
}

void ApiExecutor::Run(bool is_train) {
  results_ = Results::kNone;
  executor_->Forward(is_train);
  results_ = Results::kKept;
  last_is_train_ = is_train;
}

void ApiExecutor::Backward(std::vector<NDArray> head_grads) {
  const ExclusiveUse use = Use();
  const size_t num_outputs = executor_->outputs().size();
  if (head_grads.size() > num_outputs) head_grads.resize(num_outputs);
  if (results_ == Results::kNone) {
    Run(/*is_train=*/true);
  } else if (results_ == Results::kUsed && IsRepeatable(symbol_)) {
    Run(last_is_train_);
  }
  executor_->Backward(head_grads);
  results_ = Results::kUsed;
}

ApiExecutor ApiExecutor::Reshape(ReshapeOptions options) const {
  IgnoredNames ignored(symbol_);
  ignored.RemoveFrom(&options.shapes);
  const ExclusiveUse use = Use();
  return ApiExecutor(symbol_, ignored.Run([&] { return executor_->Reshape(options); }), this);
}

Symbol ApiExecutor::OptimizedSymbol() const {
  return merges_ ? Symbol(graph::MergeCommonSubexpressions(symbol_.outputs())) : symbol_;
}

void ApiExecutor::SetMonitor(const MonitorCallback& monitor, bool monitor_all) {
  const ExclusiveUse use = Use();
  executor_->SetMonitorCallback(monitor, monitor_all, ExecutorNames());
}

}  // namespace tessera::mxnet
