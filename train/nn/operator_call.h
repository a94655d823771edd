#ifndef TESSERA_TRAIN_NN_OPERATOR_CALL_H_
#define TESSERA_TRAIN_NN_OPERATOR_CALL_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/base/tshape.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera::nn_internal {

/// Calls an operator by name and returns its first output.
inline NDArray CallOne(std::string_view op, std::initializer_list<NDArray> inputs,
                       const ParameterMap& parameters = {}) {
  return Invoke(op, inputs, parameters)[0];
}

/// Return the text of an operator's parameter.
inline std::string Text(bool value) { return value ? "True" : "False"; }
inline std::string Text(int value) { return std::to_string(value); }
inline std::string Text(index_t value) { return std::to_string(value); }
inline std::string Text(double value) { return ops_internal::ParameterText<double>::Print(value); }
inline std::string Text(const TShape& value) { return value.ToString(); }
std::string Text(const char*) = delete;

/// Throws Error(kInvalidArgument) unless low <= value, for the option `name` of a layer.
void RequireAtLeast(std::string_view layer, std::string_view name, index_t value, index_t low);

/// Throws Error(kInvalidArgument) unless the input of a layer has at least `rank`
/// dimensions.
void RequireRank(std::string_view layer, const NDArray& x, int rank);

}  // namespace tessera::nn_internal

#endif  // TESSERA_TRAIN_NN_OPERATOR_CALL_H_
