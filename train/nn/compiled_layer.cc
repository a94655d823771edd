#include "tessera/train/nn/compiled_layer.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/symbol/symbol.h"

namespace tessera::nn_internal {

CompiledLayer::CompiledLayer(CachedOpOptions options) : options_(options) {
  if (options.max_signatures < 1) {
    throw InvalidArgument("Layer::Compile: max_signatures is ", options.max_signatures,
                          ", expected 1 or more");
  }
}

std::shared_ptr<const CompiledLayer::TracedLayer> CompiledLayer::Find(const Signature& signature) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(traced_.begin(), traced_.end(), [&](const auto& traced) {
    return traced->signature == signature;
  });
  if (found == traced_.end()) return nullptr;
  std::rotate(traced_.begin(), found, found + 1);
  return traced_.front();
}

void CompiledLayer::Add(std::shared_ptr<const TracedLayer> traced) {
  const std::lock_guard lock(mutex_);
  // Another thread may have traced the same call meanwhile; either graph will do.
  if (traced_.size() == static_cast<size_t>(options_.max_signatures)) traced_.pop_back();
  traced_.insert(traced_.begin(), std::move(traced));
}

std::vector<NDArray> CompiledLayer::Call(std::span<const NDArray> inputs, const Forward& forward) {
  Signature signature{.device = inputs[0].device(), .is_training = autograd::IsTraining()};
  for (const NDArray& input : inputs) {
    signature.shapes.push_back(input.shape());
    signature.types.push_back(input.dtype());
  }
  const std::shared_ptr<const TracedLayer> traced = Find(signature);
  if (traced == nullptr) return TraceCall(std::move(signature), inputs, forward);
  std::vector<NDArray> arguments;
  for (const InputSource& source : traced->sources) {
    if (const auto* const number = std::get_if<size_t>(&source)) {
      arguments.push_back(inputs[*number]);
    } else if (const auto* const parameter = std::get_if<nn::Parameter>(&source)) {
      arguments.push_back(parameter->Data(signature.device));
    } else {
      arguments.push_back(std::get<NDArray>(source));
    }
  }
  return traced->op(arguments);
}

std::vector<NDArray> CompiledLayer::TraceCall(Signature signature, std::span<const NDArray> inputs,
                                              const Forward& forward) {
  const bool was_recording = autograd::IsRecording();
  std::vector<NDArray> outputs;
  std::map<std::string, InputSource> sources;
  std::vector<graph::NodeEntry> heads;
  {
    LayerTrace trace;
    std::vector<NDArray> traced_inputs;
    for (const NDArray& input : inputs) traced_inputs.push_back(trace.Input(input));
    outputs = forward(traced_inputs);
    heads = trace.Finish(outputs, &sources);
  }
  CachedOp op((Symbol(std::move(heads))), options_);
  std::vector<InputSource> ordered;
  for (const std::string& name : op.input_names()) ordered.push_back(sources.at(name));
  Add(std::make_shared<const TracedLayer>(
      TracedLayer{std::move(signature), std::move(op), std::move(ordered)}));
  if (!was_recording) {
    for (NDArray& output : outputs) output = output.Detach();
  }
  return outputs;
}

}  // namespace tessera::nn_internal
