#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer_storage.h"
#include "tessera/graph/program.h"
#include "tessera/ndarray/call/operator_call.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/symbol/executor.h"

namespace tessera {

using base_internal::At;
using graph::CompiledGraph;
using graph::IndexedGraph;
using graph::Value;

namespace {

void RequireArray(const char* what, const std::string& name, const NDArray& array) {
  if (array.is_none()) {
    throw InvalidArgument("Bind: no array for ", what, " \"", Excerpt(name), "\"");
  }
}

/// Throws unless `array` fits the value of the variable `name`.
void CheckArray(const char* what, const std::string& name, const NDArray& array, const Value& value,
                Device device) {
  RequireArray(what, name, array);
  if (array.shape() != value.shape) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" has shape ", array.shape(),
                          ", expected ", value.shape);
  }
  if (array.dtype() != value.dtype) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" has element type ",
                          array.dtype(), ", expected ", value.dtype);
  }
  if (array.device() != device) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" lies on ", array.device(),
                          ", expected ", device);
  }
}

void CheckCount(const char* what, size_t given, size_t expected) {
  if (given != expected) {
    throw InvalidArgument("Bind: ", given, " ", what, " were given, expected ", expected);
  }
}

std::vector<std::string> NamesOf(const IndexedGraph& graph, const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int id : nodes) names.push_back(graph.node(id).name);
  return names;
}

/// Returns the gradient requests of a SimpleBind, one for each argument.
std::vector<OpReqType> RequestsOf(const std::vector<std::string>& names,
                                  const SimpleBindOptions& options) {
  const std::set<std::string_view> no_gradient(options.no_gradient.begin(),
                                               options.no_gradient.end());
  std::vector<OpReqType> requests;
  size_t num_found = 0;
  for (const std::string& name : names) {
    const auto found = options.grad_requests.find(name);
    if (found != options.grad_requests.end()) {
      requests.push_back(found->second == kWriteInplace ? kWriteTo : found->second);
      ++num_found;
    } else {
      requests.push_back(no_gradient.contains(name) ? kNullOp : options.grad_req);
    }
  }
  if (num_found == options.grad_requests.size()) return requests;
  for (const auto& [name, request] : options.grad_requests) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string nearest = NearestName(name, names);
    throw InvalidArgument("SimpleBind: a gradient was requested of \"", Excerpt(name),
                          "\", but there is no such argument",
                          nearest.empty() ? "" : "; did you mean \"" + Excerpt(nearest) + "\"?");
  }
  return requests;
}

/// Returns the storage types of the variables of a SimpleBind.
std::map<std::string, StorageType> StorageTypesOf(const IndexedGraph& graph,
                                                  const SimpleBindOptions& options) {
  std::map<std::string, StorageType> types = options.storage_types;
  std::set<std::string_view> names;
  for (const int id : graph.variables()) {
    const graph::Node& variable = graph.node(id);
    names.insert(variable.name);
    const std::optional<std::string> text = variable.attributes.Find("__storage_type__");
    if (!text || *text == "-1") continue;
    if (*text != "0" && *text != "1" && *text != "2") {
      throw InvalidArgument("SimpleBind: the attribute __storage_type__ of \"",
                            Excerpt(variable.name), "\" is ", Excerpt(*text),
                            ", expected 0 (dense), 1 (row_sparse) or 2 (csr)");
    }
    types.emplace(variable.name, static_cast<StorageType>(text->front() - '0'));
  }
  for (const auto& [name, type] : options.storage_types) {
    if (names.contains(name)) continue;
    throw InvalidArgument("SimpleBind: ", type, " storage was requested of \"", Excerpt(name),
                          "\", but there is no such input");
  }
  return types;
}

