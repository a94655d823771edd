#ifndef TESSERA_OPS_LOOPS_ROW_STATISTICS_H_
#define TESSERA_OPS_LOOPS_ROW_STATISTICS_H_

#include <cmath>

#include "tessera/ops/loops/row_loop.h"

namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the moving average after one more value: momentum * average + (1 - momentum) * value. A
/// summand whose factor is 0 is not read.
inline double MovedAverage(double average, double momentum, double value) {
  if (momentum == 0) return value;
  if (momentum == 1) return average;
  return average * momentum + value * (1 - momentum);
}

inline index_t LengthOf(index_t n) { return n; }
inline index_t LengthOf(const RowSegments& row) { return row.Length(); }

/// Returns the mean of a row, also if its sum overflows T. A row is its length or its segments.
template <typename T, typename Row>
double MeanOf(const T* x, const Row& row) {
  const index_t n = LengthOf(row);
  const double count = static_cast<double>(n > 0 ? n : 1);
  const double mean = SumOf<T>(row, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; }) / count;
  if (std::isfinite(mean)) return mean;
  using Wide = SquaresOf<T>;
  const Wide sum =
      SumOf<Wide>(row, [=](index_t i) TESSERA_LOOP_BODY { return static_cast<Wide>(x[i]); });
  return static_cast<double>(sum / static_cast<Wide>(count));
}

/// Returns the sum of the squares of the distances of a row's elements from `center`; see
/// SumOfSquares.
template <typename T, typename Row>
SquaresOf<T> SquaredDistances(const T* x, T center, const Row& row, double summand) {
  return SumOfSquares<T>(row, summand, [=](index_t i, auto one) TESSERA_LOOP_BODY {
    using In = decltype(one);
    return static_cast<In>(x[i]) - static_cast<In>(center);
  });
}

/// Mean and deviation of a row, for the operators that normalize rows. They are finite where the
/// row is, also if squares overflow T, and not 0 because squares underflow.
template <typename T>
struct RowStatistics {
  T mean = 0;
  double std = 1;  ///< sqrt(variance + eps)
  T inverse = 1;   ///< 1 / std

  RowStatistics(const T* x, index_t n, double eps) {
    const double count = static_cast<double>(n > 0 ? n : 1);
    mean = static_cast<T>(MeanOf(x, n));
    std = static_cast<double>(std::sqrt(SquaredDistances(x, mean, n, eps * count) / count + eps));
    inverse = static_cast<T>(1 / std);
  }

  /// The sums over a row of g * gamma[i] and of g * gamma[i] * (x - mean) / std.
  struct GradientSums {
    double head;
    double dot;
  };
  /// Returns the sums for the head gradient g. gamma may be null, for ones.
  GradientSums SumsOfGradient(const T* g, const T* x, const T* gamma, index_t n) const {
    const T center = mean, invstd = inverse;
    if (gamma == nullptr) {
      const auto [head, dot] = SumsOf<T>(
          n, [=](index_t i) TESSERA_LOOP_BODY { return g[i]; },
          [=](index_t i) TESSERA_LOOP_BODY { return g[i] * ((x[i] - center) * invstd); });
      return {head, dot};
    }
    const auto [head, dot] = SumsOf<T>(
        n, [=](index_t i) TESSERA_LOOP_BODY { return g[i] * gamma[i]; },
        [=](index_t i) TESSERA_LOOP_BODY { return g[i] * gamma[i] * ((x[i] - center) * invstd); });
    return {head, dot};
  }

  /// Writes the gradient of x for the head gradient g of (x - mean) / std * gamma[i] * factor,
  /// whose sums are SumsOfGradient(g, x, gamma, n). gamma may be null, for ones. dx may be g or x.
  void Gradient(const GradientSums& sums, const T* g, const T* x, const T* gamma, T factor,
                index_t n, T* dx) const {
    const T center = mean, scale = inverse * factor;
    const T count = static_cast<T>(n > 0 ? n : 1);
    const T shift = static_cast<T>(sums.head) / count;
    const T slope = static_cast<T>(sums.dot) * inverse / count;
    if (gamma == nullptr) {
      ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
        dx[i] = (g[i] - shift - (x[i] - center) * slope) * scale;
      });
      return;
    }
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      dx[i] = (g[i] * gamma[i] - shift - (x[i] - center) * slope) * scale;
    });
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ROW_STATISTICS_H_
