// Prediction with a saved network: MXNet's c_predict_api, which programs also load alone.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/core/exclusive_use.h"
#include "tessera/compat/mxnet/core/extents.h"
#include "tessera/compat/mxnet/core/monitor_names.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/symbol/executor.h"

namespace tessera::mxnet {

/// A function that receives results of a predictor's nodes. It frees the array's handle.
using PredictMonitor = void (*)(const char* name, NDArrayHandle array, void* data);

namespace {

/// A network and its parameters, which the predictors made of it share.
struct Network {
  Symbol symbol;
  Device device;
  std::map<std::string, NDArray> arguments = {};
  std::map<std::string, NDArray> aux_states = {};
  std::map<std::string, DType> types = {};  ///< of inputs; float32 by default
};

/// A network bound to inputs of fixed shapes. Threads: one call at a time runs it or sets its
/// monitor; a call that overlaps with it, or that the monitor makes, throws
/// Error(kFailedPrecondition). Other calls may overlap with everything.
class Predictor {
 public:
  Predictor(std::shared_ptr<const Network> network, const std::map<std::string, TShape>& shapes);

  const std::shared_ptr<const Network>& network() const { return network_; }
  void SetInput(const std::string& name, const void* data, uint32_t size);
  void Forward() {
    const ExclusiveUse use = Use();
    executor_->Forward(/*is_train=*/false);
  }
  int PartialForward(int step) {
    const ExclusiveUse use = Use();
    return executor_->PartialForward(/*is_train=*/false, step);
  }
  void SetMonitor(PredictMonitor monitor, void* data, bool monitor_all);
  const NDArray& output(uint32_t index) const;

 private:
  /// Returns the right to call the executor.
  ExclusiveUse Use() {
    return ExclusiveUse(&is_running_,
                        "the predictor runs in another call; expected a predictor for each thread, "
                        "as MXPredCreateMultiThread makes them");
  }

