// LayerNorm: each row along `axis` with mean 0 and variance 1, then scaled and shifted.
//
//   out = (x - mean) / std * gamma + beta,  std = sqrt(var + eps)
//   d x = (h - mean(h) - xhat mean(h xhat)) / std,  h = g gamma,  xhat = (x - mean) / std
//   d gamma = sum over the rows of g xhat,  d beta = sum over the rows of g
//
// mean(.) is over the row. The outputs mean and std are shown with output_mean_var. Shapes: data of
// rank 1 or higher; gamma and beta (extent of axis); mean and std like data with extent 1 on axis.
// Types: float32, float64, float16, bfloat16; rows are computed in float32 or float64. Runs on the
// CPU.
#include <cmath>
#include <optional>

#include "tessera/ops/loops/axes.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/row_statistics.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/norm/norm_gradient.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

struct LayerNormParameters {
  int64_t axis = -1;
  float eps = 1e-5f;
  bool output_mean_var = false;

  static void Declare(ParameterSchema<LayerNormParameters>& schema) {
    using P = LayerNormParameters;
    schema.Optional("axis", &P::axis, "the axis that is normalized");
    schema.Optional("eps", &P::eps, "added to the variance");
    schema.Range(0);
    schema.Optional("output_mean_var", &P::output_mean_var, "show the outputs mean and std");
  }
};

class LayerNormProperty final : public ParameterizedProperty<LayerNormParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "gamma", "beta"}; }
  std::vector<std::string> ListOutputs() const override { return {"output", "mean", "std"}; }
  int NumVisibleOutputs() const override { return param_.output_mean_var ? 3 : 1; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    TShape& gamma = (*in_shape)[1];
    TShape& beta = (*in_shape)[2];
    TShape& out = (*out_shape)[0];
    TShape& mean = (*out_shape)[1];
    TShape& std = (*out_shape)[2];
    MergeEqualShapes(*this, {{"mean", &mean}, {"std", &std}});
    if (!data.rank_known() && mean.rank_known()) data = TShape::OfRank(mean.ndim());
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    TShape length = TShape::OfRank(1);
    if (!data.rank_known()) {
      MergeEqualShapes(*this, {{"data's axis", &length}, {"gamma", &gamma}, {"beta", &beta}});
      return false;
    }
    const int axis = AxisPosition(*this, "axis", param_.axis, data);
    length[0] = data[axis];
    MergeEqualShapes(*this, {{"data's axis", &length}, {"gamma", &gamma}, {"beta", &beta}});
    data[axis] = length[0];
    TShape rows = data;
    rows[axis] = 1;
    MergeEqualShapes(*this, {{"data's rows", &rows}, {"mean", &mean}, {"std", &std}});
    for (int i = 0; i < data.ndim(); ++i) {
      if (i != axis) data[i] = rows[i];
    }
    out = data;
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    // Along the last axis, gamma broadcasts to the data.
    const auto turned = [this](const Term& term) {
      if (param_.axis == -1) return term;
      return Apply("SwapAxis", {term}, {{"dim1", std::to_string(param_.axis)}, {"dim2", "-1"}});
    };
    const Term g(builder, builder->OutGrad(0)), x(builder, builder->Input(0)),
        gamma(builder, builder->Input(1));
    const NormGradients gradients =
        BuildNormGradients(turned(g), turned(x), gamma.Broadcast(), static_cast<double>(param_.eps),
                           /*axis=*/"-1", /*channel_axis=*/"-1");
    SetInGrad(builder, 0, turned(gradients.x));
    SetInGrad(builder, 1, gradients.gamma);
    SetInGrad(builder, 2, gradients.beta);
    return true;
  }
};

/// The sums over rows that are the gradients of gamma and beta, made of sums over groups of rows,
/// so that they do not depend on threads.
template <typename T>
class RowSums {
 public:
  RowSums(index_t rows, index_t n) : n_(n) {
    // At most 64 groups, and 64 MiB of floats for them.
    const index_t groups = std::clamp<index_t>((index_t{1} << 23) / std::max<index_t>(1, n), 1, 64);
    rows_per_group_ = std::max<index_t>(1, (rows + groups - 1) / groups);
    num_groups_ = (rows + rows_per_group_ - 1) / rows_per_group_;
    sums_.assign(static_cast<size_t>(2 * num_groups_ * n), T(0));
  }
  index_t rows_per_group() const { return rows_per_group_; }
  T* OfGamma(index_t row) { return sums_.data() + row / rows_per_group_ * 2 * n_; }
  T* OfBeta(index_t row) { return OfGamma(row) + n_; }

