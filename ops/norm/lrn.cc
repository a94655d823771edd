// LRN: local response normalization over neighbouring channels.
//
//   out[c] = x[c] s[c]^-beta,  s[c] = knorm + alpha / nsize * sum of x^2 over the window of c
//   d x[c] = g[c] s[c]^-beta
//            - 2 alpha beta / nsize x[c] * sum of g[d] x[d] s[d]^(-beta - 1) over the window of c
//
// A window has the channels at most (nsize - 1) / 2 away. Squares may overflow. Shapes: data
// (samples, channels, …); out like data. Types: float32, float64, float16, bfloat16; computed in
// float32 or float64. Runs on the CPU. Source: A. Krizhevsky, I. Sutskever, G. Hinton, ImageNet
// classification with deep convolutional neural networks (2012), section 3.3.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

struct LRNParameters {
  float alpha = 1e-4f;
  float beta = 0.75f;
  float knorm = 2;
  int64_t nsize = 0;

  static void Declare(ParameterSchema<LRNParameters>& schema) {
    using P = LRNParameters;
    schema.Optional("alpha", &P::alpha, "factor of the mean of squares");
    schema.Optional("beta", &P::beta, "the exponent");
    schema.Optional("knorm", &P::knorm, "added to the mean of squares");
    schema.Required("nsize", &P::nsize, "the number of channels in a window");
    schema.Range(1, 1 << 30);
  }
};

class LRNProperty final : public ParameterizedProperty<LRNParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &(*out_shape)[0]}});
    if (!data.rank_known()) return false;
    if (data.ndim() < 2) {
      throw InvalidArgument(TypeString(), ": data has shape ", data,
                            ", expected at least (samples, channels)");
    }
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0]};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
};

/// Computes out[i] = the sum of in[j] over |i - j| <= half.
template <typename T>
void WindowSums(const T* in, index_t half, index_t n, T* out) {
  std::copy_n(in, n, out);
  for (index_t d = 1; d <= std::min(half, n - 1); ++d) {
    ForEach(n - d, [=](index_t i) TESSERA_LOOP_BODY { out[i] += in[i + d]; });
    ForEach(n - d, [=](index_t i) TESSERA_LOOP_BODY { out[i + d] += in[i]; });
  }
}

class LRNOperator final : public Operator {
 public:
  explicit LRNOperator(const LRNParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, 1);
    const index_t n = rows.Length();
    RowCall call(rows);
    call.Read(in_data[0]).Write(out_data[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(
          kCost, [&](index_t, const T* const* in, T* const* out) { ForwardRow(in[0], n, out[0]); });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, 1);
    const index_t n = rows.Length();
    RowCall call(rows);
    call.Read(out_grad[0]).Read(in_data[0]).Write(in_grad[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(kCost, [&](index_t, const T* const* in, T* const* out) {
        BackwardRow(in[0], in[1], n, out[0]);
      });
    });
  }

 private:
  static constexpr index_t kCost = 20;

  index_t Half() const { return (param_.nsize - 1) / 2; }

  template <typename T>
  void ForwardRow(const T* x, index_t n, T* y) const {
    std::vector<T> scratch(static_cast<size_t>(2 * n));
    T* const scales = scratch.data();
    T* const powers = scales + n;
    if (!Scales(x, n, scales, powers)) {
      using Wide = SquaresOf<T>;
      const std::vector<Wide> in(x, x + n);
      std::vector<Wide> out(in.size());
      ForwardRow(in.data(), n, out.data());
      std::transform(out.begin(), out.end(), y, [](Wide value) { return static_cast<T>(value); });
      return;
    }
    Powers(scales, n, powers);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { y[i] = x[i] * powers[i]; });
  }

  /// dx may be g.
  template <typename T>
  void BackwardRow(const T* g, const T* x, index_t n, T* dx) const {
    std::vector<T> scratch(static_cast<size_t>(4 * n));
    T* const scales = scratch.data();
    T* const powers = scales + n;
    T* const terms = powers + n;
    T* const sums = terms + n;
    if (!Scales(x, n, scales, powers)) {
      using Wide = SquaresOf<T>;
      const std::vector<Wide> head(g, g + n), in(x, x + n);
      std::vector<Wide> out(in.size());
      BackwardRow(head.data(), in.data(), n, out.data());
      std::transform(out.begin(), out.end(), dx, [](Wide value) { return static_cast<T>(value); });
      return;
    }
    const T factor =
        static_cast<T>(2.0 * static_cast<double>(param_.alpha) * static_cast<double>(param_.beta) /
                       static_cast<double>(param_.nsize));
    Powers(scales, n, powers);
    ForEach(n,
            [=](index_t i) TESSERA_LOOP_BODY { terms[i] = g[i] * x[i] * powers[i] / scales[i]; });
    WindowSums(terms, Half(), n, sums);
    ForEach(n, [=](index_t i)
                   TESSERA_LOOP_BODY { dx[i] = g[i] * powers[i] - factor * x[i] * sums[i]; });
  }

  /// Computes s; `squares` is scratch memory of n elements. Returns whether squares neither
  /// overflowed nor underflowed so that s is wrong; there is no wider type than long double.
  template <typename T>
  bool Scales(const T* x, index_t n, T* scales, T* squares) const {
    const T factor =
        static_cast<T>(static_cast<double>(param_.alpha) / static_cast<double>(param_.nsize));
    const T knorm = static_cast<T>(param_.knorm);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { squares[i] = x[i] * x[i]; });
    WindowSums(squares, Half(), n, scales);
    ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { scales[i] = knorm + factor * scales[i]; });
    if constexpr (std::is_same_v<T, SquaresOf<T>>) return true;
    const auto is_wrong = [=](index_t i) TESSERA_LOOP_BODY {
      const bool is_right =
          scales[i] >= kLeastSumOfSquares<T> && scales[i] <= std::numeric_limits<T>::max();
      return is_right ? T(0) : T(1);
    };
    return SumOf<T>(n, is_wrong) == 0;
  }

  /// Computes scales^-beta.
  template <typename T>
  void Powers(const T* scales, index_t n, T* powers) const {
    if (param_.beta == 0.75f) {
      ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
        const T root = std::sqrt(scales[i]);
        powers[i] = T(1) / (root * std::sqrt(root));
      });
      return;
    }
    const T exponent = -static_cast<T>(param_.beta);
    for (index_t i = 0; i < n; ++i) powers[i] = std::pow(scales[i], exponent);
  }

  const LRNParameters param_;
};

[[maybe_unused]] const bool kRegistered = RegisterTypedOperator<LRNProperty, LRNOperator>(
    TESSERA_TABLE_PLACE, "LRN", "Local response normalization over neighbouring channels.");

}  // namespace
}  // namespace tessera