/// The arrays of an executor whose arrays another one shares, by name.
class SharedArrays {
 public:
  explicit SharedArrays(const SimpleBindOptions& options)
      : arguments_(options.shared_arguments.begin(), options.shared_arguments.end()) {
    if (options.shared_executor == nullptr) {
      if (!arguments_.empty()) {
        throw InvalidArgument("SimpleBind: shared_arguments without a shared_executor");
      }
      return;
    }
    for (auto& [name, array] : options.shared_executor->arg_dict()) {
      if (arguments_.contains(name)) arrays_.emplace(name, array);
    }
    for (const std::string& name : options.shared_arguments) {
      if (!arrays_.contains(name)) {
        throw InvalidArgument("SimpleBind: the shared executor has no argument \"", Excerpt(name),
                              "\"");
      }
    }
    arrays_.merge(options.shared_executor->aux_dict());
    gradients_ = options.shared_executor->grad_dict();
  }

  /// Return the shared array of a variable or its gradient; none if there is none.
  NDArray Array(const std::string& name) const { return Find(arrays_, name); }
  NDArray Gradient(const std::string& name) const {
    return arguments_.contains(name) ? Find(gradients_, name) : NDArray();
  }

 private:
  static NDArray Find(const std::map<std::string, NDArray>& arrays, const std::string& name) {
    const auto found = arrays.find(name);
    return found == arrays.end() ? NDArray() : found->second;
  }

  const std::set<std::string> arguments_;
  std::map<std::string, NDArray> arrays_, gradients_;
};

}  // namespace

std::unique_ptr<Executor> Bind(const Symbol& symbol, Device device, const BindArguments& arrays) {
  const IndexedGraph graph(symbol.outputs());
  graph.RequireUniqueNames("Bind");
  Executor::Arrays complete{.argument_names = NamesOf(graph, graph.arguments()),
                            .aux_names = NamesOf(graph, graph.aux_states()),
                            .arguments = arrays.arguments,
                            .gradients = arrays.gradients,
                            .grad_requests = arrays.grad_requests,
                            .aux_states = arrays.aux_states};
  const size_t num_arguments = complete.argument_names.size();
  CheckCount("arguments", complete.arguments.size(), num_arguments);
  CheckCount("aux states", complete.aux_states.size(), complete.aux_names.size());
  if (complete.gradients.empty()) complete.gradients.resize(num_arguments);
  CheckCount("gradients", complete.gradients.size(), num_arguments);
  if (complete.grad_requests.empty()) complete.grad_requests.resize(num_arguments, kWriteTo);
  CheckCount("gradient requests", complete.grad_requests.size(), num_arguments);

  std::map<std::string, TShape> shapes;
  std::map<std::string, DType> types;
  for (size_t i = 0; i < num_arguments; ++i) {
    const std::string& name = complete.argument_names[i];
    RequireArray("argument", name, complete.arguments[i]);
    shapes[name] = complete.arguments[i].shape();
    types[name] = complete.arguments[i].dtype();
    if (complete.gradients[i].is_none()) complete.grad_requests[i] = kNullOp;
    if (complete.grad_requests[i] == kWriteInplace) complete.grad_requests[i] = kWriteTo;
  }
  for (size_t i = 0; i < complete.aux_states.size(); ++i) {
    RequireArray("aux state", complete.aux_names[i], complete.aux_states[i]);
  }
  CompiledGraph compiled = Compile(symbol.outputs(), shapes, types, complete.grad_requests,
                                   {.caller = "Bind",
                                    .device = device,
                                    .groups = arrays.group2ctx,
                                    .variables = complete.Devices(),
                                    .splits = true,
                                    .fuses = !OperatorCall::ChecksOutputs(),
                                    .recomputes = arrays.recomputes});
  // With groups, values are copied from wherever an array lies to where they are read.
  const auto device_of = [&](const NDArray& array) {
    return arrays.group2ctx.empty() ? device : array.device();
  };
  auto value = compiled.program.values.begin();  // of the arguments, then of the aux states
  for (size_t i = 0; i < num_arguments; ++i, ++value) {
    const std::string& name = complete.argument_names[i];
    const Device expected = device_of(complete.arguments[i]);
    CheckArray("argument", name, complete.arguments[i], *value, expected);
    if (complete.grad_requests[i] == kNullOp) continue;
    CheckArray("the gradient of", name, complete.gradients[i], *value, expected);
  }
  for (size_t i = 0; i < complete.aux_states.size(); ++i, ++value) {
    const NDArray& state = complete.aux_states[i];
    CheckArray("aux state", complete.aux_names[i], state, *value, device_of(state));
  }
  return std::unique_ptr<Executor>(new Executor(
      symbol, {device, arrays.group2ctx}, {arrays.memory_budget_bytes, arrays.recomputes},
      std::move(compiled), std::move(complete), arrays.shared_executor));
}

