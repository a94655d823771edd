#ifndef TESSERA_TENSOR_RANDOM_RANDOM_EXPRESSION_H_
#define TESSERA_TENSOR_RANDOM_RANDOM_EXPRESSION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/random/philox.h"
#include "tessera/tensor/random/random_kernels.h"

namespace tessera {

namespace tensor_internal {

/// The number of random bits in a uniform T of 16 bits.
template <typename T>
inline constexpr int kUniformBits = std::is_same_v<T, half_t> ? 11 : 8;

/// Returns the largest T below `high`, or `low` rounded if that is larger. It replaces values that
/// round to high. Throws Error(kInvalidArgument) unless low <= high, and low, high and high - low
/// are finite in T.
template <typename T>
T LastBelow(double low, double high);

/// Throws Error(kInvalidArgument) unless both are finite and the deviation is at least 0.
void CheckGaussian(double mean, double deviation);

/// Returns the number of blocks in the tiles that hold `size` elements of `words_each` words.
inline uint64_t BlocksFor(int64_t size, int64_t words_each) {
  const int64_t per_tile = kWordsPerTile / words_each;
  return static_cast<uint64_t>((size + per_tile - 1) / per_tile) * kBlocksPerTile;
}

}  // namespace tensor_internal

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The base of nodes of random numbers: it finds the block of words for an element. Element i of a
/// tile of 64 is made from word i / 16 of the tile's block i % 16. In double, a tile has 32
/// elements, and element i is made from the words 2 (i / 16) and 2 (i / 16) + 1. Class Random fills
/// arrays in the same order.
template <typename Derived, int N, typename T>
struct RandomExp : Exp<Derived, T> {
  using value_type = T;
  static constexpr int kRank = N;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;  // rows are evaluated by the node's own loops
  static constexpr bool kSharesWork = true;
  static constexpr index_t kElementCost = op::kLibraryCost;
  static constexpr int kBlocks = tensor_internal::kBlocksPerTile;
  static constexpr int kPerTile = std::is_same_v<T, double> ? 2 * kBlocks : 4 * kBlocks;

  PhiloxState from;
  uint64_t first_block;
  Shape<N> target;

  RandomExp(PhiloxState* state, const Shape<N>& shape)
      : from(*state),
        first_block(state->Reserve(
            tensor_internal::BlocksFor(shape.Size(), std::is_same_v<T, double> ? 2 : 1))),
        target(shape) {}
  const Shape<N>& shape() const { return target; }
  bool IsFlat() const { return true; }
  std::tuple<> operands() const { return {}; }
  Derived WithOperands() const { return this->self(); }

 protected:
  TESSERA_HD index_t ElementAt(index_t y, index_t x) const { return y * target[N - 1] + x; }
  TESSERA_HD PhiloxWords BlockOf(index_t element) const {
    const auto tile = static_cast<uint64_t>(element / kPerTile);
    return from.Block(first_block + tile * kBlocks + static_cast<uint64_t>(element % kBlocks));
  }
  /// Returns 53 bits of two words as a number in [0, 1).
  TESSERA_HD static double UnitDouble(uint32_t high, uint32_t low) {
    return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  }
};

/// The node of Random::uniform, which explains it.
template <int N, typename T>
struct UniformExp : RandomExp<UniformExp<N, T>, N, T> {
  using Base = RandomExp<UniformExp<N, T>, N, T>;
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;

  Number first;
  Number width;
  T last;

  UniformExp(PhiloxState* state, const Shape<N>& shape, double low, double high)
      : Base(state, shape),
        first(static_cast<Number>(low)),
        width(static_cast<Number>(high - low)),
        last(tensor_internal::LastBelow<T>(low, high)) {}

  TESSERA_HD T Eval(index_t y, index_t x) const {
    const index_t element = this->ElementAt(y, x);
    const PhiloxWords words = this->BlockOf(element);
    const auto part = static_cast<int>(element % Base::kPerTile) / Base::kBlocks;
    if constexpr (std::is_same_v<T, double>) {
      return FromUnit(Base::UnitDouble(words.word[2 * part], words.word[2 * part + 1]));
    } else {
      return FromUnit(UnitFloat(words.word[part]));
    }
  }

