#include "tessera/tests/random_graphs/ways.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tessera/base/at.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/registry.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/scope.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

using base_internal::At;
using ndarray_testing::Read;

NDArray MakeArray(const std::vector<double>& values, const TShape& shape, DType dtype) {
  NDArray array(shape, Device::Cpu(), dtype);
  const auto size = static_cast<index_t>(values.size());
  if (dtype == DType::kFloat64) {
    array.SyncCopyFromCPU(values.data(), size);
  } else {
    const std::vector<float> floats(values.begin(), values.end());
    array.SyncCopyFromCPU(floats.data(), size);
  }
  return array;
}

DoubleArrays ReadAll(const std::vector<NDArray>& arrays) {
  DoubleArrays all;
  for (const NDArray& array : arrays) all.push_back(Read(array));
  return all;
}

/// The arrays of a run, the same numbers for every way.
struct Arrays {
  explicit Arrays(const RandomGraph& graph) {
    ResourceManager::Get()->SeedRandom(Device::Cpu(), kMaskSeed);
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const RandomGraph::Input& input = graph.inputs[i];
      inputs.push_back(MakeArray(graph.Contents(i), input.shape, graph.dtype));
      gradients.push_back(input.request == kNullOp
                              ? NDArray()
                              : MakeArray(graph.OldGradient(i), input.shape, graph.dtype));
      requests.push_back(input.request);
    }
    for (size_t i = 0; i < graph.heads.size(); ++i) {
      head_gradients.push_back(
          MakeArray(graph.HeadGradient(i), graph.shapes[At(graph.heads[i])], graph.dtype));
    }
  }

  /// Makes the inputs with a gradient variables of the tape.
  void Mark() const {
    std::vector<NDArray> marked, to;
    std::vector<OpReqType> how;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (requests[i] == kNullOp) continue;
      marked.push_back(inputs[i]);
      to.push_back(gradients[i]);
      how.push_back(requests[i]);
    }
    autograd::MarkVariables(marked, to, how);
  }

  RunResult Result(const std::vector<NDArray>& heads) const {
    return {ReadAll(heads), ReadAll(gradients), ReadAll(inputs)};
  }

  std::vector<NDArray> inputs, gradients, head_gradients;
  std::vector<OpReqType> requests;
};

/// Runs the nodes one after the other and returns the heads.
std::vector<NDArray> CallNodes(const RandomGraph& graph, const std::vector<NDArray>& inputs) {
  std::vector<NDArray> values = inputs;
  for (const RandomGraph::Node& node : graph.nodes) {
    std::vector<NDArray> read;
    for (const int value : node.inputs) read.push_back(values[At(value)]);
    std::vector<NDArray> outputs = Invoke(node.op, read, node.parameters);
    outputs.resize(At(node.num_outputs));
    values.insert(values.end(), outputs.begin(), outputs.end());
  }
  std::vector<NDArray> heads;
  for (const int head : graph.heads) heads.push_back(values[At(head)]);
  return heads;
}

/// Runs the nodes one after the other, each over an input where that is allowed.
std::vector<NDArray> CallNodesInPlace(const RandomGraph& graph,
                                      const std::vector<NDArray>& inputs) {
  std::vector<int> reads_left(graph.shapes.size(), 0);
  for (const RandomGraph::Node& node : graph.nodes) {
    for (const int value : node.inputs) ++reads_left[At(value)];
  }
  for (const int head : graph.heads) ++reads_left[At(head)];
  std::vector<NDArray> values = inputs;
  values.resize(graph.shapes.size());
  for (const RandomGraph::Node& node : graph.nodes) {
    const auto property = OperatorRegistry::Get().Create(node.op, node.parameters);
    std::vector<NDArray> read;
    std::vector<int> in_ids, out_ids;
    for (const int value : node.inputs) {
      in_ids.push_back(static_cast<int>(read.size()));
      read.push_back(values[At(value)]);
      --reads_left[At(value)];
    }
    for (int i = 0; i < node.num_outputs; ++i) out_ids.push_back(i);
    NDArray replaced;
    for (const InplacePair& pair : property->ForwardInplaceOption(in_ids, out_ids)) {
      const int value = node.inputs[At(pair.source)];
      const bool is_last_read = reads_left[At(value)] == 0 &&
                                std::count(node.inputs.begin(), node.inputs.end(), value) == 1;
      if (pair.target == 0 && node.num_visible == 1 && At(value) >= inputs.size() && is_last_read &&
          graph.shapes[At(value)] == graph.shapes[At(node.first_output)]) {
        replaced = values[At(value)];
        break;
      }
    }
    if (!replaced.is_none()) {
      Invoke(node.op, read, std::vector<NDArray>{replaced}, node.parameters);
      values[At(node.first_output)] = replaced;
    } else {
      const std::vector<NDArray> outputs = Invoke(node.op, read, node.parameters);
      for (int i = 0; i < node.num_visible; ++i) values[At(node.first_output + i)] = outputs[At(i)];
    }
  }
  std::vector<NDArray> heads;
  for (const int head : graph.heads) heads.push_back(values[At(head)]);
  return heads;
}

