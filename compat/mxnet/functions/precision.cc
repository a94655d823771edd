// Graphs of mixed precision. Functions of MXNet's C API; see types.h.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/reduce_precision.h"
#include "tessera/compat/mxnet/core/symbols.h"

namespace tessera::mxnet {
namespace {

DType TypeOf(int number) {
  if (number >= 0 && number <= static_cast<int>(DType::kBFloat16)) {
    return static_cast<DType>(number);
  }
  throw InvalidArgument("reduced precision: ", number,
                        " is not the number of an element type, expected 0 to ",
                        static_cast<int>(DType::kBFloat16));
}

/// Takes the values of condition `i` from a list in which they lie one condition after another:
/// `ends` has where each begins, and the end.
std::vector<std::string> ValuesOf(size_t i, std::span<const int> ends, const char** values) {
  const int begin = ends[i], end = ends[i + 1];
  if (begin < 0 || end < begin) {
    throw InvalidArgument("reduced precision: values ", begin, " to ", end,
                          " of a condition, expected ascending positions");
  }
  return TextsOf(values == nullptr ? nullptr : values + begin, static_cast<size_t>(end - begin),
                 "param_vals");
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXReducePrecisionSymbol(
    SymbolHandle sym_handle, SymbolHandle* ret_sym_handle, uint32_t num_args,
    const int* arg_type_data, uint32_t num_ind_ptr, const int* ind_ptr, const int* target_dtype,
    const int cast_optional_params, const uint32_t num_target_dtype_op_names,
    const uint32_t num_fp32_op_names, const uint32_t num_widest_dtype_op_names,
    const uint32_t num_conditional_fp32_op_names, const uint32_t num_excluded_symbols,
    const uint32_t num_model_params, const char** target_dtype_op_names, const char** fp32_op_names,
    const char** widest_dtype_op_names, const char** conditional_fp32_op_names,
    const char** excluded_symbols, const char** conditional_param_names,
    const char** conditional_param_vals, const char** model_param_names, const char** arg_names) {
  return ApiCall([&] {
    NotNull(ret_sym_handle, "ret_sym_handle");
    PrecisionRules rules{
        .target = TypeOf(*NotNull(target_dtype, "target_dtype")),
        .target_ops = TextsOf(target_dtype_op_names, num_target_dtype_op_names, "target_dtype_ops"),
        .float32_ops = TextsOf(fp32_op_names, num_fp32_op_names, "fp32_ops"),
        .widest_ops = TextsOf(widest_dtype_op_names, num_widest_dtype_op_names, "widest_dtype_ops"),
        .excluded = TextsOf(excluded_symbols, num_excluded_symbols, "excluded_symbols"),
        .parameters = TextsOf(model_param_names, num_model_params, "model_param_names"),
        .casts_parameters = cast_optional_params != 0};
    const std::vector<std::string> names = TextsOf(arg_names, num_args, "arg_names");
    const std::span<const int> types = ListOf(arg_type_data, num_args, "arg_type_data");
    for (size_t i = 0; i < names.size(); ++i) rules.data.emplace(names[i], TypeOf(types[i]));
    const size_t num_conditions = num_conditional_fp32_op_names;
    const std::vector<std::string> ops =
        TextsOf(conditional_fp32_op_names, num_conditions, "conditional_fp32_ops");
    const std::vector<std::string> parameters =
        TextsOf(conditional_param_names, num_conditions, "param_names");
    const std::span<const int> ends = ListOf(ind_ptr, num_ind_ptr, "ind_ptr");
    if (num_conditions > 0 && ends.size() != num_conditions + 1) {
      throw tessera::InvalidArgument("reduced precision: ", ends.size(),
                                     " positions were given, expected ", num_conditions + 1,
                                     ", one more than conditions");
    }
    for (size_t i = 0; i < num_conditions; ++i) {
      rules.conditions.push_back(
          {ops[i], parameters[i], ValuesOf(i, ends, conditional_param_vals)});
    }
    *ret_sym_handle = AddSymbol(ReducePrecision(*SymbolOf(sym_handle), rules));
  });
}
