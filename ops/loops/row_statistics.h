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

/// Mean and deviation of a row, for the operators that normalize rows.
template <typename T>
struct RowStatistics {
  T mean = 0;
  double std = 1;  ///< sqrt(variance + eps)
  T inverse = 1;   ///< 1 / std

  RowStatistics(const T* x, index_t n, double eps) {
    const double count = static_cast<double>(n > 0 ? n : 1);
    mean = static_cast<T>(SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; }) / count);
    const T center = mean;
    const double squares =
        SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return (x[i] - center) * (x[i] - center); });
    std = std::sqrt(squares / count + eps);
    inverse = static_cast<T>(1 / std);
  }

  /// Writes the gradient of x for the head gradient g of (x - mean) / std * gamma[i] * factor.
  /// gamma may be null, for ones. dx may be g or x.
  void Gradient(const T* g, const T* x, const T* gamma, T factor, index_t n, T* dx) const {
    const T center = mean, invstd = inverse;
    const T count = static_cast<T>(n > 0 ? n : 1);
    const T scale = invstd * factor;
    if (gamma == nullptr) {
      const T sum = static_cast<T>(SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return g[i]; }));
      const T dot = static_cast<T>(
          SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return g[i] * (x[i] - center); }));
      const T shift = sum / count, slope = dot * invstd * invstd / count;
      ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
        dx[i] = (g[i] - shift - (x[i] - center) * slope) * scale;
      });
      return;
    }
    const T sum =
        static_cast<T>(SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return g[i] * gamma[i]; }));
    const T dot = static_cast<T>(SumOf<T>(
        n, [=](index_t i) TESSERA_LOOP_BODY { return g[i] * gamma[i] * (x[i] - center); }));
    const T shift = sum / count, slope = dot * invstd * invstd / count;
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
      dx[i] = (g[i] * gamma[i] - shift - (x[i] - center) * slope) * scale;
    });
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_ROW_STATISTICS_H_
