// Symbols: composition, attributes, files. Functions of MXNet's C API; see types.h.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/operators.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/compat/mxnet/quirks/quirks.h"
#include "tessera/graph/attributes.h"
#include "tessera/graph/passes/rewrite.h"

namespace tessera::mxnet {

namespace {

void Compose(SymbolHandle handle, const char* name, uint32_t num_args, const char** keys,
             SymbolHandle* args) {
  const std::shared_ptr<ApiSymbol> before = Symbols().Get(handle);
  std::vector<Symbol> inputs;
  for (const SymbolHandle input : ListOf(args, num_args, "args")) {
    inputs.push_back(*SymbolOf(input));
  }
  const std::string text = name == nullptr ? "" : name;
  Symbol composed;
  if (keys == nullptr) {
    composed = before->atomic ? ApplyAtomic(*before->atomic, inputs, text)
                              : before->symbol.ComposeInOrder(inputs, text);
  } else {
    std::map<std::string, Symbol> named;
    const std::vector<std::string> names = TextsOf(keys, num_args, "keys");
    for (size_t i = 0; i < names.size(); ++i) named[names[i]] = inputs[i];
    composed = before->atomic ? ComposeAtomic(*before->atomic, named, text)
                              : before->symbol.Compose(named, text);
  }
  Symbols().Replace(handle, before, {.symbol = std::move(composed), .atomic = std::nullopt});
}

/// Returns a list of pairs as clients read it: keys and values in turns.
const char** KeepPairs(const std::map<std::string, std::string>& pairs, uint32_t* size) {
  *NotNull(size, "out_size") = static_cast<uint32_t>(pairs.size());
  std::vector<std::string> texts;
  for (const auto& [key, value] : pairs) {
    texts.push_back(key);
    texts.push_back(value);
  }
  return Results::OfThread().Keep(std::move(texts));
}

void KeepTexts(std::vector<std::string> texts, uint32_t* size, const char*** array) {
  *NotNull(size, "out_size") = static_cast<uint32_t>(texts.size());
  *NotNull(array, "out_str_array") = Results::OfThread().Keep(std::move(texts));
}

/// Returns the graph without casts of automatic mixed precision: their readers read their inputs.
Symbol WithoutAmpCasts(const Symbol& symbol) {
  return Symbol(graph::RewriteGraph(
      symbol.outputs(), [](const graph::Node& node, const std::shared_ptr<graph::Node>& rebuilt) {
        graph::Replacement replacement{rebuilt};
        if (node.is_variable()) return replacement;
        const QuirkSet quirks = QuirksOf(node.property->TypeString());
        if (quirks.Has(Quirk::kPrecisionCast)) replacement.outputs = rebuilt->inputs;
        return replacement;
      }));
}

void SetAttributes(SymbolHandle handle, uint32_t count, const char* const* keys,
                   const char* const* values) {
  const std::shared_ptr<ApiSymbol> before = Symbols().Get(handle);
  const std::vector<std::string> names = TextsOf(keys, count, "keys");
  const std::vector<std::string> texts = TextsOf(values, count, "vals");
  if (!before->atomic) {
    Symbol symbol = before->symbol;
    for (size_t i = 0; i < names.size(); ++i) symbol.SetAttribute(names[i], texts[i]);
    return;
  }
  ApiSymbol after = *before;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_marked = names[i].starts_with("__");
    after.atomic->parameters[is_marked ? names[i] : "__" + names[i] + "__"] = texts[i];
  }
  Symbols().Replace(handle, before, std::move(after));
}

// NNVM's numbers for kinds of variables. Any other one stands for aux states.
constexpr int kAllInputs = 0;
constexpr int kArguments = 1;

std::vector<std::string> InputNames(const Symbol& symbol, int option) {
  return option == kAllInputs   ? symbol.ListInputs()
         : option == kArguments ? symbol.ListArguments()
                                : symbol.ListAuxiliaryStates();
}

/// Returns what MXNet calls an attribute of a symbol: one of its node, or the number of the node's
/// output that it is, by which MXNet's Python names the variables of loops.
std::optional<std::string> AttributeOf(const Symbol& symbol, const char* key) {
  if (key == std::string_view("_value_index") && symbol.num_outputs() == 1) {
    return std::to_string(symbol.outputs()[0].index);
  }
  return symbol.GetAttribute(key);
}

/// Returns new handles of the variables of that kind.
std::vector<SymbolHandle> AddInputs(const Symbol& symbol, int option) {
  const std::vector<std::string> names = InputNames(symbol, option);
  const std::set<std::string> wanted(names.begin(), names.end());
  const Symbol variables = symbol.GetInputs();
  std::vector<SymbolHandle> handles;
  for (int i = 0; i < variables.num_outputs(); ++i) {
    if (wanted.contains(variables[i].name())) handles.push_back(AddSymbol(variables[i]));
  }
  return handles;
}

/// Returns the operator of a symbol's outputs, with its parameters and attributes, without inputs.
AtomicSymbol AtomicSymbolOf(const Symbol& symbol) {
  if (symbol.is_none() || symbol.outputs()[0].node->is_variable()) {
    throw InvalidArgument("MXGenAtomicSymbolFromSymbol: the symbol is no operator");
  }
  const graph::Node& node = *symbol.outputs()[0].node;
  for (const graph::NodeEntry& output : symbol.outputs()) {
    if (output.node.get() == &node) continue;
    throw InvalidArgument("MXGenAtomicSymbolFromSymbol: the symbol is a group of several nodes, \"",
                          node.name, "\" and \"", output.node->name, "\"");
  }
  AtomicSymbol atomic{node.property->TypeString(), node.Parameters()};
  for (const auto& [key, value] : node.attributes.All()) {
    atomic.parameters[graph::FileSpelling(node, key)] = value;
  }
  return atomic;
}

}  // namespace
}  // namespace tessera::mxnet

