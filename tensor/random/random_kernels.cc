// The inner loops of random fill are plain loops over the 16 blocks of a tile, which compilers
// vectorize. The target's BUILD entry asks for -O2, because GCC 12 at -O3 unrolls the tile and then
// reaches half the speed. It asks for -fno-math-errno, because the vectorized square root needs it.
// Each loop is compiled for several instruction sets by inlining it into functions with a target
// attribute. Only the two functions that return pointers have external linkage, so no linker can
// mix the versions. All versions give the same results, because of -ffp-contract=off.

#include "tessera/tensor/random/random_kernels.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "tessera/tensor/random/philox.h"

#define TESSERA_RANDOM_INLINE inline __attribute__((always_inline))

namespace tessera::tensor_internal {
namespace {

constexpr int kLanes = kBlocksPerTile;

/// Runs Philox4x32-10 on 16 consecutive counters; words[w][b] is word w of block b.
TESSERA_RANDOM_INLINE void PhiloxTile(PhiloxOrigin origin, int64_t tile,
                                      uint32_t (&words)[4][kLanes]) {
  const uint64_t first = origin.first_block + static_cast<uint64_t>(tile) * kLanes;
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t number = first + static_cast<uint64_t>(i);
    words[0][i] = static_cast<uint32_t>(number);
    words[1][i] = static_cast<uint32_t>(number >> 32);
    words[2][i] = static_cast<uint32_t>(origin.stream);
    words[3][i] = static_cast<uint32_t>(origin.stream >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(origin.key);
  uint32_t key1 = static_cast<uint32_t>(origin.key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * words[0][i];
      const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * words[2][i];
      words[0][i] = static_cast<uint32_t>(product1 >> 32) ^ words[1][i] ^ key0;
      words[1][i] = static_cast<uint32_t>(product1);
      words[2][i] = static_cast<uint32_t>(product0 >> 32) ^ words[3][i] ^ key1;
      words[3][i] = static_cast<uint32_t>(product0);
    }
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
}

/// Returns (k + 1/2) 2^-31, rounded, which is in (0, 1]; k is the word without its last bit. Every
/// machine converts signed integers in one instruction, but not unsigned ones.
TESSERA_RANDOM_INLINE float UnitInterval(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 1)) * 0x1p-31f + 0x1p-32f;
}

/// Returns the natural logarithm of a normal number, within 2 ulp on (0, 1]. For x = 2^e m with
/// sqrt(1/2) <= m < sqrt(2), the polynomial for log(m) is logf's in S. L. Moshier's Cephes library
/// (1984-1992).
TESSERA_RANDOM_INLINE float Log(float x) {
  constexpr uint32_t kSqrtHalf = 0x3F3504F3u;
  const uint32_t bits = std::bit_cast<uint32_t>(x) - kSqrtHalf;
  const float e = static_cast<float>(static_cast<int32_t>(bits) >> 23);
  const float m = std::bit_cast<float>((bits & 0x007FFFFFu) + kSqrtHalf);
  const float f = m - 1.0f;
  const float f2 = f * f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  // log 2 has two parts, so that the product of e and the first part is exact.
  const float low = p * f * f2 + e * -2.12194440e-4f - 0.5f * f2;
  return f + low + e * 0.693359375f;
}

/// Computes sine and cosine of 2 pi k 2^-32 for the signed word k, a uniform angle in [-pi, pi).
/// The quadrant is subtracted in integers, which is exact. The polynomials on [-pi/4, pi/4] are
/// those of sinf and cosf in Cephes.
TESSERA_RANDOM_INLINE void SinCos(uint32_t word, float& sine, float& cosine) {
  constexpr float kAngle = 1.4629180792671596e-9f;  // pi 2^-31
  const uint32_t quadrant = (word + 0x20000000u) >> 30;
  const auto rest = static_cast<int32_t>(word - (quadrant << 30));
  const float x = static_cast<float>(rest) * kAngle;
  const float z = x * x;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z -
      0.5f * z + 1.0f;
  const uint32_t swap = 0u - (quadrant & 1u);
  const uint32_t s_bits = std::bit_cast<uint32_t>(s);
  const uint32_t c_bits = std::bit_cast<uint32_t>(c);
  const uint32_t sine_sign = (quadrant & 2u) << 30;
  const uint32_t cosine_sign = ((quadrant + 1u) & 2u) << 30;
  sine = std::bit_cast<float>(((s_bits & ~swap) | (c_bits & swap)) ^ sine_sign);
  cosine = std::bit_cast<float>(((c_bits & ~swap) | (s_bits & swap)) ^ cosine_sign);
}

TESSERA_RANDOM_INLINE void Words(PhiloxOrigin origin, int64_t tiles, uint32_t* out) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    uint32_t words[4][kLanes];
    PhiloxTile(origin, tile, words);
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < kLanes; ++i) out[tile * kWordsPerTile + w * kLanes + i] = words[w][i];
    }
  }
}

