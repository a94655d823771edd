#include "tessera/train/nn/attention.h"

#include <cmath>
#include <string>

#include "tessera/base/error.h"
#include "tessera/train/nn/operator_call.h"

namespace tessera::nn {

using nn_internal::CallOne;
using nn_internal::RequireAtLeast;
using nn_internal::Text;

namespace {

/// Returns values of the host in the type of `like` and on its device.
NDArray ConstantLike(const NDArray& like, const std::vector<float>& values, const TShape& shape) {
  const NDArray array = NDArray::FromVector(values, shape).AsInContext(like.device());
  return like.dtype() == DType::kFloat32 ? array : array.AsType(like.dtype());
}

NDArray Reshaped(const NDArray& x, const std::string& codes) {
  return CallOne("Reshape", {x}, {{"shape", codes}});
}

NDArray SwapMiddle(const NDArray& x) {
  return CallOne("transpose", {x}, {{"axes", "(0, 2, 1, 3)"}});
}

/// Returns what is added to scores (batch * heads, queries, keys): 0 where a query sees the key,
/// and otherwise a number that makes the weight 0.
NDArray CausalMask(const NDArray& scores) {
  const index_t queries = scores.shape()[1], keys = scores.shape()[2];
  std::vector<float> values(static_cast<size_t>(queries * keys));
  for (index_t i = 0; i < queries; ++i) {
    for (index_t j = keys - queries + i + 1; j < keys; ++j) {
      values[static_cast<size_t>(i * keys + j)] = -1e30f;
    }
  }
  return ConstantLike(scores, values, {1, queries, keys});
}

}  // namespace

RotaryPositions::RotaryPositions(double base) : base_(base) {
  if (!(base > 0)) throw InvalidArgument("RotaryPositions: base is ", base, ", expected > 0");
}

NDArray RotaryPositions::Rotate(const NDArray& x, index_t begin) const {
  nn_internal::RequireRank("RotaryPositions", x, 2);
  const int rank = x.shape().ndim();
  const index_t positions = x.shape()[rank - 2], channels = x.shape()[rank - 1];
  if (channels % 2 != 0) {
    throw InvalidArgument("RotaryPositions: the input has shape ", x.shape(),
                          ", expected an even number of channels");
  }
  const index_t half = channels / 2;
  std::vector<float> cosines, sines;
  for (index_t position = begin; position < begin + positions; ++position) {
    for (index_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(position) *
          std::pow(base_, -2.0 * static_cast<double>(i) / static_cast<double>(channels));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  TShape shape = TShape::OfRank(rank);
  for (int axis = 0; axis < rank - 2; ++axis) shape[axis] = 1;
  shape[rank - 2] = positions;
  shape[rank - 1] = half;
  const NDArray cosine = ConstantLike(x, cosines, shape), sine = ConstantLike(x, sines, shape);
  const auto part = [&x](index_t from, index_t to) {
    return CallOne("slice_axis", {x}, {{"axis", "-1"}, {"begin", Text(from)}, {"end", Text(to)}});
  };
  const NDArray low = part(0, half), high = part(half, channels);
  return CallOne("Concat", {low * cosine - high * sine, high * cosine + low * sine},
                 {{"num_args", "2"}, {"dim", Text(rank - 1)}});
}

MultiHeadAttention::MultiHeadAttention(index_t units, index_t num_heads,
                                       const AttentionOptions& options)
    : units_(units),
      num_heads_(num_heads),
      options_(options),
      rotary_(options.rotary_base),
      dropout_(options.dropout) {
  RequireAtLeast("MultiHeadAttention", "num_heads", num_heads, 1);
  if (units < 1 || units % num_heads != 0 || (options.rotary && units / num_heads % 2 != 0)) {
    throw InvalidArgument("MultiHeadAttention: ", units, " units for ", num_heads,
                          " heads, expected a positive multiple of the heads",
                          options.rotary ? ", even for rotary positions" : "");
  }
  const DenseOptions projection = {.use_bias = options.use_bias, .flatten = false};
  query_ = AddLayer("query", Dense(units, projection));
  key_ = AddLayer("key", Dense(units, projection));
  value_ = AddLayer("value", Dense(units, projection));
  output_ = AddLayer("output", Dense(units, projection));
}

/// Makes (batch, positions, units) to (batch * heads, positions, channels).
NDArray MultiHeadAttention::Split(const NDArray& x) const {
  const NDArray heads = Reshaped(x, "(0, 0, " + Text(num_heads_) + ", -1)");
  return Reshaped(SwapMiddle(heads), "(-3, 0, 0)");
}

NDArray MultiHeadAttention::Attend(const NDArray& queries, const NDArray& keys,
                                   const NDArray& values) const {
  const double scale = 1 / std::sqrt(static_cast<double>(units_ / num_heads_));
  NDArray scores = CallOne("batch_dot", {queries * scale, keys}, {{"transpose_b", "True"}});
  // The last query sees every key.
  if (options_.causal && scores.shape()[1] > 1) scores = scores + CausalMask(scores);
  const NDArray weights = dropout_(CallOne("softmax", {scores}, {{"axis", "-1"}}));
  const NDArray heads =
      Reshaped(CallOne("batch_dot", {weights, values}), "(-4, -1, " + Text(num_heads_) + ", 0, 0)");
  return (*output_)(Reshaped(SwapMiddle(heads), "(0, 0, -3)"));
}

std::vector<NDArray> MultiHeadAttention::ForwardAll(std::span<const NDArray> inputs) const {
  if (inputs.size() != 1 && inputs.size() != 3) {
    throw InvalidArgument("MultiHeadAttention: ", inputs.size(),
                          " inputs were given, expected 1, or queries, keys and values");
  }
  for (const NDArray& input : inputs) {
    if (input.shape().ndim() == 3) continue;
    throw InvalidArgument("MultiHeadAttention: an input has shape ", input.shape(),
                          ", expected (batch, positions, channels)");
  }
  const NDArray &q = inputs[0], &k = inputs[inputs.size() == 1 ? 0 : 1],
                &v = inputs[inputs.size() == 1 ? 0 : 2];
  const index_t behind = k.shape()[1] - q.shape()[1];
  if (options_.causal && behind < 0) {
    throw InvalidArgument("MultiHeadAttention: ", q.shape()[1], " queries and ", k.shape()[1],
                          " keys, expected as many keys or more because causal is set");
  }
  NDArray queries = Split((*query_)(q)), keys = Split((*key_)(k));
  if (options_.rotary) {
    queries = rotary_.Rotate(queries, options_.causal ? behind : 0);
    keys = rotary_.Rotate(keys, 0);
  }
  return {Attend(queries, keys, Split((*value_)(v)))};
}

NDArray MultiHeadAttention::Step(const NDArray& x, KeyValueCache* cache) const {
  if (!options_.causal) {
    throw FailedPrecondition(
        "MultiHeadAttention::Step: earlier positions would see later ones; expected causal");
  }
  if (x.shape().ndim() != 3) {
    throw InvalidArgument("MultiHeadAttention::Step: the input has shape ", x.shape(),
                          ", expected (batch, positions, channels)");
  }
  const index_t rows = x.shape()[0] * num_heads_, begin = cache->length();
  if (begin > 0 && cache->keys.shape()[0] != rows) {
    throw InvalidArgument("MultiHeadAttention::Step: the input has shape ", x.shape(),
                          ", expected a batch of ", cache->keys.shape()[0] / num_heads_,
                          " as in the cache");
  }
  NDArray queries = Split((*query_)(x)), keys = Split((*key_)(x)), values = Split((*value_)(x));
  if (options_.rotary) {
    queries = rotary_.Rotate(queries, begin);
    keys = rotary_.Rotate(keys, begin);
  }
  if (begin > 0) {
    const ParameterMap along_positions = {{"num_args", "2"}, {"dim", "1"}};
    keys = CallOne("Concat", {cache->keys, keys}, along_positions);
    values = CallOne("Concat", {cache->values, values}, along_positions);
  }
  const NDArray y = Attend(queries, keys, values);
  *cache = {keys, values};
  return y;
}

}  // namespace tessera::nn