using tessera::Symbol;
using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator, uint32_t num_param,
                                                 const char** keys, const char** vals,
                                                 SymbolHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Symbols().Add(
        {.symbol = {},
         .atomic = AtomicSymbol{OperatorOf(creator).name, ParametersOf(num_param, keys, vals)}});
  });
}

TESSERA_MXNET_API int MXSymbolCreateVariable(const char* name, SymbolHandle* out) {
  return ApiCall(
      [&] { *NotNull(out, "out") = AddSymbol(Symbol::Variable(NotNull(name, "name"))); });
}

TESSERA_MXNET_API int MXSymbolCreateGroup(uint32_t num_symbols, SymbolHandle* symbols,
                                          SymbolHandle* out) {
  return ApiCall([&] {
    std::vector<Symbol> parts;
    for (const SymbolHandle part : ListOf(symbols, num_symbols, "symbols")) {
      parts.push_back(*SymbolOf(part));
    }
    NotNull(out, "out");
    *out = AddSymbol(Symbol::CreateGroup(parts));
  });
}

TESSERA_MXNET_API int MXSymbolCreateFromFile(const char* fname, SymbolHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = AddSymbol(Symbol::Load(NotNull(fname, "fname")));
  });
}

TESSERA_MXNET_API int MXSymbolCreateFromJSON(const char* json, SymbolHandle* out) {
  return ApiCall(
      [&] { *NotNull(out, "out") = AddSymbol(Symbol::FromJson(NotNull(json, "json"))); });
}

TESSERA_MXNET_API int MXSymbolSaveToFile(SymbolHandle symbol, const char* fname) {
  return ApiCall([&] { SymbolOf(symbol)->Save(NotNull(fname, "fname"), NumpyShape()); });
}

TESSERA_MXNET_API int MXSymbolSaveToJSON(SymbolHandle symbol, const char** out_json) {
  return ApiCall([&] {
    *NotNull(out_json, "out_json") =
        Results::OfThread().Keep(SymbolOf(symbol)->ToJson(NumpyShape()));
  });
}

TESSERA_MXNET_API int MXSymbolFree(SymbolHandle symbol) {
  return ApiCall([&] { Symbols().Remove(symbol); });
}

TESSERA_MXNET_API int NNSymbolFree(SymbolHandle symbol) { return MXSymbolFree(symbol); }

TESSERA_MXNET_API int MXSymbolCopy(SymbolHandle symbol, SymbolHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = AddSymbol(SymbolOf(symbol)->Copy());
  });
}

TESSERA_MXNET_API int MXShallowCopySymbol(SymbolHandle src, SymbolHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = Symbols().Add(*Symbols().Get(src));
  });
}

TESSERA_MXNET_API int MXSymbolPrint(SymbolHandle symbol, const char** out_str) {
  return ApiCall(
      [&] { *NotNull(out_str, "out_str") = Results::OfThread().Keep(SymbolOf(symbol)->ToJson()); });
}

TESSERA_MXNET_API int MXSymbolGetName(SymbolHandle symbol, const char** out, int* success) {
  return ApiCall([&] {
    const std::shared_ptr<const Symbol> graph = SymbolOf(symbol);
    const bool has_name = graph->num_outputs() == 1;
    *NotNull(success, "success") = has_name;
    *NotNull(out, "out") = has_name ? Results::OfThread().Keep(graph->name()) : nullptr;
  });
}

TESSERA_MXNET_API int MXSymbolGetAttr(SymbolHandle symbol, const char* key, const char** out,
                                      int* success) {
  return ApiCall([&] {
    const auto found = AttributeOf(*SymbolOf(symbol), NotNull(key, "key"));
    *NotNull(success, "success") = found.has_value();
    *NotNull(out, "out") = found ? Results::OfThread().Keep(*found) : nullptr;
  });
}

TESSERA_MXNET_API int MXSymbolSetAttr(SymbolHandle symbol, const char* key, const char* value) {
  return ApiCall([&] { SetAttributes(symbol, 1, &key, &value); });
}

TESSERA_MXNET_API int MXSymbolSetAttrs(SymbolHandle symbol, uint32_t num_param, const char** keys,
                                       const char** vals) {
  return ApiCall([&] { SetAttributes(symbol, num_param, keys, vals); });
}

