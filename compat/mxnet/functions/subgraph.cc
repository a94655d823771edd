// Parts of graphs, which a loop or another library runs. Functions of MXNet's C API; see types.h.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/partition.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/node.h"
#include "tessera/graph/passes/rewrite.h"

namespace tessera::mxnet {
namespace {

/// Returns the name of the subgraph to which MXNet's Python assigns a node, if it does.
std::optional<std::string> SubgraphOf(const graph::Node& node) {
  return node.attributes.Find(std::string(AttributeName(node, "__subgraph_name__")));
}

/// A subgraph with variables in place of the values of other nodes that it reads.
struct CutGraph {
  Symbol symbol;
  std::vector<Symbol> inputs;  ///< these values; the variables are called like them
};

/// Cuts the subgraph to which the first output's node belongs out of its graph.
CutGraph Cut(const Symbol& symbol) {
  CutGraph cut{symbol, {}};
  if (symbol.is_none()) return cut;
  const auto name = SubgraphOf(*symbol.outputs()[0].node);
  if (!name) return cut;
  std::map<std::pair<const graph::Node*, int>, graph::NodeEntry> variables;
  const auto replace = [&](const graph::Node& node, const std::shared_ptr<graph::Node>& rebuilt) {
    graph::Replacement replacement{rebuilt};
    if (SubgraphOf(node) != name) return replacement;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const graph::NodeEntry& input = node.inputs[i];
      if (SubgraphOf(*input.node) == name) continue;
      graph::NodeEntry& variable = variables[{input.node.get(), input.index}];
      if (variable.node == nullptr) {
        variable = graph::MakeVariable(input.node->OutputName(input.index));
        cut.inputs.emplace_back(std::vector<graph::NodeEntry>{input});
      }
      if (replacement.node == rebuilt) replacement.node = std::make_shared<graph::Node>(*rebuilt);
      replacement.node->inputs[i] = variable;
    }
    return replacement;
  };
  cut.symbol = Symbol(graph::RewriteGraph(symbol.outputs(), replace));
  return cut;
}

/// Returns a copy of the graph, with the operators of a backend in nodes that run subgraphs.
Symbol ForBackend(const Symbol& symbol, BackendInterface interface, const std::string& backend) {
  const std::vector<std::string> operators = BackendOperators(interface, backend);
  return operators.empty() ? symbol.Copy() : PartitionByOperators(symbol, operators);
}

/// Keeps the operators of a backend.
int SetOperators(BackendInterface interface, const char* prop_name, uint32_t num_ops,
                 const char** op_names) {
  return ApiCall([&] {
    SetBackendOperators(interface, NotNull(prop_name, "prop_name"),
                        TextsOf(op_names, num_ops, "op_names"));
  });
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

/// Returns a copy of the graph for every name. There are no backends but those whose operators
/// MXSetSubgraphPropertyOpNamesV2 has named, and an executor optimizes its graph anyway; MXNet,
/// too, leaves a graph as it is for a backend that it does not have.
TESSERA_MXNET_API int MXOptimizeForBackend(
    SymbolHandle sym_handle, const char* backend_name, const int, SymbolHandle* ret_sym_handle,
    const uint32_t, NDArrayHandle*, const uint32_t, NDArrayHandle*, const uint32_t, const char**,
    const char**, const uint32_t, const char**, const int64_t*, const uint32_t*, const uint32_t,
    const char**, const int*, const uint32_t, const char**, const int*, bool, int* new_args_cnt,
    NDArrayHandle** new_args_handle, char*** new_arg_names_handle, int* new_aux_cnt,
    NDArrayHandle** new_aux_handle, char*** new_aux_names_handle) {
  return ApiCall([&] {
    const std::string backend = NotNull(backend_name, "backend_name");
    NotNull(ret_sym_handle, "ret_sym_handle");
    *NotNull(new_args_cnt, "new_args_cnt") = 0;
    *NotNull(new_aux_cnt, "new_aux_cnt") = 0;
    *NotNull(new_args_handle, "new_args_handle") = nullptr;
    *NotNull(new_aux_handle, "new_aux_handle") = nullptr;
    *NotNull(new_arg_names_handle, "new_arg_names_handle") = nullptr;
    *NotNull(new_aux_names_handle, "new_aux_names_handle") = nullptr;
    *ret_sym_handle =
        AddSymbol(ForBackend(*SymbolOf(sym_handle), BackendInterface::kOfOptimizeFor, backend));
  });
}

/// Cuts the nodes of one `__subgraph_name__` out of their graph, for the handle itself. Returns new
/// handles of the values that they read from outside, in the order in which they are read; none if
/// the first output has no such attribute.
TESSERA_MXNET_API int MXSymbolCutSubgraph(SymbolHandle sym, SymbolHandle** input_symbols,
                                          int* input_size) {
  return ApiCall([&] {
    NotNull(input_symbols, "input_symbols");
    NotNull(input_size, "input_size");
    const std::shared_ptr<ApiSymbol> before = Symbols().Get(sym);
    CutGraph cut = Cut(*SymbolOf(sym));
    if (!cut.inputs.empty()) {
      Symbols().Replace(sym, before, {.symbol = std::move(cut.symbol), .atomic = std::nullopt});
    }
    std::vector<SymbolHandle> handles;
    for (tessera::Symbol& input : cut.inputs) handles.push_back(AddSymbol(std::move(input)));
    *input_size = static_cast<int>(handles.size());
    *input_symbols = Results::OfThread().Keep(std::move(handles));
  });
}

TESSERA_MXNET_API int MXGenBackendSubgraph(SymbolHandle sym_handle, const char* backend_name,
                                           SymbolHandle* ret_sym_handle) {
  return ApiCall([&] {
    NotNull(ret_sym_handle, "ret_sym_handle");
    const std::string name = NotNull(backend_name, "backend_name");
    // MKLDNN changes the speed of a graph alone, not what it computes.
    if (name != "MKLDNN" && BackendOperators(BackendInterface::kOfExecutors, name).empty()) {
      throw tessera::NotFound("there is no subgraph backend \"", tessera::Excerpt(name),
                              "\", only MKLDNN, which leaves a graph as it is");
    }
    *ret_sym_handle =
        AddSymbol(ForBackend(*SymbolOf(sym_handle), BackendInterface::kOfExecutors, name));
  });
}

/// Returns a copy of the graph with the operators in nodes that run subgraphs, whatever the backend
/// is called.
TESSERA_MXNET_API int MXBuildSubgraphByOpNames(SymbolHandle sym_handle, const char* prop_name,
                                               const uint32_t num_ops, const char** op_names,
                                               SymbolHandle* ret_sym_handle) {
  return ApiCall([&] {
    NotNull(prop_name, "prop_name");
    NotNull(ret_sym_handle, "ret_sym_handle");
    *ret_sym_handle = AddSymbol(
        PartitionByOperators(*SymbolOf(sym_handle), TextsOf(op_names, num_ops, "op_names")));
  });
}

/// Names the operators of a backend, for MXGenBackendSubgraph. An executor optimizes its graph
/// whatever MXNET_SUBGRAPH_BACKEND is.
TESSERA_MXNET_API int MXSetSubgraphPropertyOpNames(const char* prop_name, const uint32_t num_ops,
                                                   const char** op_names) {
  return SetOperators(BackendInterface::kOfExecutors, prop_name, num_ops, op_names);
}

/// Names the operators of a backend, for MXOptimizeForBackend.
TESSERA_MXNET_API int MXSetSubgraphPropertyOpNamesV2(const char* prop_name, const uint32_t num_ops,
                                                     const char** op_names) {
  return SetOperators(BackendInterface::kOfOptimizeFor, prop_name, num_ops, op_names);
}

TESSERA_MXNET_API int MXRemoveSubgraphPropertyOpNames(const char* prop_name) {
  return ApiCall([&] {
    RemoveBackendOperators(BackendInterface::kOfExecutors, NotNull(prop_name, "prop_name"));
  });
}

TESSERA_MXNET_API int MXRemoveSubgraphPropertyOpNamesV2(const char* prop_name) {
  return ApiCall([&] {
    RemoveBackendOperators(BackendInterface::kOfOptimizeFor, NotNull(prop_name, "prop_name"));
  });
}
