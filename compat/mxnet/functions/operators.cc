// The list of operators. Functions of MXNet's C API; see types.h.
#include "tessera/compat/mxnet/core/operators.h"

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"

namespace tessera::mxnet {
namespace {

void GetInfo(const void* creator, const char** name, const char** description, uint32_t* num_args,
             const char*** arg_names, const char*** arg_type_infos, const char*** arg_descriptions,
             const char** key_var_num_args, const char** return_type) {
  const ApiOperator& op = OperatorOf(creator);
  Results& results = Results::OfThread();
  *NotNull(name, "name") = op.name.c_str();
  *NotNull(description, "description") = op.description.c_str();
  *NotNull(num_args, "num_args") = static_cast<uint32_t>(op.argument_names.size());
  *NotNull(arg_names, "arg_names") = results.Keep(op.argument_names);
  *NotNull(arg_type_infos, "arg_type_infos") = results.Keep(op.argument_types);
  *NotNull(arg_descriptions, "arg_descriptions") = results.Keep(op.argument_descriptions);
  if (key_var_num_args != nullptr) *key_var_num_args = op.key_var_num_args.c_str();
  if (return_type != nullptr) *return_type = "";
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::NotFound;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXListAllOpNames(uint32_t* out_size, const char*** out_array) {
  return ApiCall([&] {
    *NotNull(out_size, "out_size") = static_cast<uint32_t>(OperatorNames().size());
    *NotNull(out_array, "out_array") = Results::OfThread().Keep(OperatorNames());
  });
}

TESSERA_MXNET_API int NNListAllOpNames(uint32_t* out_size, const char*** out_array) {
  return MXListAllOpNames(out_size, out_array);
}

TESSERA_MXNET_API int NNListUniqueOps(uint32_t* out_size, const char*** out_array) {
  return ApiCall([&] {
    *NotNull(out_size, "out_size") = static_cast<uint32_t>(UniqueOperatorNames().size());
    *NotNull(out_array, "out_array") = Results::OfThread().Keep(UniqueOperatorNames());
  });
}

TESSERA_MXNET_API int NNGetOpHandle(const char* op_name, void** op_out) {
  return ApiCall([&] {
    void* const handle = OperatorHandleOf(NotNull(op_name, "op_name"));
    if (handle == nullptr) throw NotFound("there is no operator \"", op_name, "\"");
    *NotNull(op_out, "op_out") = handle;
  });
}

TESSERA_MXNET_API int MXSymbolListAtomicSymbolCreators(uint32_t* out_size,
                                                       AtomicSymbolCreator** out_array) {
  return ApiCall([&] {
    *NotNull(out_size, "out_size") = static_cast<uint32_t>(UniqueOperatorHandles().size());
    *NotNull(out_array, "out_array") = const_cast<void**>(UniqueOperatorHandles().data());
  });
}

TESSERA_MXNET_API int MXSymbolGetAtomicSymbolName(AtomicSymbolCreator creator, const char** name) {
  return ApiCall([&] { *NotNull(name, "name") = OperatorOf(creator).name.c_str(); });
}

TESSERA_MXNET_API int MXSymbolGetAtomicSymbolInfo(
    AtomicSymbolCreator creator, const char** name, const char** description, uint32_t* num_args,
    const char*** arg_names, const char*** arg_type_infos, const char*** arg_descriptions,
    const char** key_var_num_args, const char** return_type) {
  return ApiCall([&] {
    GetInfo(creator, name, description, num_args, arg_names, arg_type_infos, arg_descriptions,
            key_var_num_args, return_type);
  });
}

TESSERA_MXNET_API int NNGetOpInfo(void* op, const char** real_name, const char** description,
                                  uint32_t* num_doc_args, const char*** arg_names,
                                  const char*** arg_type_infos, const char*** arg_descriptions,
                                  const char** return_type) {
  return ApiCall([&] {
    GetInfo(op, real_name, description, num_doc_args, arg_names, arg_type_infos, arg_descriptions,
            nullptr, return_type);
  });
}
