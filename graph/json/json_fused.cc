#include "tessera/graph/json/json_fused.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/unknown_operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/registry.h"

namespace tessera::graph {
namespace {

constexpr std::string_view kConvolution = "_sg_mkldnn_conv";
constexpr std::string_view kFullyConnected = "_sg_mkldnn_fully_connected";

std::string_view Text(const ParameterMap& parameters, const char* key) {
  const auto found = parameters.find(key);
  return found == parameters.end() ? std::string_view() : found->second;
}

/// Returns an operator's node, whose operator the program need not link.
std::shared_ptr<Node> Apply(const std::string& op, std::string name,
                            const std::vector<NodeEntry>& inputs, ParameterMap parameters = {}) {
  std::shared_ptr<const OperatorProperty> property;
  if (OperatorRegistry::Get().Find(op) != nullptr) {
    property = OperatorRegistry::Get().Create(op, parameters);
  } else {
    auto unknown = std::make_shared<UnknownOperatorProperty>(op, static_cast<int>(inputs.size()));
    unknown->Init(parameters);
    unknown->AddOutputsUpTo(op == "_contrib_quantize_v2" ? 2 : 0);
    property = std::move(unknown);
  }
  std::shared_ptr<Node> node = MakeNode(std::move(property), std::move(name), inputs).node;
  node->SetGivenParameters(std::move(parameters));
  return node;
}

/// Returns the numbers for which codes stand. A variable of codes is one of int8, as in MXNet,
/// unless the file states its type.
NodeEntry Dequantize(std::string name, const NodeEntry& codes, const NodeEntry& low,
                     const NodeEntry& high) {
  if (codes.node->is_variable()) {
    codes.node->attributes.Add("__dtype__", absl::StrCat(static_cast<int>(DType::kInt8)));
  }
  return {Apply("_contrib_dequantize", std::move(name), {codes, low, high}), 0};
}

/// Returns the positions of the inputs that have a range, in the order of the ranges.
std::vector<size_t> Quantized(std::string_view op, size_t variables, size_t ranges) {
  if (op == kConvolution && ranges == 2) return {0, variables - 1};
  std::vector<size_t> positions;
  for (size_t i = 0; i < ranges; ++i) positions.push_back(i);
  return positions;
}

/// Returns whether MXNet quantizes the results of the operator without a sign.
bool HasUnsignedCodes(const Node& last) {
  static const std::set<std::string_view> operators = {"abs", "clip", "exp", "sqrt", "square"};
  static const std::set<std::string_view> functions = {"relu", "sigmoid", "softrelu"};
  const std::string& op = last.property->TypeString();
  return operators.contains(op) ||
         (op == "Activation" && functions.contains(Text(last.property->GetParams(), "act_type")));
}

/// Returns codes of 8 bits and their range, or the same as codes of 32 bits.
std::vector<NodeEntry> Quantize(const FusedNode& fused, const NodeEntry& result) {
  const std::string low(Text(fused.parameters, "min_calib_range"));
  const std::string high(Text(fused.parameters, "max_calib_range"));
  const auto is_stated = [](const std::string& text) { return !text.empty() && text != "None"; };
  if (is_stated(low) && is_stated(high)) {
    const auto codes = Apply("_contrib_quantize_v2", fused.name, {result},
                             {{"out_type", HasUnsignedCodes(*result.node) ? "uint8" : "int8"},
                              {"min_calib_range", low},
                              {"max_calib_range", high}});
    return {{codes, 0}, {codes, 1}, {codes, 2}};
  }
  const auto codes =
      Apply("_contrib_quantize_v2", fused.name + "_quantize", {result}, {{"out_type", "int8"}});
  // A code c of 8 bits stands for c * r / 127.5, and one of 32 bits for c * r / (2^31 - 1).
  const auto end = [&](const char* suffix, int output) {
    return NodeEntry{
        Apply("_mul_scalar", fused.name + suffix, {{codes, output}}, {{"scalar", "16843009"}}), 0};
  };
  return {{Apply("Cast", fused.name, {{codes, 0}}, {{"dtype", "int32"}}), 0},
          end("_min", 1),
          end("_max", 2)};
}

}  // namespace

bool IsFused(std::string_view op) { return op == kConvolution || op == kFullyConnected; }

std::vector<NodeEntry> ReplaceFused(const FusedNode& fused) {
  const auto damaged = [&](const auto&... pieces) { return DataLoss(fused.op, " ", pieces...); };
  if (fused.subgraphs.size() != 1 || fused.subgraphs[0].size() != 1 ||
      fused.subgraphs[0][0].node->is_variable()) {
    throw damaged("needs one subgraph of operators with one output");
  }
  const std::vector<NodeEntry>& heads = fused.subgraphs[0];
  const IndexedGraph subgraph(heads);
  const size_t variables = subgraph.variables().size();
  const size_t given = fused.inputs.size();
  const size_t ranges = given < variables ? 0 : (given - variables) / 2;
  if (given != variables + 2 * ranges || ranges > variables) {
    throw damaged("has ", given, " inputs, but its subgraph has ", variables, " variables");
  }
  std::vector<NodeEntry> values(fused.inputs.begin(),
                                fused.inputs.begin() + static_cast<std::ptrdiff_t>(variables));
  const std::vector<size_t> quantized = Quantized(fused.op, variables, ranges);
  for (size_t i = 0; i < ranges; ++i) {
    const size_t low = variables + 2 * i;
    NodeEntry& value = values[quantized[i]];
    value = Dequantize(absl::StrCat(fused.name, "_dequantize", quantized[i]), value,
                       fused.inputs[low], fused.inputs[low + 1]);
  }
  std::unordered_map<const Node*, NodeEntry> replaced;
  for (size_t i = 0; i < variables; ++i) {
    replaced.emplace(&subgraph.node(subgraph.variables()[i]), values[i]);
  }
  for (const int state : subgraph.aux_states()) {
    if (!replaced.at(&subgraph.node(state)).node->is_variable()) {
      throw damaged("changes an input that is not a variable");
    }
  }
  const NodeEntry result = CopyGraph(heads, replaced)[0];
  const std::string_view as_numbers = Text(fused.parameters, "enable_float_output");
  if (ranges > 0 && (as_numbers.empty() || !ops_internal::ParameterText<bool>::Parse(as_numbers))) {
    return Quantize(fused, result);
  }
  result.node->name = fused.name;
  return {result};
}

}  // namespace tessera::graph
