#include "tessera/tensor/random/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/tensor/random/random_fill.h"

namespace tessera::tensor_internal {
namespace {

/// Runs a kernel that computes floats, and rounds them to T.
template <typename T, typename Kernel>
void FillByFloats(PhiloxState* state, const RandomRows<T>& out, const Kernel& kernel) {
  FillByTiles<kWordsPerTile>(state, out, [&](PhiloxOrigin origin, int64_t tiles, T* elements) {
    if constexpr (std::is_same_v<T, float>) {
      kernel(origin, tiles, elements);
    } else {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        float floats[kWordsPerTile];
        kernel(origin, 1, floats);
        for (int i = 0; i < kWordsPerTile; ++i) elements[tile * kWordsPerTile + i] = T(floats[i]);
        origin.first_block += kBlocksPerTile;
      }
    }
  });
}

/// Returns 1 or 0 without a branch, which a random condition would mispredict.
template <typename T>
T OneIf(bool condition) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(condition);
  } else {
    const auto mask = static_cast<uint16_t>(-static_cast<int>(condition));
    return std::bit_cast<T>(static_cast<uint16_t>(std::bit_cast<uint16_t>(T(1)) & mask));
  }
}

/// Returns whether `value`, rounded to T, is finite.
template <typename T>
bool IsFiniteAs(double value) {
  return std::isfinite(static_cast<double>(static_cast<float>(T(value))));
}
template <>
bool IsFiniteAs<double>(double value) {
  return std::isfinite(value);
}

}  // namespace

template <typename T>
T LastBelow(double low, double high) {
  if (!(low <= high) || !IsFiniteAs<T>(low) || !IsFiniteAs<T>(high) || !IsFiniteAs<T>(high - low)) {
    throw InvalidArgument("SampleUniform: low = ", low, ", high = ", high,
                          "; expected low <= high, both and their difference finite");
  }
  T last = T(high);
  if constexpr (std::is_floating_point_v<T>) {
    if (last >= high) last = std::nextafter(last, -std::numeric_limits<T>::infinity());
  } else if (static_cast<double>(static_cast<float>(last)) >= high) {
    const auto bits = std::bit_cast<uint16_t>(last);
    const bool is_zero = (bits & 0x7FFFu) == 0;
    const bool negative = (bits & 0x8000u) != 0;
    last = std::bit_cast<T>(static_cast<uint16_t>(is_zero    ? 0x8001u
                                                  : negative ? bits + 1u
                                                             : bits - 1u));
  }
  const T first = T(low);
  return last < first ? first : last;
}

void CheckGaussian(double mean, double deviation) {
  if (!std::isfinite(mean) || !std::isfinite(deviation) || deviation < 0) {
    throw InvalidArgument("SampleGaussian: mean = ", mean, ", deviation = ", deviation,
                          "; expected finite numbers and a deviation of at least 0");
  }
}

template <typename T>
void FillUniform(PhiloxState* state, const RandomRows<T>& out, double low, double high) {
  const T last = LastBelow<T>(low, high);
  if constexpr (std::is_same_v<T, double>) {
    const double width = high - low;
    FillFromWords<kPairsPerTile>(state, out, [=](const uint32_t* words, double* elements) {
      for (int i = 0; i < kPairsPerTile; ++i) {
        elements[i] = std::min(low + width * UnitDouble(PairOfWords(words, i)), last);
      }
    });
  } else if constexpr (std::is_same_v<T, float>) {
    const auto first = static_cast<float>(low);
    const auto width = static_cast<float>(high - low);
    const auto kernel = BestRandomKernels().uniform;
    FillByFloats(state, out, [=](PhiloxOrigin origin, int64_t tiles, float* elements) {
      kernel(origin, tiles, elements, first, width, last);
    });
  } else {
    const auto first = static_cast<float>(low);
    const auto width = static_cast<float>(high - low);
    FillFromWords<kWordsPerTile>(state, out, [=](const uint32_t* words, T* elements) {
      constexpr int kShift = 32 - kUniformBits<T>;
      constexpr float kUnit = 1.0f / (1 << kUniformBits<T>);
      for (int i = 0; i < kWordsPerTile; ++i) {
        const T value = T(first + width * (static_cast<float>(words[i] >> kShift) * kUnit));
        elements[i] = value < last ? value : last;
      }
    });
  }
}