  const std::shared_ptr<const Network> network_;
  std::unique_ptr<Executor> executor_;
  std::map<std::string, NDArray> arguments_;
  std::atomic<bool> is_running_{false};
};

Handles<Predictor>& Predictors() {
  static auto* const predictors = new Handles<Predictor>("a Predictor", 7);
  return *predictors;
}

/// Returns a parameter, or a new array of zeros for what is none: an input or a label.
NDArray ParameterOr(const std::map<std::string, NDArray>& parameters, const std::string& name,
                    const TShape& shape, DType type, Device device) {
  const auto found = parameters.find(name);
  if (found != parameters.end()) return found->second;
  if (!shape.known()) {
    throw InvalidArgument("the shape of \"", name, "\" is ", shape,
                          "; expected the shapes of all inputs");
  }
  NDArray made(shape, device, type);
  made = 0.0f;
  return made;
}

Predictor::Predictor(std::shared_ptr<const Network> network,
                     const std::map<std::string, TShape>& shapes)
    : network_(std::move(network)) {
  const Symbol& symbol = network_->symbol;
  const Device device = network_->device;
  const std::vector<std::string> names = symbol.ListArguments();
  const std::vector<std::string> aux_names = symbol.ListAuxiliaryStates();
  // MXNet ignores inputs that the network does not have.
  std::map<std::string, TShape> known_shapes;
  std::map<std::string, DType> known_types;
  for (const std::string& name : names) {
    const auto shape = shapes.find(name);
    if (shape != shapes.end()) {
      known_shapes[name] = shape->second;
      known_types[name] = DType::kFloat32;
    }
    const auto parameter = network_->arguments.find(name);
    if (parameter != network_->arguments.end()) known_types[name] = parameter->second.dtype();
    const auto type = network_->types.find(name);
    if (type != network_->types.end()) known_types[name] = type->second;
  }
  const InferredShapes inferred = symbol.InferShape(known_shapes);
  const InferredTypes types = symbol.InferType(known_types);
  BindArguments arrays;
  for (size_t i = 0; i < names.size(); ++i) {
    arrays.arguments.push_back(ParameterOr(network_->arguments, names[i], inferred.arguments[i],
                                           types.arguments[i], device));
  }
  for (size_t i = 0; i < aux_names.size(); ++i) {
    arrays.aux_states.push_back(ParameterOr(network_->aux_states, aux_names[i],
                                            inferred.aux_states[i], types.aux_states[i], device));
  }
  executor_ = Bind(symbol, device, arrays);
  arguments_ = executor_->arg_dict();
}

/// Throws Error(kInvalidArgument) unless `size` elements fill the array.
void RequireSize(const char* kind, const std::string& name, const NDArray& array, uint32_t size) {
  if (static_cast<index_t>(size) == array.shape().Size()) return;
  throw InvalidArgument(kind, " ", name, ": the client's memory has ", size,
                        " elements, but shape ", array.shape(), " has ", array.shape().Size());
}

/// Copies the client's elements, which are of the input's type.
void Predictor::SetInput(const std::string& name, const void* data, uint32_t size) {
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) {
    throw InvalidArgument("the network has no input \"", name, "\"");
  }
  NDArray input = found->second;
  RequireSize("input", name, input, size);
  input.SyncCopyFromCPU(size == 0 ? data : NotNull(data, "data"), size);
}

const NDArray& Predictor::output(uint32_t index) const {
  const std::vector<NDArray>& outputs = executor_->outputs();
  if (index >= outputs.size()) {
    throw OutOfRange("output ", index, " was asked for, but there are ", outputs.size());
  }
  return outputs[index];
}

void Predictor::SetMonitor(PredictMonitor monitor, void* data, bool monitor_all) {
  MonitorCallback callback;
  if (monitor != nullptr) {
    callback = [monitor, data](const std::string& name, const NDArray& array) {
      const CallbackScope scope;
      if (scope.allowed()) monitor(name.c_str(), Arrays().Add(array), data);
    };
  }
  const ExclusiveUse use = Use();
  executor_->SetMonitorCallback(std::move(callback), monitor_all, ExecutorNames());
}

/// Reads a file of parameters, whose names begin with "arg:" or "aux:".
void ReadParameters(std::string_view bytes, Network* network) {
  const NDArrayList list = DeserializeNDArrayList(bytes);
  if (!list.has_names && !list.arrays.empty()) {
    throw InvalidArgument("param_bytes: the arrays have no names, expected \"arg:NAME\"");
  }
  for (const NamedArray& named : list.arrays) {
    if (named.array.is_none()) {
      throw InvalidArgument("param_bytes: array \"", named.name, "\" has no shape");
    }
    const bool is_aux = named.name.starts_with("aux:");
    const bool has_prefix = is_aux || named.name.starts_with("arg:");
    (is_aux ? network->aux_states : network->arguments)[named.name.substr(has_prefix ? 4 : 0)] =
        named.array.AsInContext(network->device);
  }
}

/// Returns the outputs of the nodes of these names, or the symbol's own if there are none.
Symbol OutputsOf(const Symbol& symbol, const std::vector<std::string>& names) {
  if (names.empty()) return symbol;
  const Symbol internals = symbol.GetInternals();
  const std::vector<std::string> known = internals.ListOutputs();
  std::vector<Symbol> chosen;
  for (const std::string& name : names) {
    const bool is_output = std::find(known.begin(), known.end(), name) != known.end();
    chosen.push_back(internals[is_output ? name : name + "_output"]);
  }
  return Symbol::CreateGroup(chosen);
}

/// The arguments with which a client describes a network.
struct NetworkArguments {
  const char* json;
  const void* parameters;
  int parameters_size;
  int device_type;
  int device_id;
};

std::shared_ptr<Network> ReadNetwork(const NetworkArguments& given,
                                     const std::vector<std::string>& outputs = {}) {
  if (given.parameters_size < 0) {
    throw InvalidArgument("param_size is ", given.parameters_size);
  }
  const auto network = std::make_shared<Network>(Network{
      .symbol = OutputsOf(Symbol::FromJson(NotNull(given.json, "symbol_json_str")), outputs),
      .device = DeviceOf(given.device_type, given.device_id)});
  if (given.parameters_size > 0) {
    ReadParameters({static_cast<const char*>(NotNull(given.parameters, "param_bytes")),
                    static_cast<size_t>(given.parameters_size)},
                   network.get());
  }
  return network;
}

/// The arguments with which a client gives the inputs' shapes: input i has the extents between
/// offsets i and i + 1.
struct ShapeArguments {
  uint32_t count;
  const char** names;
  const uint32_t* offsets;
  const uint32_t* extents;
};

std::map<std::string, TShape> ReadShapes(const ShapeArguments& given) {
  const std::vector<std::string> names = TextsOf(given.names, given.count, "input_keys");
  if (given.count != 0) NotNull(given.offsets, "input_shape_indptr");
  std::map<std::string, TShape> shapes;
  for (size_t i = 0; i < names.size(); ++i) {
    const uint32_t begin = given.offsets[i], end = given.offsets[i + 1];
    if (end < begin) {
      throw InvalidArgument("input_shape_indptr: offset ", end, " follows ", begin);
    }
    if (end != 0) NotNull(given.extents, "input_shape_data");
    shapes[names[i]] = TShape(std::vector<index_t>(given.extents + begin, given.extents + end));
  }
  return shapes;
}

PredictorHandle AddPredictor(std::shared_ptr<const Network> network,
                             const std::map<std::string, TShape>& shapes) {
  return Predictors().Add(std::make_shared<Predictor>(std::move(network), shapes));
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::InvalidArgument;
using tessera::NDArray;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXPredCreateEx(
    const char* symbol_json_str, const void* param_bytes, int param_size, int dev_type, int dev_id,
    const uint32_t num_input_nodes, const char** input_keys, const uint32_t* input_shape_indptr,
    const uint32_t* input_shape_data, const uint32_t num_provided_arg_dtypes,
    const char** provided_arg_dtype_names, const int* provided_arg_dtypes, PredictorHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    const auto shapes =
        ReadShapes({num_input_nodes, input_keys, input_shape_indptr, input_shape_data});
    const std::vector<std::string> names =
        TextsOf(provided_arg_dtype_names, num_provided_arg_dtypes, "provided_arg_dtype_names");
    const auto types = ListOf(provided_arg_dtypes, names.size(), "provided_arg_dtypes");
    const auto network = ReadNetwork({symbol_json_str, param_bytes, param_size, dev_type, dev_id});
    for (size_t i = 0; i < names.size(); ++i) network->types[names[i]] = TypeOf(types[i]);
    *out = AddPredictor(network, shapes);
  });
}

