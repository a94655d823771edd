#include "tessera/train/nn/layer_trace.h"

#include <utility>

namespace tessera::nn_internal {
namespace {

thread_local LayerTrace* current_trace = nullptr;

}  // namespace

LayerTrace::LayerTrace() { current_trace = this; }

LayerTrace::~LayerTrace() { current_trace = nullptr; }

LayerTrace* LayerTrace::Current() { return current_trace; }

std::string LayerTrace::NewName(std::string name) const {
  while (sources_.contains(name)) name += "_";
  return name;
}

NDArray LayerTrace::Input(const NDArray& array) {
  const std::string name = NewName("data" + std::to_string(num_inputs_));
  const NDArray input = trace_.Input(array, name);
  sources_.emplace(name, num_inputs_++);
  return input;
}

NDArray LayerTrace::Use(const nn::Parameter& parameter, const NDArray& array) {
  for (const UsedParameter& used : parameters_) {
    if (used.parameter == parameter) return used.array;
  }
  const std::string name = NewName(parameter.name());
  const NDArray input = trace_.Input(array, name);
  sources_.emplace(name, parameter);
  parameters_.push_back({parameter, input});
  return input;
}

std::vector<graph::NodeEntry> LayerTrace::Finish(std::span<const NDArray> outputs,
                                                 std::map<std::string, InputSource>* sources) {
  TracedGraph traced = trace_.Finish(outputs);
  for (NamedArray& constant : traced.constants) {
    sources_.emplace(std::move(constant.name), std::move(constant.array));
  }
  *sources = std::move(sources_);
  return std::move(traced.outputs);
}

}  // namespace tessera::nn_internal
