#ifndef TESSERA_TRAIN_NN_ATTENTION_H_
#define TESSERA_TRAIN_NN_ATTENTION_H_

#include <memory>
#include <span>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/dropout.h"
#include "tessera/train/nn/layer.h"

namespace tessera::nn {

/// Rotates pairs of channels by angles that grow with the position, so that products of two rows
/// depend on the distance of their positions (J. Su et al., RoFormer, 2021, section 3.2.2): with
/// the angle a = position * base^(-2 i / channels),
///   y[i] = x[i] cos a - x[i + channels / 2] sin a
///   y[i + channels / 2] = x[i + channels / 2] cos a + x[i] sin a
/// The source pairs neighbours; pairs of both halves are the same up to an order of channels.
///
/// Shapes: input and output (…, positions, channels), where channels is even.
class RotaryPositions final : public UnaryLayer {
 public:
  /// Throws Error(kInvalidArgument) unless base > 0.
  explicit RotaryPositions(double base = 10000);

  /// Returns the function of rows whose first position is `begin`. Throws Error(kInvalidArgument)
  /// for a rank below 2 and an odd number of channels.
  NDArray Rotate(const NDArray& x, index_t begin) const;

 private:
  NDArray Forward(const NDArray& x) const override { return Rotate(x, 0); }

  double base_;
};

/// Options of MultiHeadAttention.
struct AttentionOptions {
  bool causal = false;   ///< whether a query sees only keys of its position and of earlier ones
  double dropout = 0;    ///< the rate at which training drops attention weights
  bool use_bias = true;  ///< whether the projections have a bias
  bool rotary = false;   ///< whether RotaryPositions apply to queries and keys
  double rotary_base = 10000;  ///< RotaryPositions' base
};

/// The keys and values of earlier positions, for MultiHeadAttention::Step. At first there are none.
struct KeyValueCache {
  NDArray keys;    ///< (batch * heads, positions, channels of a head), or none
  NDArray values;  ///< as keys

  /// Returns the number of positions.
  index_t length() const { return keys.is_none() ? 0 : keys.shape()[1]; }
};

/// Attention of several heads (A. Vaswani et al., Attention Is All You Need, NIPS 2017, section
/// 3.2): each head computes softmax(q k^T / sqrt(channels)) v of its share of the channels of
/// projected queries, keys and values; the heads' results are side by side, and projected.
///
/// Inputs: x (batch, positions, channels), which is queries, keys and values; or queries (batch, t,
/// …), keys (batch, s, …) and values (batch, s, …). With causal, t <= s, and the last query is at
/// the last key's position. Output: (batch, t, units). Layers: `query`, `key`, `value` and
/// `output`, each Dense with `weight` and `bias`.
class MultiHeadAttention final : public Layer {
 public:
  /// Throws Error(kInvalidArgument) unless num_heads divides units, for a dropout outside [0, 1),
  /// and for rotary with an odd number of channels of a head.
  MultiHeadAttention(index_t units, index_t num_heads, const AttentionOptions& options = {});

  /// Computes the output for the next positions of a sequence, x (batch, positions, channels), that
  /// see the positions in the cache, too, and adds them to the cache: a text is generated without
  /// computing earlier positions again. Requires causal. The calls are not compiled. Throws
  /// Error(kFailedPrecondition) without causal, and Error(kInvalidArgument) if the cache is of
  /// another batch.
  NDArray Step(const NDArray& x, KeyValueCache* cache) const;

 private:
  std::vector<NDArray> ForwardAll(std::span<const NDArray> inputs) const override;
  NDArray Split(const NDArray& x) const;
  NDArray Attend(const NDArray& queries, const NDArray& keys, const NDArray& values) const;

  index_t units_;
  index_t num_heads_;
  AttentionOptions options_;
  std::shared_ptr<Dense> query_, key_, value_, output_;
  RotaryPositions rotary_;
  Dropout dropout_;
};

}  // namespace tessera::nn

#endif  // TESSERA_TRAIN_NN_ATTENTION_H_