TESSERA_MXNET_API int MXPredCreate(const char* symbol_json_str, const void* param_bytes,
                                   int param_size, int dev_type, int dev_id,
                                   uint32_t num_input_nodes, const char** input_keys,
                                   const uint32_t* input_shape_indptr,
                                   const uint32_t* input_shape_data, PredictorHandle* out) {
  return MXPredCreateEx(symbol_json_str, param_bytes, param_size, dev_type, dev_id, num_input_nodes,
                        input_keys, input_shape_indptr, input_shape_data, 0, nullptr, nullptr, out);
}

TESSERA_MXNET_API int MXPredCreatePartialOut(const char* symbol_json_str, const void* param_bytes,
                                             int param_size, int dev_type, int dev_id,
                                             uint32_t num_input_nodes, const char** input_keys,
                                             const uint32_t* input_shape_indptr,
                                             const uint32_t* input_shape_data,
                                             uint32_t num_output_nodes, const char** output_keys,
                                             PredictorHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    const auto shapes =
        ReadShapes({num_input_nodes, input_keys, input_shape_indptr, input_shape_data});
    *out = AddPredictor(ReadNetwork({symbol_json_str, param_bytes, param_size, dev_type, dev_id},
                                    TextsOf(output_keys, num_output_nodes, "output_keys")),
                        shapes);
  });
}

