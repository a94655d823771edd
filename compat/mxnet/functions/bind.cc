// Executors that are bound. Functions of MXNet's C API; see types.h.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/extents.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/compat/mxnet/functions/executors.h"
#include "tessera/compat/mxnet/functions/ignored_names.h"
#include "tessera/ops/sparse.h"

namespace tessera::mxnet {

namespace {

std::map<std::string, Device> Groups(uint32_t count, const char** names, const int* types,
                                     const int* ids) {
  std::map<std::string, Device> groups;
  const std::vector<std::string> keys = TextsOf(names, count, "map_keys");
  ListOf(types, count, "map_dev_types");
  ListOf(ids, count, "map_dev_ids");
  for (size_t i = 0; i < keys.size(); ++i) groups[keys[i]] = DeviceOf(types[i], ids[i]);
  return groups;
}

OpReqType RequestOf(uint32_t number) {
  if (number > static_cast<uint32_t>(kAddTo)) {
    throw InvalidArgument(number, " is not the number of a gradient request, expected 0 to 3");
  }
  return static_cast<OpReqType>(number);
}

OpReqType RequestOf(const std::string& text) {
  if (text == "null") return kNullOp;
  if (text == "write") return kWriteTo;
  if (text == "add") return kAddTo;
  throw InvalidArgument("\"", text, "\" is no gradient request, expected null, write or add");
}

/// An executor whose memory a new one shares, or none for a null handle. No other call runs it
/// meanwhile.
class SharedExecutor {
 public:
  explicit SharedExecutor(ExecutorHandle handle) {
    if (handle == nullptr) return;
    shared_ = Executors().Get(handle);
    use_.emplace(shared_->Use());
  }

  const Executor* executor() const {
    return shared_ == nullptr ? nullptr : shared_->executor().get();
  }
  /// Returns the handle of a new executor.
  ExecutorHandle Add(const Symbol& symbol, std::shared_ptr<Executor> executor) const {
    return Executors().Add(ApiExecutor(symbol, std::move(executor), shared_.get()));
  }

 private:
  std::shared_ptr<ApiExecutor> shared_;
  std::optional<ExclusiveUse> use_;
};

ExecutorHandle BindArrays(SymbolHandle handle, Device device,
                          const std::map<std::string, Device>& groups, uint32_t count,
                          NDArrayHandle* arguments, NDArrayHandle* gradients, uint32_t* requests,
                          uint32_t num_aux, NDArrayHandle* aux_states, ExecutorHandle shared) {
  const Symbol symbol = *SymbolOf(handle);
  const SharedExecutor shared_executor(shared);
  BindArguments arrays;
  arrays.arguments = ArraysOf(arguments, count, "in_args");
  if (gradients != nullptr) {
    arrays.gradients = ArraysOf(gradients, count, "arg_grad_store", /*null_is_none=*/true);
  }
  if (requests != nullptr) {
    for (const uint32_t request : std::span(requests, count)) {
      arrays.grad_requests.push_back(RequestOf(request));
    }
  }
  arrays.aux_states = ArraysOf(aux_states, num_aux, "aux_states");
  arrays.group2ctx = groups;
  arrays.shared_executor = shared_executor.executor();
  arrays.recomputes = MirrorsBackward();
  return shared_executor.Add(symbol, Bind(symbol, device, arrays));
}

/// Arrays that executors of different shapes share by name.
class SharedBuffer {
 public:
  SharedBuffer(int count, const char** names, NDArrayHandle* arrays) : is_used_(count >= 0) {
    if (!is_used_) return;
    const auto size = static_cast<size_t>(count);
    const std::vector<std::string> keys = TextsOf(names, size, "shared_buffer_name_list");
    const std::vector<NDArray> given = ArraysOf(arrays, size, "shared_buffer_handle_list");
    for (size_t i = 0; i < size; ++i) arrays_[keys[i]] = given[i];
  }

  bool is_used() const { return is_used_; }
  const std::map<std::string, NDArray>& arrays() const { return arrays_; }

