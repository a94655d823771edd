#ifndef TESSERA_COMPAT_MXNET_CUSTOM_CUSTOM_OPERATOR_H_
#define TESSERA_COMPAT_MXNET_CUSTOM_CUSTOM_OPERATOR_H_

#include <string>

#include "tessera/compat/mxnet/core/callbacks.h"

namespace tessera::mxnet {

/// A client's function that describes an operator by the functions that it puts in `result`.
/// Returns 0 if it fails.
using CustomOpPropCreator = int (*)(const char* op_type, int num_parameters, const char** keys,
                                    const char** values, MXCallbackList* result);

/// Lets the operator "Custom" with that op_type be the one that the client describes, in place of
/// an earlier one. Thread-safe.
void RegisterCustomOperator(const std::string& op_type, CustomOpPropCreator creator);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CUSTOM_CUSTOM_OPERATOR_H_
