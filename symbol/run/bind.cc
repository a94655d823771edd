#include "tessera/symbol/executor.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/infer.h"
#include "tessera/symbol/run/graph_executor.h"

namespace tessera {

using base_internal::At;
using graph::GraphShapes;
using graph::GraphTypes;
using graph::IndexedGraph;
using symbol_internal::ExecutorArrays;
using symbol_internal::ExecutorDevices;
using symbol_internal::GraphExecutor;

namespace {

/// Throws unless `array` fits the graph's variable `name`.
void CheckArray(const char* what, const std::string& name, const NDArray& array,
                const TShape& shape, DType dtype, Device device) {
  if (array.is_none()) {
    throw InvalidArgument("Bind: no array for ", what, " \"", Excerpt(name), "\"");
  }
  if (array.shape() != shape) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" has shape ", array.shape(),
                          ", expected ", shape);
  }
  if (array.dtype() != dtype) {
    throw InvalidArgument("Bind: ", what, " \"", Excerpt(name), "\" has element type ",
                          array.dtype(), ", expected ", dtype);
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

void RequireComplete(const IndexedGraph& graph, const GraphShapes& shapes) {
  if (shapes.complete) return;
  for (int i = 0; i < graph.num_nodes(); ++i) {
    for (int k = 0; k < graph.NumOutputs(i); ++k) {
      const TShape& shape = shapes.entries[At(graph.EntryId(i, k))];
      if (!shape.known()) {
        throw InvalidArgument("Bind: the shape of \"", Excerpt(graph.node(i).OutputName(k)),
                              "\" is ", shape, "; give the shapes of more inputs");
      }
    }
  }
}

/// Returns the gradient requests of a SimpleBind, one for each argument.
std::vector<OpReqType> RequestsOf(const IndexedGraph& graph, const SimpleBindOptions& options) {
  const std::set<std::string_view> no_gradient(options.no_gradient.begin(),
                                               options.no_gradient.end());
  std::vector<OpReqType> requests;
  std::vector<std::string> names;
  size_t num_found = 0;
  for (const int node : graph.arguments()) {
    const std::string& name = graph.node(node).name;
    names.push_back(name);
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
  const ExecutorDevices devices{device, arrays.group2ctx};
  ExecutorArrays complete{arrays.arguments, arrays.gradients, arrays.grad_requests,
                          arrays.aux_states};
  const size_t num_arguments = graph.arguments().size();
  CheckCount("arguments", arrays.arguments.size(), num_arguments);
  CheckCount("aux states", arrays.aux_states.size(), graph.aux_states().size());
  if (complete.gradients.empty()) complete.gradients.resize(num_arguments);
  CheckCount("gradients", complete.gradients.size(), num_arguments);
  if (complete.grad_requests.empty()) complete.grad_requests.resize(num_arguments, kWriteTo);
  CheckCount("gradient requests", complete.grad_requests.size(), num_arguments);

  std::map<std::string, TShape> known_shapes;
  std::map<std::string, DType> known_types;
  for (size_t i = 0; i < num_arguments; ++i) {
    const std::string& name = graph.node(graph.arguments()[i]).name;
    if (complete.arguments[i].is_none()) {
      throw InvalidArgument("Bind: no array for argument \"", Excerpt(name), "\"");
    }
    known_shapes[name] = complete.arguments[i].shape();
    known_types[name] = complete.arguments[i].dtype();
    if (complete.gradients[i].is_none()) complete.grad_requests[i] = kNullOp;
    if (complete.grad_requests[i] == kWriteInplace) complete.grad_requests[i] = kWriteTo;
  }
  const GraphShapes shapes = graph::InferShapes(graph, known_shapes);
  const GraphTypes types = graph::InferTypes(graph, known_types);
  RequireComplete(graph, shapes);
  const auto check = [&](const char* what, int node, const NDArray& array, Device expected) {
    const size_t entry = At(graph.EntryId(node, 0));
    CheckArray(what, graph.node(node).name, array, shapes.entries[entry], types.entries[entry],
               expected);
  };
  // With groups, values are copied from wherever an array lies to where they are read.
  const auto device_of = [&](const NDArray& array) {
    return arrays.group2ctx.empty() || array.is_none() ? device : array.device();
  };
  for (size_t i = 0; i < num_arguments; ++i) {
    const NDArray& argument = complete.arguments[i];
    check("argument", graph.arguments()[i], argument, device_of(argument));
    if (complete.grad_requests[i] != kNullOp) {
      check("the gradient of", graph.arguments()[i], complete.gradients[i], device_of(argument));
    }
  }
  for (size_t i = 0; i < graph.aux_states().size(); ++i) {
    const NDArray& state = complete.aux_states[i];
    check("aux state", graph.aux_states()[i], state, device_of(state));
  }
  return std::make_unique<GraphExecutor>(symbol, graph, shapes, types, devices, std::move(complete),
                                         arrays.shared_executor);
}

std::unique_ptr<Executor> SimpleBind(const Symbol& symbol, Device device,
                                     const SimpleBindOptions& options) {
  const IndexedGraph graph(symbol.outputs());
  graph.RequireUniqueNames("Bind");
  const ExecutorDevices devices{device, options.group2ctx};
  const SharedArrays shared(options);
  const GraphShapes shapes = graph::InferShapes(graph, options.shapes);
  const GraphTypes types = graph::InferTypes(graph, options.types);
  RequireComplete(graph, shapes);
  const std::map<std::string, Device> device_of = devices.OfVariables(graph, symbol);
  const auto entry_of = [&](int node) { return At(graph.EntryId(node, 0)); };
  // Returns an existing array, after checking it, or a new one for none.
  const auto array_of = [&](const char* what, int node, const NDArray& existing) {
    const std::string& name = graph.node(node).name;
    const TShape& shape = shapes.entries[entry_of(node)];
    const DType dtype = types.entries[entry_of(node)];
    if (!existing.is_none()) {
      CheckArray(what, name, existing, shape, dtype, device_of.at(name));
      return existing;
    }
    NDArray array(shape, device_of.at(name), dtype);
    array = 0.0f;
    return array;
  };
  ExecutorArrays arrays{.grad_requests = RequestsOf(graph, options)};
  for (size_t i = 0; i < graph.arguments().size(); ++i) {
    const int node = graph.arguments()[i];
    const std::string& name = graph.node(node).name;
    NDArray existing = shared.Array(name);
    if (existing.is_none() && options.allocate != nullptr) {
      existing = options.allocate(name, shapes.entries[entry_of(node)], device_of.at(name),
                                  types.entries[entry_of(node)]);
    }
    arrays.arguments.push_back(array_of("argument", node, existing));
    arrays.gradients.push_back(arrays.grad_requests[i] == kNullOp
                                   ? NDArray()
                                   : array_of("the gradient of", node, shared.Gradient(name)));
  }
  for (const int node : graph.aux_states()) {
    arrays.aux_states.push_back(array_of("aux state", node, shared.Array(graph.node(node).name)));
  }
  return std::make_unique<GraphExecutor>(symbol, graph, shapes, types, devices, std::move(arrays),
                                         options.shared_executor);
}

}  // namespace tessera