  /// Returns an array of that name, over shared memory if there is any that is large enough.
  NDArray Take(const std::string& name, const TShape& shape, Device device, DType type) {
    const auto found = arrays_.find(name);
    if (found != arrays_.end() && found->second.dtype() == type &&
        found->second.device() == device && found->second.shape().Size() >= shape.Size()) {
      const NDArray flat = found->second.Reshape(TShape{-1});
      return flat.Slice(0, shape.Size()).Reshape(shape);
    }
    NDArray made(shape, device, type);
    made = 0.0f;
    arrays_[name] = made;
    return made;
  }

 private:
  const bool is_used_;
  std::map<std::string, NDArray> arrays_;
};

/// The arguments of a simple_bind, in the types of Tessera.
struct SimpleBindCall {
  SimpleBindOptions options;
  std::vector<std::string> shared_arguments;
  const SharedExecutor& shared_executor;
};

/// Sets the gradient requests. Arguments that are not named have no gradient.
void PutRequests(const std::vector<std::string>& arguments, uint32_t count, const char** names,
                 const char** types, SimpleBindOptions* options) {
  options->grad_req = kNullOp;
  if (types == nullptr) return;
  if (count == 0) {
    options->grad_req = RequestOf(std::string(NotNull(types[0], "provided_grad_req_types[0]")));
    return;
  }
  const std::vector<std::string> texts = TextsOf(types, count, "provided_grad_req_types");
  if (names == nullptr && count != arguments.size()) {
    throw InvalidArgument("simple_bind: ", count, " gradient requests were given for ",
                          arguments.size(), " arguments");
  }
  const std::vector<std::string> keys =
      names == nullptr ? arguments : TextsOf(names, count, "provided_grad_req_names");
  const std::set<std::string_view> known(arguments.begin(), arguments.end());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!known.contains(keys[i])) continue;
    options->grad_requests[keys[i]] = RequestOf(texts[i]);
  }
}

/// Binds a symbol to new arrays. With a buffer, arguments that are named as shared, and aux states,
/// are those of the shared executor, and the other arguments come from the buffer.
std::shared_ptr<Executor> BindSimply(const Symbol& symbol, Device device, SimpleBindCall call,
                                     SharedBuffer* buffer) {
  SimpleBindOptions& options = call.options;
  IgnoredNames ignored(symbol);
  ignored.RemoveFrom(&options.shapes);
  ignored.RemoveFrom(&options.types);
  ignored.RemoveFrom(&options.storage_types);
  options.recomputes = MirrorsBackward();
  const auto bind = [&] {
    return ignored.Run([&] { return SimpleBind(symbol, device, options); });
  };
  if (!buffer->is_used()) return bind();
  const std::set<std::string_view> shared(call.shared_arguments.begin(),
                                          call.shared_arguments.end());
  if (call.shared_executor.executor() != nullptr) {
    options.shared_executor = call.shared_executor.executor();
    for (const std::string& input : symbol.ListInputs()) {
      if (shared.contains(input)) options.shared_arguments.push_back(input);
    }
  }
  options.allocate = [&](const std::string& name, const TShape& shape, Device on, DType type) {
    if (shared.contains(name)) return NDArray();
    return buffer->Take(name, shape, on, type);
  };
  return bind();
}

/// Returns the storage types of arguments, except those of number -1, which are not known.
std::map<std::string, StorageType> StorageTypesOf(uint32_t count, const char** names,
                                                  const int* numbers) {
  std::map<std::string, StorageType> types;
  const std::vector<std::string> keys = TextsOf(names, count, "provided_arg_stype_names");
  ListOf(numbers, count, "provided_arg_stypes");
  for (size_t i = 0; i < keys.size(); ++i) {
    if (numbers[i] < -1 || numbers[i] > static_cast<int>(StorageType::kCsr)) {
      throw InvalidArgument("simple_bind: ", numbers[i], " is not the number of a storage type, ",
                            "expected 0 (default), 1 (row_sparse) or 2 (csr)");
    }
    if (numbers[i] != -1) types[keys[i]] = static_cast<StorageType>(numbers[i]);
  }
  return types;
}