template <typename T>
void FillGaussian(PhiloxState* state, const RandomRows<T>& out, double mean, double deviation) {
  CheckGaussian(mean, deviation);
  if constexpr (std::is_same_v<T, double>) {
    FillFromWords<kPairsPerTile>(state, out, [=](const uint32_t* words, double* elements) {
      for (int i = 0; i < kBlocksPerTile; ++i) {
        const double u = PositiveUnitDouble(PairOfWords(words, i));
        const double radius = std::sqrt(-2 * std::log(u));
        const double angle =
            2 * std::numbers::pi * UnitDouble(PairOfWords(words, i + kBlocksPerTile));
        elements[i] = mean + deviation * (radius * std::cos(angle));
        elements[i + kBlocksPerTile] = mean + deviation * (radius * std::sin(angle));
      }
    });
  } else {
    const auto kernel = BestRandomKernels().gaussian;
    FillByFloats(state, out, [=](PhiloxOrigin origin, int64_t tiles, float* elements) {
      kernel(origin, tiles, elements, static_cast<float>(mean), static_cast<float>(deviation));
    });
  }
}

template <typename T>
void FillExponential(PhiloxState* state, const RandomRows<T>& out, double rate) {
  if (!std::isfinite(rate) || rate <= 0) {
    throw InvalidArgument("SampleExponential: rate = ", rate, "; expected above 0 and finite");
  }
  if constexpr (std::is_same_v<T, double>) {
    FillFromWords<kPairsPerTile>(state, out, [=](const uint32_t* words, double* elements) {
      for (int i = 0; i < kPairsPerTile; ++i) {
        elements[i] = -std::log(PositiveUnitDouble(PairOfWords(words, i))) / rate;
      }
    });
  } else {
    const auto kernel = BestRandomKernels().exponential;
    FillByFloats(state, out, [=](PhiloxOrigin origin, int64_t tiles, float* elements) {
      kernel(origin, tiles, elements, static_cast<float>(1 / rate));
    });
  }
}

template <typename T>
void FillBernoulli(PhiloxState* state, const RandomRows<T>& out, double probability) {
  if (!(probability >= 0 && probability <= 1)) {
    throw InvalidArgument("SampleBernoulli: probability = ", probability, "; expected in [0, 1]");
  }
  // A word is below the threshold if it is at most `last`, unless the threshold is 0.
  const auto threshold = static_cast<uint64_t>(std::llround(probability * 0x1p32));
  const auto last = static_cast<uint32_t>(std::max<uint64_t>(threshold, 1) - 1);
  const bool possible = threshold > 0;
  if constexpr (std::is_same_v<T, float>) {
    const auto kernel = BestRandomKernels().bernoulli;
    FillByFloats(state, out, [=](PhiloxOrigin origin, int64_t tiles, float* elements) {
      kernel(origin, tiles, elements, last, possible ? 1.0f : 0.0f);
    });
  } else {
    FillFromWords<kWordsPerTile>(state, out, [=](const uint32_t* words, T* elements) {
      for (int i = 0; i < kWordsPerTile; ++i) elements[i] = OneIf<T>((words[i] <= last) & possible);
    });
  }
}

PhiloxState StateAfter(const PhiloxState& state, int64_t elements) {
  static_assert(kElementsPerTile == kWordsPerTile);
  PhiloxState after = state;
  const int64_t tiles = (elements + kElementsPerTile - 1) / kElementsPerTile;
  after.Reserve(static_cast<uint64_t>(tiles) * kBlocksPerTile);
  return after;
}