TESSERA_MXNET_API int MXSymbolListAttr(SymbolHandle symbol, uint32_t* out_size, const char*** out) {
  return ApiCall([&] {
    *NotNull(out, "out") = KeepPairs(SymbolOf(symbol)->ListAttributesRecursive(), out_size);
  });
}

TESSERA_MXNET_API int MXSymbolListAttrShallow(SymbolHandle symbol, uint32_t* out_size,
                                              const char*** out) {
  return ApiCall(
      [&] { *NotNull(out, "out") = KeepPairs(SymbolOf(symbol)->ListAttributes(), out_size); });
}

TESSERA_MXNET_API int MXSymbolListArguments(SymbolHandle symbol, uint32_t* out_size,
                                            const char*** out_str_array) {
  return ApiCall([&] { KeepTexts(SymbolOf(symbol)->ListArguments(), out_size, out_str_array); });
}

TESSERA_MXNET_API int MXSymbolListOutputs(SymbolHandle symbol, uint32_t* out_size,
                                          const char*** out_str_array) {
  return ApiCall([&] { KeepTexts(SymbolOf(symbol)->ListOutputs(), out_size, out_str_array); });
}

TESSERA_MXNET_API int MXSymbolListAuxiliaryStates(SymbolHandle symbol, uint32_t* out_size,
                                                  const char*** out_str_array) {
  return ApiCall(
      [&] { KeepTexts(SymbolOf(symbol)->ListAuxiliaryStates(), out_size, out_str_array); });
}

TESSERA_MXNET_API int NNSymbolListInputNames(SymbolHandle symbol, int option, uint32_t* out_size,
                                             const char*** out_str_array) {
  return ApiCall(
      [&] { KeepTexts(InputNames(*SymbolOf(symbol), option), out_size, out_str_array); });
}

TESSERA_MXNET_API int NNSymbolListInputVariables(SymbolHandle symbol, int option,
                                                 uint32_t* out_size, SymbolHandle** out_sym_array) {
  return ApiCall([&] {
    NotNull(out_size, "out_size");
    NotNull(out_sym_array, "out_sym_array");
    std::vector<SymbolHandle> handles = AddInputs(*SymbolOf(symbol), option);
    *out_size = static_cast<uint32_t>(handles.size());
    *out_sym_array = Results::OfThread().Keep(std::move(handles));
  });
}

TESSERA_MXNET_API int MXSymbolGetNumOutputs(SymbolHandle symbol, uint32_t* output_count) {
  return ApiCall([&] {
    *NotNull(output_count, "output_count") = static_cast<uint32_t>(SymbolOf(symbol)->num_outputs());
  });
}

TESSERA_MXNET_API int MXSymbolGetInternals(SymbolHandle symbol, SymbolHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = AddSymbol(SymbolOf(symbol)->GetInternals());
  });
}

TESSERA_MXNET_API int MXSymbolGetChildren(SymbolHandle symbol, SymbolHandle* out) {
  return ApiCall([&] {
    NotNull(out, "out");
    *out = AddSymbol(SymbolOf(symbol)->GetChildren());
  });
}

TESSERA_MXNET_API int MXSymbolGetInputSymbols(SymbolHandle sym, SymbolHandle** inputs,
                                              int* input_size) {
  return ApiCall([&] {
    std::vector<SymbolHandle> handles = AddInputs(*SymbolOf(sym), kAllInputs);
    *NotNull(input_size, "input_size") = static_cast<int>(handles.size());
    *NotNull(inputs, "inputs") = Results::OfThread().Keep(std::move(handles));
  });
}

TESSERA_MXNET_API int MXSymbolGetOutput(SymbolHandle symbol, uint32_t index, SymbolHandle* out) {
  return ApiCall(
      [&] { *NotNull(out, "out") = AddSymbol((*SymbolOf(symbol))[static_cast<int>(index)]); });
}

TESSERA_MXNET_API int MXSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args,
                                      const char** keys, SymbolHandle* args) {
  return ApiCall([&] { Compose(sym, name, num_args, keys, args); });
}

TESSERA_MXNET_API int MXSymbolGrad(SymbolHandle sym, uint32_t num_wrt, const char** wrt,
                                   SymbolHandle* out) {
  return ApiCall(
      [&] { *NotNull(out, "out") = AddSymbol(SymbolOf(sym)->Grad(TextsOf(wrt, num_wrt, "wrt"))); });
}

TESSERA_MXNET_API int MXSymbolRemoveAmpCast(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle) {
  return ApiCall([&] {
    NotNull(ret_sym_handle, "ret_sym_handle");
    *ret_sym_handle = AddSymbol(WithoutAmpCasts(*SymbolOf(sym_handle)));
  });
}

TESSERA_MXNET_API int MXGenAtomicSymbolFromSymbol(SymbolHandle sym_handle,
                                                  SymbolHandle* ret_sym_handle) {
  return ApiCall([&] {
    NotNull(ret_sym_handle, "ret_sym_handle");
    *ret_sym_handle =
        Symbols().Add({.symbol = {}, .atomic = AtomicSymbolOf(*SymbolOf(sym_handle))});
  });
}