template <typename Extent>
std::map<std::string, TShape> ShapesOf(uint32_t count, const char** names, const Extent* extents,
                                       const uint32_t* offsets, const char* function) {
  std::map<std::string, TShape> shapes;
  const std::vector<std::string> keys = TextsOf(names, count, "provided_arg_shape_names");
  ListOf(offsets, count, "provided_arg_shape_idx");
  for (size_t i = 0; i < keys.size(); ++i) {
    shapes[keys[i]] = ShapeFromApi(function, extents, offsets, i);
  }
  return shapes;
}

/// Returns an executor's arrays as clients read them: a null handle stands for no gradient.
void PutArrays(const Executor& executor, uint32_t* num_arguments, NDArrayHandle** arguments,
               NDArrayHandle** gradients, uint32_t* num_aux, NDArrayHandle** aux_states) {
  *NotNull(num_arguments, "num_in_args") = static_cast<uint32_t>(executor.arg_arrays().size());
  NotNull(arguments, "in_args");
  *arguments = KeepHandles(executor.arg_arrays());
  std::vector<NDArrayHandle> handles;
  for (const NDArray& gradient : executor.grad_arrays()) {
    handles.push_back(gradient.is_none() ? nullptr : Arrays().Add(gradient));
  }
  *NotNull(gradients, "arg_grads") = Results::OfThread().Keep(std::move(handles));
  *NotNull(num_aux, "num_aux_states") = static_cast<uint32_t>(executor.aux_arrays().size());
  NotNull(aux_states, "aux_states");
  *aux_states = KeepHandles(executor.aux_arrays());
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXExecutorBind(SymbolHandle symbol_handle, int dev_type, int dev_id,
                                     uint32_t len, NDArrayHandle* in_args,
                                     NDArrayHandle* arg_grad_store, uint32_t* grad_req_type,
                                     uint32_t aux_states_len, NDArrayHandle* aux_states,
                                     ExecutorHandle* out) {
  return ApiCall([&] {
    *NotNull(out, "out") =
        BindArrays(symbol_handle, DeviceOf(dev_type, dev_id), {}, len, in_args, arg_grad_store,
                   grad_req_type, aux_states_len, aux_states, nullptr);
  });
}

TESSERA_MXNET_API int MXExecutorBindX(SymbolHandle symbol_handle, int dev_type, int dev_id,
                                      uint32_t num_map_keys, const char** map_keys,
                                      const int* map_dev_types, const int* map_dev_ids,
                                      uint32_t len, NDArrayHandle* in_args,
                                      NDArrayHandle* arg_grad_store, uint32_t* grad_req_type,
                                      uint32_t aux_states_len, NDArrayHandle* aux_states,
                                      ExecutorHandle* out) {
  return ApiCall([&] {
    *NotNull(out, "out") =
        BindArrays(symbol_handle, DeviceOf(dev_type, dev_id),
                   Groups(num_map_keys, map_keys, map_dev_types, map_dev_ids), len, in_args,
                   arg_grad_store, grad_req_type, aux_states_len, aux_states, nullptr);
  });
}

TESSERA_MXNET_API int MXExecutorBindEX(SymbolHandle symbol_handle, int dev_type, int dev_id,
                                       uint32_t num_map_keys, const char** map_keys,
                                       const int* map_dev_types, const int* map_dev_ids,
                                       uint32_t len, NDArrayHandle* in_args,
                                       NDArrayHandle* arg_grad_store, uint32_t* grad_req_type,
                                       uint32_t aux_states_len, NDArrayHandle* aux_states,
                                       ExecutorHandle shared_exec, ExecutorHandle* out) {
  return ApiCall([&] {
    *NotNull(out, "out") =
        BindArrays(symbol_handle, DeviceOf(dev_type, dev_id),
                   Groups(num_map_keys, map_keys, map_dev_types, map_dev_ids), len, in_args,
                   arg_grad_store, grad_req_type, aux_states_len, aux_states, shared_exec);
  });
}

// Three functions with one meaning and different types of extents.
#define TESSERA_SIMPLE_BIND(function, Extent)                                                     \
  TESSERA_MXNET_API int function(                                                                 \
      SymbolHandle symbol_handle, int dev_type, int dev_id, const uint32_t num_g2c_keys,          \
      const char** g2c_keys, const int* g2c_dev_types, const int* g2c_dev_ids,                    \
      const uint32_t provided_grad_req_list_len, const char** provided_grad_req_names,            \
      const char** provided_grad_req_types, const uint32_t num_provided_arg_shapes,               \
      const char** provided_arg_shape_names, const Extent* provided_arg_shape_data,               \
      const uint32_t* provided_arg_shape_idx, const uint32_t num_provided_arg_dtypes,             \
      const char** provided_arg_dtype_names, const int* provided_arg_dtypes,                      \
      const uint32_t num_provided_arg_stypes, const char** provided_arg_stype_names,              \
      const int* provided_arg_stypes, const uint32_t num_shared_arg_names,                        \
      const char** shared_arg_name_list, int* shared_buffer_len,                                  \
      const char** shared_buffer_name_list, NDArrayHandle* shared_buffer_handle_list,             \
      const char*** updated_shared_buffer_name_list,                                              \
      NDArrayHandle** updated_shared_buffer_handle_list, uint32_t* num_in_args,                   \
      NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,               \
      NDArrayHandle** aux_states, ExecutorHandle shared_exec_handle, ExecutorHandle* out) {       \
    return ApiCall([&] {                                                                          \
      const tessera::Symbol symbol = *SymbolOf(symbol_handle);                                    \
      const SharedExecutor shared_executor(shared_exec_handle);                                   \
      SimpleBindCall call = {{}, {}, shared_executor};                                            \
      call.options.shapes = ShapesOf(num_provided_arg_shapes, provided_arg_shape_names,           \
                                     provided_arg_shape_data, provided_arg_shape_idx, #function); \
      const auto type_names =                                                                     \
          TextsOf(provided_arg_dtype_names, num_provided_arg_dtypes, "provided_arg_dtype_names"); \
      ListOf(provided_arg_dtypes, num_provided_arg_dtypes, "provided_arg_dtypes");                \
      for (size_t i = 0; i < type_names.size(); ++i) {                                            \
        call.options.types[type_names[i]] = TypeOf(provided_arg_dtypes[i]);                       \
      }                                                                                           \
      call.options.storage_types =                                                                \
          StorageTypesOf(num_provided_arg_stypes, provided_arg_stype_names, provided_arg_stypes); \
      PutRequests(symbol.ListArguments(), provided_grad_req_list_len, provided_grad_req_names,    \
                  provided_grad_req_types, &call.options);                                        \
      call.shared_arguments =                                                                     \
          TextsOf(shared_arg_name_list, num_shared_arg_names, "shared_arg_name_list");            \
      call.options.group2ctx = Groups(num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids);        \
      SharedBuffer buffer(*NotNull(shared_buffer_len, "shared_buffer_len"),                       \
                          shared_buffer_name_list, shared_buffer_handle_list);                    \
      FinishSimpleBind(symbol, DeviceOf(dev_type, dev_id), call, &buffer, shared_buffer_len,      \
                       updated_shared_buffer_name_list, updated_shared_buffer_handle_list,        \
                       num_in_args, in_args, arg_grads, num_aux_states, aux_states, out);         \
    });                                                                                           \
  }

namespace tessera::mxnet {
namespace {

void FinishSimpleBind(const Symbol& symbol, Device device, SimpleBindCall call,
                      SharedBuffer* buffer, int* buffer_size, const char*** buffer_names,
                      NDArrayHandle** buffer_handles, uint32_t* num_arguments,
                      NDArrayHandle** arguments, NDArrayHandle** gradients, uint32_t* num_aux,
                      NDArrayHandle** aux_states, ExecutorHandle* out) {
  NotNull(out, "out");
  const SharedExecutor& shared_executor = call.shared_executor;
  const std::shared_ptr<Executor> executor = BindSimply(symbol, device, std::move(call), buffer);
  PutArrays(*executor, num_arguments, arguments, gradients, num_aux, aux_states);
  if (buffer->is_used()) {
    std::vector<std::string> names;
    std::vector<NDArray> arrays;
    for (const auto& [name, array] : buffer->arrays()) {
      names.push_back(name);
      arrays.push_back(array);
    }
    *buffer_size = static_cast<int>(names.size());
    *NotNull(buffer_names, "updated_shared_buffer_name_list") =
        Results::OfThread().Keep(std::move(names));
    NotNull(buffer_handles, "updated_shared_buffer_handle_list");
    *buffer_handles = KeepHandles(arrays);
  }
  *out = buffer->is_used() ? shared_executor.Add(symbol, executor)
                           : Executors().Add(ApiExecutor(symbol, executor));
}

template <typename Extent>
void Reshape(const char* function, bool partial_shaping, bool allow_up_sizing, uint32_t count,
             const char** names, const Extent* extents, const uint32_t* offsets,
             uint32_t* num_arguments, NDArrayHandle** arguments, NDArrayHandle** gradients,
             uint32_t* num_aux, NDArrayHandle** aux_states, ExecutorHandle handle,
             ExecutorHandle* out) {
  NotNull(out, "out");
  ApiExecutor executor = Executors().Get(handle)->Reshape(
      {.shapes = ShapesOf(count, names, extents, offsets, function),
       .partial_shaping = partial_shaping,
       .allow_up_sizing = allow_up_sizing});
  PutArrays(*executor.executor(), num_arguments, arguments, gradients, num_aux, aux_states);
  *out = Executors().Add(std::move(executor));
}

}  // namespace
}  // namespace tessera::mxnet

TESSERA_SIMPLE_BIND(MXExecutorSimpleBind, uint32_t)
TESSERA_SIMPLE_BIND(MXExecutorSimpleBindEx, int)
TESSERA_SIMPLE_BIND(MXExecutorSimpleBindEx64, int64_t)
#undef TESSERA_SIMPLE_BIND

TESSERA_MXNET_API int MXExecutorReshape(
    int partial_shaping, int allow_up_sizing, int, int, uint32_t, const char**, const int*,
    const int*, const uint32_t num_provided_arg_shapes, const char** provided_arg_shape_names,
    const uint32_t* provided_arg_shape_data, const uint32_t* provided_arg_shape_idx,
    uint32_t* num_in_args, NDArrayHandle** in_args, NDArrayHandle** arg_grads,
    uint32_t* num_aux_states, NDArrayHandle** aux_states, ExecutorHandle shared_exec,
    ExecutorHandle* out) {
  return ApiCall([&] {
    Reshape("MXExecutorReshape", partial_shaping != 0, allow_up_sizing != 0,
            num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data,
            provided_arg_shape_idx, num_in_args, in_args, arg_grads, num_aux_states, aux_states,
            shared_exec, out);
  });
}

TESSERA_MXNET_API int MXExecutorReshapeEx(
    int partial_shaping, int allow_up_sizing, int, int, uint32_t, const char**, const int*,
    const int*, const uint32_t num_provided_arg_shapes, const char** provided_arg_shape_names,
    const int* provided_arg_shape_data, const uint32_t* provided_arg_shape_idx,
    uint32_t* num_in_args, NDArrayHandle** in_args, NDArrayHandle** arg_grads,
    uint32_t* num_aux_states, NDArrayHandle** aux_states, ExecutorHandle shared_exec,
    ExecutorHandle* out) {
  return ApiCall([&] {
    Reshape("MXExecutorReshapeEx", partial_shaping != 0, allow_up_sizing != 0,
            num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data,
            provided_arg_shape_idx, num_in_args, in_args, arg_grads, num_aux_states, aux_states,
            shared_exec, out);
  });
}
