// _contrib_fft, _contrib_ifft: the discrete Fourier transform along the last axis, and the real
// part of its inverse without the factor 1 / d.
//
//   _contrib_fft:   y[2k] + i y[2k + 1] = sum over n of x[n] exp(-2 pi i k n / d)
//   _contrib_ifft:  y[n] = the real part of the sum over k of
//                          (x[2k] + i x[2k + 1]) exp(2 pi i k n / d)
//
// Each is the other's gradient. Shapes: fft from (…, d) to (…, 2 d), ifft from (…, 2 d) to (…, d).
// Types: float32, float64, float16, bfloat16, computed in float64. Runs on the CPU.
//
// Cost: O(d log d) for each row, whatever d is. A d that is a power of 2 takes the algorithm of
// J. W. Cooley and J. W. Tukey (1965), An algorithm for the machine calculation of complex Fourier
// series. Any other d takes that of L. I. Bluestein (1970), A linear filtering approach to the
// computation of discrete Fourier transform, which is a convolution by transforms of the least
// power of 2 that is at least 2 d - 1.

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <utility>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/base/error.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: elements and registration
using base_internal::At;

using Complex = std::complex<double>;
using ComplexRow = std::vector<Complex>;

/// Returns a * b. The operator of std::complex looks for infinite factors, which takes longer.
Complex Product(const Complex& a, const Complex& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Returns exp(-2 pi i numerator / denominator).
Complex RootOfUnity(index_t numerator, index_t denominator) {
  const double turn = static_cast<double>(numerator) / static_cast<double>(denominator);
  return std::polar(1.0, -2 * std::numbers::pi * turn);
}

/// The transform of rows whose length is a power of 2.
class PowerOfTwoTransform {
 public:
  explicit PowerOfTwoTransform(index_t length) : length_(length), roots_(At(length / 2)) {
    for (index_t k = 0; k < length / 2; ++k) roots_[At(k)] = RootOfUnity(k, length);
  }

  /// Transforms a row in place.
  void Run(Complex* x) const {
    ReverseBits(x);
    for (index_t half = 1; half < length_; half *= 2) {
      const index_t stride = length_ / (2 * half);
      for (index_t first = 0; first < length_; first += 2 * half) {
        for (index_t k = 0; k < half; ++k) {
          Complex &even = x[first + k], &odd = x[first + k + half];
          const Complex turned = Product(roots_[At(k * stride)], odd);
          odd = even - turned;
          even += turned;
        }
      }
    }
  }

 private:
  /// Moves each element to the position whose binary digits are its own in reverse.
  void ReverseBits(Complex* x) const {
    for (index_t i = 0, reverse = 0; i < length_; ++i) {
      if (i < reverse) std::swap(x[i], x[reverse]);
      index_t bit = length_ / 2;
      for (; bit > 0 && (reverse & bit) != 0; bit /= 2) reverse ^= bit;
      reverse |= bit;
    }
  }

  const index_t length_;
  ComplexRow roots_;  // exp(-2 pi i k / length)
};

/// The transform of rows of any length of at least 1.
class Transform {
 public:
  explicit Transform(index_t length)
      : length_(length), padded_(PaddedLength(length)), fast_(padded_) {
    if (padded_ == length_) return;
    // Bluestein: k n = (k^2 + n^2 - (k - n)^2) / 2, so that with chirp[k] = exp(-pi i k^2 / d),
    // y[k] = chirp[k] times the sum over n of x[n] chirp[n] conj(chirp[k - n]).
    chirp_.resize(At(length_));
    filter_.resize(At(padded_));
    index_t square = 0;  // k^2 modulo 2 d
    for (index_t k = 0; k < length_; ++k) {
      chirp_[At(k)] = RootOfUnity(square, 2 * length_);
      filter_[At(k)] = filter_[At((padded_ - k) % padded_)] = std::conj(chirp_[At(k)]);
      square = (square + 2 * k + 1) % (2 * length_);
    }
    fast_.Run(filter_.data());
  }

  /// Returns the number of elements of the row that Run works in.
  index_t padded() const { return padded_; }

  /// Transforms the first `length` elements of a row of padded() elements, in place.
  void Run(Complex* x) const {
    if (padded_ == length_) return fast_.Run(x);
    for (index_t n = 0; n < length_; ++n) x[n] = Product(x[n], chirp_[At(n)]);
    std::fill(x + length_, x + padded_, Complex());
    fast_.Run(x);
    // The inverse transform is the conjugate of the transform of the conjugates.
    for (index_t k = 0; k < padded_; ++k) x[k] = std::conj(Product(x[k], filter_[At(k)]));
    fast_.Run(x);
    const double scale = 1 / static_cast<double>(padded_);
    for (index_t k = 0; k < length_; ++k) x[k] = Product(std::conj(x[k]), chirp_[At(k)]) * scale;
  }

 private:
  static index_t PaddedLength(index_t length) {
    const bool is_power = (length & (length - 1)) == 0;
    index_t padded = 1;
    while (padded < (is_power ? length : 2 * length - 1)) padded *= 2;
    return padded;
  }

  const index_t length_, padded_;
  const PowerOfTwoTransform fast_;
  ComplexRow chirp_, filter_;
};

/// Calls body(row, x) for each row, with x a row in which the transform works.
template <typename Body>
void ForEachRow(index_t rows, index_t padded, const Body& body) {
  constexpr index_t kCost = 30;  // of an element
  ParallelFor(rows, StepsPerTask(padded, kCost), [&](index_t begin, index_t end) {
    ComplexRow x(At(padded));
    for (index_t row = begin; row < end; ++row) body(row, x.data());
  });
}

/// Transforms rows of d floating-point numbers into rows of d complex numbers.
void RunForward(const TBlob& in, OpReqType req, const TBlob& out) {
  if (req == kNullOp || in.Size() == 0) return;
  const index_t d = in.shape_[in.shape_.ndim() - 1];
  const Transform transform(d);
  ForEachRow(in.Size() / d, transform.padded(), [&](index_t row, Complex* x) {
    // A complex number is an array of its two parts, so that x has the place of 2 d numbers.
    auto* const numbers = reinterpret_cast<double*>(x);
    RowReader<double>(in).Copy(row * d, d, numbers);
    for (index_t n = d - 1; n >= 0; --n) x[n] = numbers[n];
    transform.Run(x);
    RowWriter<double>(out, req).Write(row * 2 * d, 2 * d, numbers);
  });
}

/// Transforms rows of d complex numbers back into rows of d floating-point numbers.
void RunInverse(const TBlob& in, OpReqType req, const TBlob& out) {
  if (req == kNullOp || out.Size() == 0) return;
  const index_t d = out.shape_[out.shape_.ndim() - 1];
  const Transform transform(d);
  ForEachRow(out.Size() / d, transform.padded(), [&](index_t row, Complex* x) {
    auto* const numbers = reinterpret_cast<double*>(x);
    RowReader<double>(in).Copy(row * 2 * d, 2 * d, numbers);
    // The inverse is the conjugate of the transform of the conjugates, with the same real part.
    for (index_t k = 0; k < d; ++k) x[k] = std::conj(x[k]);
    transform.Run(x);
    for (index_t n = 0; n < d; ++n) numbers[n] = x[n].real();
    RowWriter<double>(out, req).Write(row * d, d, numbers);
  });
}

struct FourierParameters {
  int compute_size = 128;

  static void Declare(ParameterSchema<FourierParameters>& schema) {
    schema.Optional("compute_size", &FourierParameters::compute_size,
                    "rows that MXNet transforms at once; it changes nothing here");
  }
};

/// The property of the transform, or of the inverse.
template <bool kInverse>
class FourierProperty final : public ParameterizedProperty<FourierParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    TShape &real = kInverse ? out : data, &complex = kInverse ? data : out;
    MergeShape(*this, kReal, &real, Resized(kComplex, complex, /*doubled=*/false));
    MergeShape(*this, kComplex, &complex, Resized(kReal, real, /*doubled=*/true));
    MergeShape(*this, kReal, &real, Resized(kComplex, complex, /*doubled=*/false));
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    const Term g(builder, builder->OutGrad(0));
    SetInGrad(builder, 0, Apply(kInverse ? "_contrib_fft" : "_contrib_ifft", {g}));
    return true;
  }

 private:
  static constexpr const char* kReal = kInverse ? "output" : "data";
  static constexpr const char* kComplex = kInverse ? "data" : "output";

  /// Returns a value's shape with a last axis of twice or half as many elements.
  TShape Resized(const char* value, const TShape& shape, bool doubled) const {
    if (!shape.rank_known()) return TShape();
    if (shape.ndim() == 0) {
      throw InvalidArgument(TypeString(), ": ", value, " is a scalar, expected at least one axis");
    }
    TShape resized = shape;
    index_t& last = resized[shape.ndim() - 1];
    if (last == TShape::kUnknown) return resized;
    if (doubled) {
      last = ProductOfExtents(*this, value, {last, 2}, 0, 2);
    } else if (last % 2 != 0) {
      throw InvalidArgument(TypeString(), ": ", value, " has shape ", shape,
                            ", expected a last axis of pairs: real and imaginary parts");
    } else {
      last /= 2;
    }
    return resized;
  }
};

template <bool kInverse>
class FourierOperator final : public Operator {
 public:
  explicit FourierOperator(const FourierParameters&) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    (kInverse ? RunInverse : RunForward)(in_data[0], req[0], out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    (kInverse ? RunForward : RunInverse)(out_grad[0], req[0], in_grad[0]);
  }
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<FourierProperty<false>, FourierOperator<false>>(
        TESSERA_TABLE_PLACE, "_contrib_fft",
        "The discrete Fourier transform along the last axis, real and imaginary parts in turns."),
    RegisterTypedOperator<FourierProperty<true>, FourierOperator<true>>(
        TESSERA_TABLE_PLACE, "_contrib_ifft",
        "The real part of the inverse Fourier transform, without the factor 1 / d."),
};

}  // namespace
}  // namespace tessera