std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                     const SimpleBindOptions& options) {
  const IndexedGraph graph(symbol.outputs());
  graph.RequireUniqueNames("Bind");
  const SharedArrays shared(options);
  Executor::Arrays arrays{.argument_names = NamesOf(graph, graph.arguments()),
                          .aux_names = NamesOf(graph, graph.aux_states())};
  arrays.grad_requests = RequestsOf(arrays.argument_names, options);
  const graph::GraphStorage storage = graph::InferStorage(graph, StorageTypesOf(graph, options));
  CompiledGraph compiled =
      Compile(symbol.outputs(), options.shapes, options.types, arrays.grad_requests,
              {.caller = "Bind",
               .device = device,
               .groups = options.group2ctx,
               .splits = true,
               .fuses = !OperatorCall::ChecksOutputs(),
               .recomputes = options.recomputes});
  const auto device_of = [&](const Value& value) {
    return compiled.program.devices[At(value.device)];
  };
  // Returns an existing array, after checking it, or a new one for none.
  const auto array_of = [&](const char* what, const std::string& name, const Value& value,
                            const NDArray& existing, StorageType type) {
    if (!existing.is_none()) {
      CheckArray(what, name, existing, value, device_of(value));
      return existing;
    }
    // A call whose csr result is no matrix computes on dense copies.
    if (type == StorageType::kCsr && value.shape.ndim() != 2) type = StorageType::kDefault;
    return sparse::Zeros(type, value.shape, device_of(value), value.dtype);
  };
  const auto entry_of = [&](int node) { return At(graph.EntryId(node, 0)); };
  auto value = compiled.program.values.begin();  // of the arguments, then of the aux states
  for (size_t i = 0; i < arrays.argument_names.size(); ++i, ++value) {
    const std::string& name = arrays.argument_names[i];
    const size_t entry = entry_of(graph.arguments()[i]);
    const StorageType type = storage.entries[entry];
    NDArray existing = shared.Array(name);
    if (existing.is_none() && options.allocate != nullptr && type == StorageType::kDefault) {
      existing = options.allocate(name, value->shape, device_of(*value), value->dtype);
    }
    arrays.arguments.push_back(array_of("argument", name, *value, existing, type));
    const bool is_on_cpu = device_of(*value).type == DeviceType::kCpu;
    arrays.gradients.push_back(
        arrays.grad_requests[i] == kNullOp
            ? NDArray()
            : array_of("the gradient of", name, *value, shared.Gradient(name),
                       is_on_cpu ? storage.gradients[entry] : StorageType::kDefault));
  }
  for (size_t i = 0; i < arrays.aux_names.size(); ++i) {
    const std::string& name = arrays.aux_names[i];
    arrays.aux_states.push_back(array_of("aux state", name, *value++, shared.Array(name),
                                         storage.entries[entry_of(graph.aux_states()[i])]));
  }
  return std::unique_ptr<Executor>(new Executor(
      symbol, {device, options.group2ctx}, {options.memory_budget_bytes, options.recomputes},
      std::move(compiled), std::move(arrays), options.shared_executor));
}

}  // namespace tessera