  /// Evaluates elements [begin, end) of row y by whole tiles. Eval would compute a block for each
  /// element.
  void EvalRow(index_t y, index_t begin, index_t end, T* out) const {
    constexpr index_t kPerTile = Base::kPerTile;
    const tensor_internal::RandomKernels& kernels = tensor_internal::BestRandomKernels();
    const UniformExp local = *this;
    const index_t first_element = this->ElementAt(y, begin), end_element = this->ElementAt(y, end);
    for (index_t element = first_element; element < end_element;) {
      const index_t tile = element / kPerTile, done = element % kPerTile;
      uint32_t words[tensor_internal::kWordsPerTile];
      const tensor_internal::PhiloxOrigin origin = {
          local.from.seed, local.from.stream,
          local.first_block + static_cast<uint64_t>(tile) * Base::kBlocks};
      kernels.words(origin, 1, words);
      T values[kPerTile];
      for (int i = 0; i < kPerTile; ++i) {
        if constexpr (std::is_same_v<T, double>) {
          const int high = i / Base::kBlocks * 2 * Base::kBlocks + i % Base::kBlocks;
          values[i] = local.FromUnit(Base::UnitDouble(words[high], words[high + Base::kBlocks]));
        } else {
          values[i] = local.FromUnit(UnitFloat(words[i]));
        }
      }
      const index_t count = std::min(kPerTile - done, end_element - element);
      out = std::copy_n(values + done, count, out);
      element += count;
    }
  }

 private:
  TESSERA_HD static float UnitFloat(uint32_t word) {
    constexpr int kBits = std::is_same_v<T, float> ? 24 : tensor_internal::kUniformBits<T>;
    return static_cast<float>(static_cast<int32_t>(word >> (32 - kBits))) * (1.0f / (1 << kBits));
  }
  TESSERA_HD T FromUnit(Number unit) const {
    const T value = static_cast<T>(first + width * unit);
    return value < last ? value : last;
  }
};

/// The node of Random::gaussian, which explains it: Box and Muller's transform of two uniform
/// numbers.
template <int N, typename T>
struct GaussianExp : RandomExp<GaussianExp<N, T>, N, T> {
  using Base = RandomExp<GaussianExp<N, T>, N, T>;
  using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;

  Number mean;
  Number deviation;

  GaussianExp(PhiloxState* state, const Shape<N>& shape, double mean, double deviation)
      : Base(state, shape),
        mean(static_cast<Number>(mean)),
        deviation(static_cast<Number>(deviation)) {}

  TESSERA_HD T Eval(index_t y, index_t x) const {
    using std::cos;
    using std::log;
    using std::sin;
    using std::sqrt;
    const index_t element = this->ElementAt(y, x);
    const PhiloxWords words = this->BlockOf(element);
    const auto part = static_cast<int>(element % Base::kPerTile) / Base::kBlocks;
    Number square;
    Number angle;
    bool is_sine;
    if constexpr (std::is_same_v<T, double>) {
      square = -2 * log(Base::UnitDouble(words.word[0], words.word[1]) + 0x1p-54);
      angle = 2 * std::numbers::pi * Base::UnitDouble(words.word[2], words.word[3]);
      is_sine = part == 1;
    } else {
      const int pair = part / 2 * 2;
      const auto k = static_cast<float>(static_cast<int32_t>(words.word[pair] >> 1));
      square = -2 * log(k * 0x1p-31f + 0x1p-32f);
      // The angle is 2 pi k 2^-32 for the signed word k, which is in [-pi, pi).
      angle = static_cast<float>(static_cast<int32_t>(words.word[pair + 1])) *
              (std::numbers::pi_v<float> * 0x1p-31f);
      is_sine = part % 2 == 1;
    }
    // The logarithm of 1 may round to a value slightly above 0.
    const Number radius = square > 0 ? sqrt(square) : 0;
    return static_cast<T>(mean + deviation * (radius * (is_sine ? sin(angle) : cos(angle))));
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr
}  // namespace tessera

#endif  // TESSERA_TENSOR_RANDOM_RANDOM_EXPRESSION_H_