  void Store(const TBlob& gamma, OpReqType gamma_req, const TBlob& beta, OpReqType beta_req) {
    std::vector<T> totals(static_cast<size_t>(2 * n_), T(0));
    T* const total = totals.data();
    for (index_t group = 0; group < num_groups_; ++group) {
      const T* const part = OfGamma(group * rows_per_group_);
      ForEach(2 * n_, [=](index_t i) TESSERA_LOOP_BODY { total[i] += part[i]; });
    }
    RowWriter<T>(gamma, gamma_req).Write(0, n_, total);
    RowWriter<T>(beta, beta_req).Write(0, n_, total + n_);
  }

 private:
  const index_t n_;
  index_t rows_per_group_;
  index_t num_groups_;
  std::vector<T> sums_;
};

class LayerNormOperator final : public Operator {
 public:
  LayerNormOperator(const LayerNormParameters& param, std::span<const TShape> in_shape)
      : param_(param), axis_(AxisPosition(param.axis, in_shape[0].ndim())) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, axis_);
    const index_t n = rows.Length();
    const double eps = static_cast<double>(param_.eps);
    RowCall call(rows);
    call.Read(in_data[0]).Write(out_data[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> gammas(in_data[1]), betas(in_data[2]);
      const RowWriter<T> means(out_data[1], req[1]), deviations(out_data[2], req[2]);
      const T* const gamma = gammas.data();
      const T* const beta = betas.data();
      call.Run<T>(1, [&](index_t row, const T* const* in, T* const* out) {
        const RowStatistics<T> s(in[0], n, eps);
        const T* const x = in[0];
        T* const y = out[0];
        const T mean = s.mean, factor = s.inverse;
        ForEach(n, [=](index_t i)
                       TESSERA_LOOP_BODY { y[i] = (x[i] - mean) * factor * gamma[i] + beta[i]; });
        means.Write(row, mean);
        deviations.Write(row, static_cast<T>(s.std));
      });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    const RowLayout rows = RowLayout::Along(in_data[0].shape_, axis_);
    const index_t n = rows.Length();
    const double eps = static_cast<double>(param_.eps);
    const bool sums_wanted = req[1] != kNullOp || req[2] != kNullOp;
    RowCall call(rows);
    call.Read(out_grad[0]).Read(in_data[0]).Write(in_grad[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      const Elements<T> gammas(in_data[1]);
      const T* const gamma = gammas.data();
      RowSums<T> sums(sums_wanted ? rows.NumRows() : 0, n);
      const auto body = [&](index_t row, const T* const* in, T* const* out) {
        const T* const g = in[0];
        const T* const x = in[1];
        const RowStatistics<T> s(x, n, eps);
        const T mean = s.mean, inverse = s.inverse;
        if (sums_wanted) {
          T* const of_gamma = sums.OfGamma(row);
          T* const of_beta = sums.OfBeta(row);
          ForEach(n, [=](index_t i) TESSERA_LOOP_BODY {
            of_gamma[i] += g[i] * ((x[i] - mean) * inverse);
            of_beta[i] += g[i];
          });
        }
        if (req[0] == kNullOp) return;
        s.Gradient(s.SumsOfGradient(g, x, gamma, n), g, x, gamma, T(1), n, out[0]);
      };
      call.Run<T>(2, body, sums_wanted ? sums.rows_per_group() : 1);
      if (sums_wanted) sums.Store(in_grad[1], req[1], in_grad[2], req[2]);
    });
  }

 private:
  const LayerNormParameters param_;
  const int axis_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<LayerNormProperty, LayerNormOperator>(
        TESSERA_TABLE_PLACE, "LayerNorm",
        "Each row with mean 0 and variance 1, then scaled and shifted.");

}  // namespace
}  // namespace tessera
