// Gradients of imperative calls. Functions of MXNet's C API; see types.h.
#include "tessera/ndarray/autograd.h"

#include <span>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/ndarray/array_memory.h"
#include "tessera/ndarray/sparse.h"

namespace tessera::mxnet {
namespace {

/// Returns MXNet's gradient request of that number.
OpReqType RequestOf(uint32_t number) {
  if (number > static_cast<uint32_t>(kAddTo)) {
    throw InvalidArgument(number, " is not the number of a gradient request, expected 0 to 3");
  }
  return static_cast<OpReqType>(number);
}

void MarkVariables(uint32_t count, NDArrayHandle* variables, uint32_t* requests,
                   NDArrayHandle* gradients) {
  std::vector<OpReqType> req;
  for (const uint32_t number : ListOf(requests, count, "reqs_array")) {
    req.push_back(RequestOf(number));
  }
  autograd::MarkVariables(ArraysOf(variables, count, "var_handles"),
                          ArraysOf(gradients, count, "grad_handles"), req);
}

void Backward(uint32_t num_outputs, NDArrayHandle* outputs, NDArrayHandle* head_grads,
              uint32_t num_variables, NDArrayHandle* variables, bool retain_graph,
              bool create_graph, NDArrayHandle** gradients, int** storage_types) {
  const std::vector<NDArray> heads = ArraysOf(outputs, num_outputs, "output_handles");
  const std::vector<NDArray> given = head_grads == nullptr
                                         ? std::vector<NDArray>()
                                         : ArraysOf(head_grads, num_outputs, "ograd_handles", true);
  if (num_variables == 0) {
    autograd::Backward(heads, given, {.retain_graph = retain_graph});
    return;
  }
  NotNull(gradients, "grad_handles");
  const std::vector<NDArray> result =
      autograd::Grad(heads, ArraysOf(variables, num_variables, "var_handles"), given,
                     {.create_graph = create_graph, .retain_graph = retain_graph});
  *gradients = KeepHandles(result);
  if (storage_types != nullptr) {
    std::vector<int> types;
    for (const NDArray& gradient : result) {
      types.push_back(static_cast<int>(StorageTypeOf(gradient)));
    }
    *storage_types = Results::OfThread().Keep(std::move(types));
  }
}

}  // namespace
}  // namespace tessera::mxnet

namespace autograd = tessera::autograd;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXAutogradSetIsRecording(int is_recording, int* prev) {
  return ApiCall([&] {
    const bool before = autograd::SetRecording(is_recording != 0);
    if (prev != nullptr) *prev = before;
  });
}

TESSERA_MXNET_API int MXAutogradSetIsTraining(int is_training, int* prev) {
  return ApiCall([&] {
    const bool before = autograd::SetTraining(is_training != 0);
    if (prev != nullptr) *prev = before;
  });
}

TESSERA_MXNET_API int MXAutogradIsRecording(bool* curr) {
  return ApiCall([&] { *NotNull(curr, "curr") = autograd::IsRecording(); });
}

TESSERA_MXNET_API int MXAutogradIsTraining(bool* curr) {
  return ApiCall([&] { *NotNull(curr, "curr") = autograd::IsTraining(); });
}

TESSERA_MXNET_API int MXAutogradMarkVariables(uint32_t num_var, NDArrayHandle* var_handles,
                                              uint32_t* reqs_array, NDArrayHandle* grad_handles) {
  return ApiCall([&] { MarkVariables(num_var, var_handles, reqs_array, grad_handles); });
}

TESSERA_MXNET_API int MXAutogradComputeGradient(uint32_t num_output,
                                                NDArrayHandle* output_handles) {
  return ApiCall([&] {
    Backward(num_output, output_handles, nullptr, 0, nullptr, false, false, nullptr, nullptr);
  });
}

TESSERA_MXNET_API int MXAutogradBackward(uint32_t num_output, NDArrayHandle* output_handles,
                                         NDArrayHandle* ograd_handles, int retain_graph) {
  return ApiCall([&] {
    Backward(num_output, output_handles, ograd_handles, 0, nullptr, retain_graph != 0, false,
             nullptr, nullptr);
  });
}

TESSERA_MXNET_API int MXAutogradBackwardEx(uint32_t num_output, NDArrayHandle* output_handles,
                                           NDArrayHandle* ograd_handles, uint32_t num_variables,
                                           NDArrayHandle* var_handles, int retain_graph,
                                           int create_graph, int /*is_train*/,
                                           NDArrayHandle** grad_handles, int** grad_stypes) {
  return ApiCall([&] {
    Backward(num_output, output_handles, ograd_handles, num_variables, var_handles,
             retain_graph != 0, create_graph != 0, grad_handles, grad_stypes);
  });
}

TESSERA_MXNET_API int MXNDArraySetGradState(NDArrayHandle handle, int state) {
  return ApiCall([&] { autograd::SetGradientFresh(ArrayOf(handle), state != 0); });
}

TESSERA_MXNET_API int MXNDArrayGetGradState(NDArrayHandle handle, int* out) {
  return ApiCall([&] { *NotNull(out, "out") = autograd::IsGradientFresh(ArrayOf(handle)); });
}

TESSERA_MXNET_API int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle* out) {
  return ApiCall([&] {
    const tessera::NDArray array = ArrayOf(handle);
    const auto& entry = tessera::ndarray_internal::ArrayAccess::Entry(array);
    if (entry.node == nullptr) {
      throw tessera::FailedPrecondition("MXAutogradGetSymbol: the array is not on the tape");
    }
    NotNull(out, "out");
    *out = AddSymbol(tessera::Symbol({entry}).Copy());
  });
}
