// Parts of graphs that another library runs. Functions of MXNet's C API; see types.h.
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/symbols.h"

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

/// Returns a copy of the graph for every name. There are no backends, and an executor optimizes its
/// graph anyway; MXNet, too, leaves a graph as it is for a backend that it does not have.
TESSERA_MXNET_API int MXOptimizeForBackend(
    SymbolHandle sym_handle, const char* backend_name, const int, SymbolHandle* ret_sym_handle,
    const uint32_t, NDArrayHandle*, const uint32_t, NDArrayHandle*, const uint32_t, const char**,
    const char**, const uint32_t, const char**, const int64_t*, const uint32_t*, const uint32_t,
    const char**, const int*, const uint32_t, const char**, const int*, bool, int* new_args_cnt,
    NDArrayHandle** new_args_handle, char*** new_arg_names_handle, int* new_aux_cnt,
    NDArrayHandle** new_aux_handle, char*** new_aux_names_handle) {
  return ApiCall([&] {
    NotNull(backend_name, "backend_name");
    NotNull(ret_sym_handle, "ret_sym_handle");
    *NotNull(new_args_cnt, "new_args_cnt") = 0;
    *NotNull(new_aux_cnt, "new_aux_cnt") = 0;
    *NotNull(new_args_handle, "new_args_handle") = nullptr;
    *NotNull(new_aux_handle, "new_aux_handle") = nullptr;
    *NotNull(new_arg_names_handle, "new_arg_names_handle") = nullptr;
    *NotNull(new_aux_names_handle, "new_aux_names_handle") = nullptr;
    *ret_sym_handle = AddSymbol(SymbolOf(sym_handle)->Copy());
  });
}

TESSERA_MXNET_API int MXGenBackendSubgraph(SymbolHandle sym_handle, const char* backend_name,
                                           SymbolHandle* ret_sym_handle) {
  return ApiCall([&] {
    NotNull(ret_sym_handle, "ret_sym_handle");
    const std::string_view name = NotNull(backend_name, "backend_name");
    // MKLDNN changes the speed of a graph alone, not what it computes.
    if (name != "MKLDNN") {
      throw tessera::NotFound("there is no subgraph backend \"", tessera::Excerpt(name),
                              "\", only MKLDNN, which leaves a graph as it is");
    }
    *ret_sym_handle = AddSymbol(SymbolOf(sym_handle)->Copy());
  });
}