TESSERA_RANDOM_INLINE void Uniform(PhiloxOrigin origin, int64_t tiles, float* out, float low,
                                   float width, float last) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    uint32_t words[4][kLanes];
    PhiloxTile(origin, tile, words);
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < kLanes; ++i) {
        const float u = static_cast<float>(static_cast<int32_t>(words[w][i] >> 8)) * 0x1p-24f;
        const float value = low + width * u;
        out[tile * kWordsPerTile + w * kLanes + i] = value < last ? value : last;
      }
    }
  }
}

/// G. E. P. Box and M. E. Muller, A Note on the Generation of Random Normal Deviates (1958).
TESSERA_RANDOM_INLINE void Gaussian(PhiloxOrigin origin, int64_t tiles, float* out, float mean,
                                    float deviation) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    uint32_t words[4][kLanes];
    PhiloxTile(origin, tile, words);
    for (int w = 0; w < 4; w += 2) {
      float* first = out + tile * kWordsPerTile + w * kLanes;
      for (int i = 0; i < kLanes; ++i) {
        // The logarithm of 1 may round to a value slightly above 0.
        const float square = -2.0f * Log(UnitInterval(words[w][i]));
        const float radius = std::sqrt(square > 0.0f ? square : 0.0f);
        float sine = 0;
        float cosine = 0;
        SinCos(words[w + 1][i], sine, cosine);
        first[i] = mean + deviation * (radius * cosine);
        first[kLanes + i] = mean + deviation * (radius * sine);
      }
    }
  }
}

TESSERA_RANDOM_INLINE void Exponential(PhiloxOrigin origin, int64_t tiles, float* out,
                                       float scale) {
  for (int64_t tile = 0; tile < tiles; ++tile) {
    uint32_t words[4][kLanes];
    PhiloxTile(origin, tile, words);
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < kLanes; ++i) {
        const float value = -Log(UnitInterval(words[w][i]));
        out[tile * kWordsPerTile + w * kLanes + i] = (value > 0.0f ? value : 0.0f) * scale;
      }
    }
  }
}

TESSERA_RANDOM_INLINE void Bernoulli(PhiloxOrigin origin, int64_t tiles, float* out, uint32_t last,
                                     float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    uint32_t words[4][kLanes];
    PhiloxTile(origin, tile, words);
    for (int w = 0; w < 4; ++w) {
      for (int i = 0; i < kLanes; ++i) {
        const uint32_t mask = words[w][i] <= last ? ~0u : 0u;
        out[tile * kWordsPerTile + w * kLanes + i] = std::bit_cast<float>(mask & bits);
      }
    }
  }
}

/// Defines the constant `Name`, a table of all kernels compiled under the attributes.
#define TESSERA_RANDOM_KERNELS(Name, attributes)                                                   \
  attributes void Name##Words(PhiloxOrigin origin, int64_t tiles, uint32_t* out) {                 \
    Words(origin, tiles, out);                                                                     \
  }                                                                                                \
  attributes void Name##Uniform(PhiloxOrigin origin, int64_t tiles, float* out, float low,         \
                                float width, float last) {                                         \
    Uniform(origin, tiles, out, low, width, last);                                                 \
  }                                                                                                \
  attributes void Name##Gaussian(PhiloxOrigin origin, int64_t tiles, float* out, float mean,       \
                                 float deviation) {                                                \
    Gaussian(origin, tiles, out, mean, deviation);                                                 \
  }                                                                                                \
  attributes void Name##Exponential(PhiloxOrigin origin, int64_t tiles, float* out, float scale) { \
    Exponential(origin, tiles, out, scale);                                                        \
  }                                                                                                \
  attributes void Name##Bernoulli(PhiloxOrigin origin, int64_t tiles, float* out, uint32_t last,   \
                                  float value) {                                                   \
    Bernoulli(origin, tiles, out, last, value);                                                    \
  }                                                                                                \
  constexpr RandomKernels Name = {Name##Words, Name##Uniform, Name##Gaussian, Name##Exponential,   \
                                  Name##Bernoulli}

TESSERA_RANDOM_KERNELS(kBaseline, );
#if defined(__x86_64__)
TESSERA_RANDOM_KERNELS(kAvx2, __attribute__((target("avx2"))));
#endif

struct Versions {
  const RandomKernels* all[3] = {&kBaseline, nullptr, nullptr};
  const RandomKernels* best = &kBaseline;
};

Versions FindVersions() {
  Versions versions;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) versions.best = versions.all[1] = &kAvx2;
#endif
  return versions;
}

const Versions& KnownVersions() {
  static const Versions versions = FindVersions();
  return versions;
}

}  // namespace

const RandomKernels& BestRandomKernels() { return *KnownVersions().best; }

const RandomKernels* const* AllRandomKernels() { return KnownVersions().all; }

}  // namespace tessera::tensor_internal
