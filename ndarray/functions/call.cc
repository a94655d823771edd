#include "tessera/ndarray/functions/call.h"

#include <span>

#include "tessera/ndarray/imperative.h"

namespace tessera::ndarray_internal {
namespace {

std::vector<NDArray> WithoutNone(std::initializer_list<const NDArray*> inputs) {
  std::vector<NDArray> given;
  given.reserve(inputs.size());
  for (const NDArray* const input : inputs) {
    if (!input->is_none()) given.push_back(*input);
  }
  return given;
}

}  // namespace

NDArray CallForOne(std::string_view op, const std::vector<NDArray>& inputs,
                   const ParameterMap& parameters, const NDArray& out) {
  if (out.is_none()) return Invoke(op, inputs, parameters).at(0);
  Invoke(op, inputs, std::span(&out, 1), parameters);
  return out;
}

ops::Outputs CallForAll(std::string_view op, const std::vector<NDArray>& inputs,
                        const ParameterMap& parameters, const std::vector<NDArray>& out) {
  if (out.empty()) return ops::Outputs(Invoke(op, inputs, parameters));
  Invoke(op, inputs, std::span<const NDArray>(out), parameters);
  return ops::Outputs(out);
}

NDArray CallForOne(std::string_view op, std::initializer_list<const NDArray*> inputs,
                   const ParameterMap& parameters, const NDArray& out) {
  return CallForOne(op, WithoutNone(inputs), parameters, out);
}

ops::Outputs CallForAll(std::string_view op, std::initializer_list<const NDArray*> inputs,
                        const ParameterMap& parameters, const std::vector<NDArray>& out) {
  return CallForAll(op, WithoutNone(inputs), parameters, out);
}

}  // namespace tessera::ndarray_internal