TESSERA_MXNET_API int MXPredCreateMultiThread(const char* symbol_json_str, const void* param_bytes,
                                              int param_size, int dev_type, int dev_id,
                                              uint32_t num_input_nodes, const char** input_keys,
                                              const uint32_t* input_shape_indptr,
                                              const uint32_t* input_shape_data, int num_threads,
                                              PredictorHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    if (num_threads < 0) throw InvalidArgument("num_threads is ", num_threads);
    const auto shapes =
        ReadShapes({num_input_nodes, input_keys, input_shape_indptr, input_shape_data});
    const auto network = ReadNetwork({symbol_json_str, param_bytes, param_size, dev_type, dev_id});
    std::vector<std::shared_ptr<Predictor>> predictors;
    for (int i = 0; i < num_threads; ++i) {
      predictors.push_back(std::make_shared<Predictor>(network, shapes));
    }
    for (size_t i = 0; i < predictors.size(); ++i) out[i] = Predictors().Add(predictors[i]);
  });
}

TESSERA_MXNET_API int MXPredReshape(uint32_t num_input_nodes, const char** input_keys,
                                    const uint32_t* input_shape_indptr,
                                    const uint32_t* input_shape_data, PredictorHandle handle,
                                    PredictorHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = AddPredictor(
        Predictors().Get(handle)->network(),
        ReadShapes({num_input_nodes, input_keys, input_shape_indptr, input_shape_data}));
  });
}

TESSERA_MXNET_API int MXPredGetOutputShape(PredictorHandle handle, uint32_t index,
                                           uint32_t** shape_data, uint32_t* shape_ndim) {
  return ApiCall([&] {
    NotNull(shape_data, "shape_data");
    NotNull(shape_ndim, "shape_ndim");
    std::vector<uint32_t> extents = ExtentsForClient<uint32_t>(
        "MXPredGetOutputShape", Predictors().Get(handle)->output(index).shape());
    *shape_ndim = static_cast<uint32_t>(extents.size());
    *shape_data = Results::OfThread().Keep(std::move(extents));
  });
}

TESSERA_MXNET_API int MXPredGetOutputType(PredictorHandle handle, uint32_t out_index,
                                          int* out_dtype) {
  return ApiCall([&] {
    *NotNull(out_dtype, "out_dtype") =
        static_cast<int>(Predictors().Get(handle)->output(out_index).dtype());
  });
}

// MXNet declares the memory of SetInput and GetOutput as floats, whatever the array's type is.
TESSERA_MXNET_API int MXPredSetInput(PredictorHandle handle, const char* key, const float* data,
                                     uint32_t size) {
  return ApiCall([&] { Predictors().Get(handle)->SetInput(NotNull(key, "key"), data, size); });
}

TESSERA_MXNET_API int MXPredForward(PredictorHandle handle) {
  return ApiCall([&] { Predictors().Get(handle)->Forward(); });
}

TESSERA_MXNET_API int MXPredPartialForward(PredictorHandle handle, int step, int* step_left) {
  return ApiCall([&] {
    NotNull(step_left, "step_left");
    *step_left = Predictors().Get(handle)->PartialForward(step);
  });
}

TESSERA_MXNET_API int MXPredGetOutput(PredictorHandle handle, uint32_t index, float* data,
                                      uint32_t size) {
  return ApiCall([&] {
    const NDArray output = Predictors().Get(handle)->output(index);
    RequireSize("output", std::to_string(index), output, size);
    output.SyncCopyToCPU(size == 0 ? data : NotNull(data, "data"), size);
  });
}

TESSERA_MXNET_API int MXPredSetMonitorCallback(PredictorHandle handle, PredictMonitor callback,
                                               void* callback_handle, bool monitor_all) {
  return ApiCall(
      [&] { Predictors().Get(handle)->SetMonitor(callback, callback_handle, monitor_all); });
}

TESSERA_MXNET_API int MXPredFree(PredictorHandle handle) {
  return ApiCall([&] { Predictors().Remove(handle); });
}
