#include "tessera/symbol/run/fixed_values.h"

#include <unordered_map>
#include <utility>

namespace tessera::symbol_internal {

using graph::FixedValue;

FixedValues::FixedValues(const std::vector<FixedValue>& constants,
                         const std::vector<FixedValue>& parameters, Device device,
                         const std::function<NDArray(const std::string& name)>& array_of) {
  constants_ = AddValues(constants, device, array_of);
  std::unordered_map<std::string, NDArray> constant_arrays;
  for (size_t i = 0; i < constants.size(); ++i) {
    constant_arrays.emplace(constants[i].variable.node->name, arrays_[i]);
  }
  parameters_ = AddValues(parameters, device, [&](const std::string& name) {
    const auto constant = constant_arrays.find(name);
    if (constant != constant_arrays.end()) return constant->second;
    sources_.push_back({array_of(name)});
    return sources_.back().array;
  });
}

std::unique_ptr<Executor> FixedValues::AddValues(
    const std::vector<FixedValue>& values, Device device,
    const std::function<NDArray(const std::string& name)>& array_of) {
  if (values.empty()) return nullptr;
  std::vector<graph::NodeEntry> heads;
  for (const FixedValue& value : values) heads.push_back(value.value);
  const Symbol symbol(std::move(heads));
  BindArguments arrays;
  for (const std::string& name : symbol.ListArguments()) {
    arrays.arguments.push_back(array_of(name));
  }
  std::unique_ptr<Executor> executor = Bind(symbol, device, arrays);
  const std::vector<NDArray>& outputs = executor->outputs();
  arrays_.insert(arrays_.end(), outputs.begin(), outputs.end());
  return executor;
}

void FixedValues::Update() {
  if (constants_ != nullptr && !std::exchange(has_constants_, true)) constants_->Forward(false);
  if (parameters_ == nullptr) return;
  bool is_current = !sources_.empty();
  for (Source& source : sources_) {
    if (source.contents.AreOf(source.array)) continue;
    source.contents = ndarray_internal::ArrayContents(source.array);
    is_current = false;
  }
  if (!is_current) parameters_->Forward(false);
}

}  // namespace tessera::symbol_internal
