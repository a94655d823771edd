#include "tessera/symbol/run/node_executor.h"

#include <cstddef>
#include <utility>

#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/autograd.h"

namespace tessera::symbol_internal {

using ndarray_internal::ArrayAccess;

NodeExecutor::NodeExecutor(const Symbol& symbol, const std::map<std::string, NDArray>& arrays,
                           const std::map<std::string, Gradient>& gradients)
    : op_(symbol, {.node_by_node = true}) {
  for (const std::string& name : op_.input_names()) {
    // A handle of its own, so that the caller's array does not become a variable.
    inputs_.push_back(ArrayAccess::WithEntry(arrays.at(name), {}));
    const auto gradient = gradients.find(name);
    if (gradient == gradients.end() || gradient->second.req == kNullOp) continue;
    variables_.push_back(inputs_.back());
    gradients_.push_back(gradient->second);
    autograd::MarkVariables({&variables_.back(), 1}, {&gradients_.back().array, 1},
                            {&gradients_.back().req, 1});
  }
}

void NodeExecutor::Forward(bool is_train, const std::vector<NDArray>& outputs) {
  results_.clear();
  {
    const autograd::Scope scope(/*recording=*/!variables_.empty(), /*training=*/is_train);
    results_ = op_(inputs_);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    CopyFromTo(ArrayAccess::WithEntry(results_[i], {}), outputs[i]);
  }
}

void NodeExecutor::Backward(const std::vector<NDArray>& head_gradients) {
  std::vector<NDArray> heads, weights;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (ArrayAccess::Entry(results_[i]).node == nullptr) continue;  // it depends on no variable
    heads.push_back(results_[i]);
    weights.push_back(head_gradients[i]);
  }
  for (const NDArray& variable : variables_) autograd::SetGradientFresh(variable, false);
  if (!heads.empty()) autograd::Backward(heads, weights);
  for (size_t i = 0; i < variables_.size(); ++i) {
    if (gradients_[i].req == kAddTo || autograd::IsGradientFresh(variables_[i])) continue;
    gradients_[i].array = 0;
  }
  results_.clear();
}

void NodeExecutor::SetMonitor(CachedOp::Monitor monitor, bool all, MonitorNames names) {
  op_.SetMonitor(std::move(monitor), all, std::move(names));
}

}  // namespace tessera::symbol_internal
