#include "tessera/symbol/show/layer_cost.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

namespace tessera::symbol_internal {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

using Shapes = std::span<const TShape>;

bool IsTrue(const ParameterMap& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  return found != parameters.end() && (found->second == "True" || found->second == "1");
}

int IntParameter(const ParameterMap& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? 1 : ops_internal::ParameterText<int>::Parse(found->second);
}

/// Returns the additions of a bias, which is the third input if there is one.
int64_t BiasFlops(Shapes in, Shapes out) { return in.size() > 2 ? out[0].Size() : 0; }

/// Returns 2 operations for each element of `values` and each element of a weight, (rows, …), in
/// one of its rows.
int64_t WeightFlops(const TShape& values, const TShape& weight) {
  if (weight.ndim() == 0 || weight[0] == 0) return 0;
  return SaturatedProduct(2 * (weight.Size() / weight[0]), values.Size());
}

/// Matrix products of the last two axes of the first input, or, for `dot`, of its outermost or
/// innermost one.
int64_t ProductFlops(const graph::Node& node, Shapes in, Shapes out) {
  if (in[0].ndim() == 0) return 2;
  const bool transposed = IsTrue(node.property->GetParams(), "transpose_a");
  const bool is_dot = node.property->TypeString() == "dot";
  const int first = is_dot ? 0 : std::max(in[0].ndim() - 2, 0);
  return SaturatedProduct(2 * in[0][transposed ? first : in[0].ndim() - 1], out[0].Size());
}

/// A recurrent layer multiplies each row of the data with each weight and adds each bias, for each
/// step in time. Its inputs are the data (time, batch, channel) and all weights, then all biases,
/// in one row.
int64_t RnnFlops(const graph::Node& node, Shapes in) {
  const ParameterMap parameters = node.property->GetParams();
  const auto mode = parameters.find("mode");
  const int64_t gates = mode == parameters.end() ? 1
                        : mode->second == "lstm" ? 4
                        : mode->second == "gru"  ? 3
                                                 : 1;
  const int64_t directions = IsTrue(parameters, "bidirectional") ? 2 : 1;
  const int64_t biases = 2 * gates * directions * IntParameter(parameters, "num_layers") *
                         IntParameter(parameters, "state_size");
  const int64_t weights = std::max<int64_t>(in[1].Size() - biases, 0);
  return SaturatedProduct(2 * weights + biases, in[0][0] * in[0][1]);
}

int64_t PoolingFlops(const graph::Node& node, Shapes in, Shapes out) {
  const ParameterMap parameters = node.property->GetParams();
  const auto kernel = parameters.find("kernel");
  if (IsTrue(parameters, "global_pool") || kernel == parameters.end()) return in[0].Size();
  return SaturatedProduct(out[0].Size(), TShape::Parse(kernel->second).Size());
}

/// Returns whether the operator only moves or makes elements.
bool OnlyMoves(std::string_view op) {
  static constexpr std::string_view kMovers[] = {
      "BlockGrad",      "Cast",           "Concat",       "Crop",
      "Embedding",      "Flatten",        "Pad",          "Reshape",
      "SliceChannel",   "SwapAxis",       "_arange",      "_copy",
      "_full",          "_ones",          "_zeros",       "batch_take",
      "broadcast_axis", "broadcast_like", "broadcast_to", "cast",
      "concat",         "depth_to_space", "expand_dims",  "flip",
      "gather_nd",      "ones_like",      "one_hot",      "pick",
      "repeat",         "reshape_like",   "reverse",      "shape_array",
      "size_array",     "slice",          "slice_axis",   "slice_like",
      "space_to_depth", "split",          "squeeze",      "stack",
      "take",           "tile",           "transpose",    "where",
      "zeros_like"};
  return std::find(std::begin(kMovers), std::end(kMovers), op) != std::end(kMovers);
}

}  // namespace

int64_t SaturatedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMax : product;
}

int64_t SaturatedSum(int64_t a, int64_t b) { return a > kMax - b ? kMax : a + b; }

int64_t ForwardFlops(const graph::Node& node, Shapes in, Shapes out) {
  const std::string& op = node.property->TypeString();
  if (op == "Convolution" || op == "FullyConnected") {
    return SaturatedSum(WeightFlops(out[0], in[1]), BiasFlops(in, out));
  }
  if (op == "Deconvolution") return SaturatedSum(WeightFlops(in[0], in[1]), BiasFlops(in, out));
  if (op == "dot" || op == "batch_dot" || op == "_linalg_gemm2") return ProductFlops(node, in, out);
  if (op == "RNN") return RnnFlops(node, in);
  if (op == "Pooling") return PoolingFlops(node, in, out);
  if (op == "BatchNorm") return SaturatedProduct(2, out[0].Size());
  if (OnlyMoves(op)) return 0;
  int64_t flops = 0;
  const int num_visible = node.property->NumVisibleOutputs();
  for (int i = 0; i < num_visible; ++i) {
    flops = SaturatedSum(flops, out[static_cast<size_t>(i)].Size());
  }
  return flops;
}

}  // namespace tessera::symbol_internal
