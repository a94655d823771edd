#include "tessera/train/nn/layer.h"

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/train/nn/compiled_layer.h"
#include "tessera/train/nn/layer_trace.h"

namespace tessera::nn {

Layer::Layer() = default;
Layer::~Layer() = default;
Layer::Layer(Layer&&) noexcept = default;
Layer& Layer::operator=(Layer&&) noexcept = default;

std::vector<NDArray> Layer::Call(std::span<const NDArray> inputs) const {
  if (inputs.empty()) throw InvalidArgument("Layer::Call: no inputs, expected at least one");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_none()) {
      throw InvalidArgument("Layer::Call: input ", i, " is no array (is_none())");
    }
  }
  if (compiled_ == nullptr || nn_internal::LayerTrace::Current() != nullptr) {
    return ForwardAll(inputs);
  }
  return compiled_->Call(inputs,
                         [this](std::span<const NDArray> arrays) { return ForwardAll(arrays); });
}

void Layer::Initialize(std::shared_ptr<const Initializer> initializer,
                       const InitializeOptions& options) {
  if (initializer == nullptr) {
    throw InvalidArgument("Layer::Initialize: the initializer is null");
  }
  for (const NamedParameter& named : Parameters()) {
    named.parameter.Initialize(named.name, initializer, options);
  }
}

std::vector<NamedParameter> Layer::Parameters() const {
  std::vector<NamedParameter> all;
  AppendParameters("", &all);
  return all;
}

void Layer::AppendParameters(const std::string& prefix, std::vector<NamedParameter>* all) const {
  for (const NamedParameter& own : parameters_) all->push_back({prefix + own.name, own.parameter});
  for (const NamedLayer& child : layers_) {
    child.layer->AppendParameters(prefix + child.name + ".", all);
  }
}

void Layer::Compile(CachedOpOptions options) {
  compiled_ = std::make_unique<nn_internal::CompiledLayer>(options);
}

void Layer::RequireNewName(const std::string& name) const {
  const auto has_name = [&name](const auto& named) { return named.name == name; };
  if (std::any_of(parameters_.begin(), parameters_.end(), has_name) ||
      std::any_of(layers_.begin(), layers_.end(), has_name)) {
    throw InvalidArgument("Layer: two parts are called ", Excerpt(name),
                          ", expected names that differ");
  }
}

Parameter Layer::AddParameter(std::string name, ParameterOptions options) {
  RequireNewName(name);
  Parameter parameter(name, std::move(options));
  parameters_.push_back({std::move(name), parameter});
  return parameter;
}

void Layer::Register(std::string name, std::shared_ptr<Layer> layer) {
  RequireNewName(name);
  if (layer == nullptr) throw InvalidArgument("Layer: the layer ", Excerpt(name), " is null");
  layers_.push_back({std::move(name), std::move(layer)});
}

std::vector<NDArray> UnaryLayer::ForwardAll(std::span<const NDArray> inputs) const {
  if (inputs.size() != 1) {
    throw InvalidArgument("UnaryLayer: ", inputs.size(), " inputs were given, expected 1");
  }
  return {Forward(inputs[0])};
}

}  // namespace tessera::nn