/// The arrays as an executor takes them: by name.
BindArguments ByName(const RandomGraph& graph, const Symbol& symbol, const Arrays& arrays,
                     bool with_gradients) {
  std::map<std::string, size_t> position;
  for (size_t i = 0; i < graph.inputs.size(); ++i) position[graph.inputs[i].name] = i;
  BindArguments bound;
  for (const std::string& name : symbol.ListArguments()) {
    const size_t i = position.at(name);
    bound.arguments.push_back(arrays.inputs[i]);
    if (!with_gradients) continue;
    bound.gradients.push_back(arrays.gradients[i]);
    bound.grad_requests.push_back(arrays.requests[i]);
  }
  for (const std::string& name : symbol.ListAuxiliaryStates()) {
    bound.aux_states.push_back(arrays.inputs[position.at(name)]);
  }
  return bound;
}

Symbol SymbolOf(const RandomGraph& graph, const Recomputation& recomputation) {
  std::optional<AttrScope> scope;
  if (recomputation.marks_all) scope.emplace("force_mirroring", "True");
  return graph.ToSymbol();
}

/// Calls a compiled function on the arrays, in the order of its inputs.
std::vector<NDArray> CallCompiled(const RandomGraph& graph, const Arrays& arrays,
                                  const Recomputation& recomputation = {}) {
  const CachedOp function(SymbolOf(graph, recomputation),
                          {.memory_budget_bytes = recomputation.memory_budget_bytes});
  std::map<std::string, size_t> position;
  for (size_t i = 0; i < graph.inputs.size(); ++i) position[graph.inputs[i].name] = i;
  std::vector<NDArray> inputs;
  for (const std::string& name : function.input_names()) {
    inputs.push_back(arrays.inputs[position.at(name)]);
  }
  return function(inputs);
}

}  // namespace

RunResult TrainImperatively(const RandomGraph& graph) {
  const Arrays arrays(graph);
  arrays.Mark();
  std::vector<NDArray> heads;
  {
    const autograd::Record record;
    heads = CallNodes(graph, arrays.inputs);
  }
  autograd::Backward(heads, arrays.head_gradients);
  return arrays.Result(heads);
}

RunResult TrainByExecutor(const RandomGraph& graph, const Recomputation& recomputation) {
  const Symbol symbol = SymbolOf(graph, recomputation);
  const Arrays arrays(graph);
  BindArguments bound = ByName(graph, symbol, arrays, /*with_gradients=*/true);
  bound.memory_budget_bytes = recomputation.memory_budget_bytes;
  const auto executor = Bind(symbol, Device::Cpu(), bound);
  executor->Forward(/*is_train=*/true);
  executor->Backward(arrays.head_gradients);
  return arrays.Result(executor->outputs());
}

RunResult TrainByCachedOp(const RandomGraph& graph, const Recomputation& recomputation) {
  const Arrays arrays(graph);
  arrays.Mark();
  std::vector<NDArray> heads;
  {
    const autograd::Record record;
    heads = CallCompiled(graph, arrays, recomputation);
  }
  autograd::Backward(heads, arrays.head_gradients);
  return arrays.Result(heads);
}

DoubleArrays PredictImperatively(const RandomGraph& graph, bool in_place) {
  const Arrays arrays(graph);
  return ReadAll(in_place ? CallNodesInPlace(graph, arrays.inputs)
                          : CallNodes(graph, arrays.inputs));
}

DoubleArrays PredictByExecutor(const RandomGraph& graph) {
  const Symbol symbol = graph.ToSymbol();
  const Arrays arrays(graph);
  const auto executor =
      Bind(symbol, Device::Cpu(), ByName(graph, symbol, arrays, /*with_gradients=*/false));
  executor->Forward(/*is_train=*/false);
  return ReadAll(executor->outputs());
}

DoubleArrays PredictByCachedOp(const RandomGraph& graph) {
  return ReadAll(CallCompiled(graph, Arrays(graph)));
}

}  // namespace tessera