template <typename T>
void FillRandInt(PhiloxState* state, const RandomRows<T>& out, int64_t low, int64_t high) {
  int64_t smallest = 0;
  int64_t largest = 0;
  if constexpr (std::is_integral_v<T>) {
    smallest = std::numeric_limits<T>::min();
    largest = std::numeric_limits<T>::max();
  } else {
    constexpr int kDigits = std::is_same_v<T, double>  ? 53
                            : std::is_same_v<T, float> ? 24
                                                       : kUniformBits<T>;
    largest = int64_t{1} << kDigits;
    smallest = -largest;
  }
  if (low >= high || low < smallest || high - 1 > largest) {
    throw InvalidArgument("SampleRandInt: [", low, ", ", high, "); expected low < high within [",
                          smallest, ", ", largest, "]");
  }
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto element = [low](uint64_t offset) {
    const auto value = static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
    return ToElement<T>(value);
  };
  if (range <= uint64_t{1} << 32) {
    FillFromWords<kPairsPerTile>(state, out, [=](const uint32_t* words, T* elements) {
      for (int i = 0; i < kPairsPerTile; ++i) {
        elements[i] = element(ScaleDown(PairOfWords(words, i), range));
      }
    });
    return;
  }
  // A range above 2^32 takes 128 random bits for each number, which keeps the error as small.
  FillFromWords<kBlocksPerTile>(state, out, [=](const uint32_t* words, T* elements) {
    __extension__ using Wide = unsigned __int128;
    for (int i = 0; i < kBlocksPerTile; ++i) {
      const Wide high_part = static_cast<Wide>(PairOfWords(words, i)) * range;
      const uint64_t low_part = ScaleDown(PairOfWords(words, i + kBlocksPerTile), range);
      elements[i] = element(static_cast<uint64_t>((high_part + low_part) >> 64));
    }
  });
}

template <typename T>
void FillMultinomial(PhiloxState* state, const RandomRows<T>& out,
                     std::span<const double> weights) {
  std::vector<double> sums;
  sums.reserve(weights.size());
  double sum = 0;
  size_t last = 0;  // the last index that can be drawn
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      throw InvalidArgument("SampleMultinomial: weights[", i, "] = ", weights[i],
                            "; expected finite and at least 0");
    }
    if (weights[i] > 0) last = i;
    sums.push_back(sum += weights[i]);
  }
  if (!(sum > 0) || !std::isfinite(sum)) {
    throw InvalidArgument("SampleMultinomial: the ", weights.size(), " weights sum to ", sum,
                          "; expected above 0 and finite");
  }
  FillFromWords<kPairsPerTile>(state, out, [&](const uint32_t* words, T* elements) {
    for (int i = 0; i < kPairsPerTile; ++i) {
      const double u = UnitDouble(PairOfWords(words, i)) * sum;
      const auto found = std::upper_bound(sums.begin(), sums.end(), u) - sums.begin();
      elements[i] = ToElement<T>(static_cast<int64_t>(std::min(static_cast<size_t>(found), last)));
    }
  });
}

void ShuffleIndices(PhiloxState* state, int64_t n, void (*swap)(void*, int64_t, int64_t),
                    void* context) {
  if (n < 2) return;
  const PhiloxState from = *state;
  const uint64_t first = state->Reserve(static_cast<uint64_t>(n) / 2);  // n - 1 draws, two a block
  for (int64_t i = n - 1; i > 0; --i) {
    const auto draw = static_cast<uint64_t>(n - 1 - i);
    const PhiloxWords block = from.Block(first + draw / 2);
    const uint32_t* words = block.word + 2 * (draw % 2);
    const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
    swap(context, i, static_cast<int64_t>(ScaleDown(bits, static_cast<uint64_t>(i) + 1)));
  }
}

#define TESSERA_INSTANTIATE_REAL(T)                                               \
  template T LastBelow<T>(double, double);                                        \
  template void FillUniform(PhiloxState*, const RandomRows<T>&, double, double);  \
  template void FillGaussian(PhiloxState*, const RandomRows<T>&, double, double); \
  template void FillExponential(PhiloxState*, const RandomRows<T>&, double);      \
  TESSERA_INSTANTIATE_DISCRETE(T)
#define TESSERA_INSTANTIATE_DISCRETE(T)                                            \
  template void FillBernoulli(PhiloxState*, const RandomRows<T>&, double);         \
  template void FillRandInt(PhiloxState*, const RandomRows<T>&, int64_t, int64_t); \
  template void FillMultinomial(PhiloxState*, const RandomRows<T>&, std::span<const double>)

TESSERA_INSTANTIATE_REAL(float);
TESSERA_INSTANTIATE_REAL(double);
TESSERA_INSTANTIATE_REAL(half_t);
TESSERA_INSTANTIATE_REAL(bfloat16_t);
TESSERA_INSTANTIATE_DISCRETE(int32_t);
TESSERA_INSTANTIATE_DISCRETE(int64_t);
TESSERA_INSTANTIATE_DISCRETE(uint8_t);

#undef TESSERA_INSTANTIATE_REAL
#undef TESSERA_INSTANTIATE_DISCRETE

}  // namespace tessera::tensor_internal
